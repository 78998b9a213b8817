//! A batch of messages, from their arrival to their acknowledgement.
//!
//! The `ack` ids stay locked in [`Unsettled`] until its owner says that events and letters are durable: there is
//! no other way to get at them, so nothing is acknowledged too early.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use freshet_feed::{DeadLetter, Event};

use crate::frame::Delivery;

/// Why a body is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code of the reason.
    pub code: String,
    /// The reason in a sentence, without the contents of the body.
    pub reason: String,
}

/// Reads an event from the headers (unescaped, in their order) and the body of a message.
pub type Decode = dyn Fn(&[(String, String)], &Bytes) -> Result<Event, Refusal> + Send + Sync;

/// Messages that came and are not yet stored.
#[derive(Debug)]
pub struct Batch {
    max_messages: usize,
    max_bytes: usize,
    bytes: usize,
    events: Vec<Event>,
    letters: Vec<DeadLetter>,
    acks: Vec<String>,
}

/// The acknowledgements of a batch whose events and letters are not known to be durable.
#[derive(Debug)]
#[must_use = "without an acknowledgement the messages come again"]
pub struct Unsettled(Vec<String>);

impl Unsettled {
    /// Events and letters are durable: gives the `ack` ids, in the order in which the messages came.
    pub fn settled(self) -> Vec<String> {
        self.0
    }
}

impl Batch {
    /// Holds this many messages, and bodies of this size together, in bytes.
    #[must_use]
    pub fn new(max_messages: usize, max_bytes: usize) -> Self {
        Self { max_messages, max_bytes, bytes: 0, events: Vec::new(), letters: Vec::new(), acks: Vec::new() }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.letters.is_empty()
    }

    /// Whether it takes no more. The message that exceeds the bytes is taken: the bound is soft by one frame.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.events.len() + self.letters.len() >= self.max_messages || self.bytes >= self.max_bytes
    }

    /// Takes a message: as an event, or as a letter with the reason. `source` is the subscription's name.
    pub fn take(&mut self, delivery: Delivery, source: &str, decode: &Decode) {
        self.bytes += delivery.body.len();
        self.acks.extend(delivery.ack);
        let refusal = match delivery.fault {
            Some(fault) => Refusal { code: fault.code.to_owned(), reason: fault.reason },
            None => match decode_or_refuse(decode, &delivery.headers, &delivery.body) {
                Ok(event) => {
                    self.events.push(event);
                    return;
                }
                Err(refusal) => refusal,
            },
        };
        self.letters.push(DeadLetter {
            source: source.to_owned(),
            source_position: delivery.message_id,
            code: refusal.code,
            reason: refusal.reason,
            headers: delivery.headers,
            body: delivery.body,
        });
    }

    /// Empties it: the events and the letters to store, and the acknowledgements that this unlocks.
    pub fn hand_over(&mut self) -> (Vec<Event>, Vec<DeadLetter>, Unsettled) {
        self.bytes = 0;
        (
            std::mem::take(&mut self.events),
            std::mem::take(&mut self.letters),
            Unsettled(std::mem::take(&mut self.acks)),
        )
    }
}

/// A decoder that panics would take the actor with it, and the message, never acknowledged, would come again for ever.
/// The panic's own words are left out: they may quote the body.
fn decode_or_refuse(decode: &Decode, headers: &[(String, String)], body: &Bytes) -> Result<Event, Refusal> {
    // The decoder keeps nothing between calls that a panic could leave half-changed.
    let decoded = catch_unwind(AssertUnwindSafe(|| decode(headers, body)));
    decoded.unwrap_or_else(|_| {
        Err(Refusal {
            code: "decoder_failed".to_owned(),
            reason: "the decoder panicked on this message, which is a fault of Freshet".to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Fault;

    fn event(body: &Bytes) -> Event {
        Event {
            event_id: String::from_utf8(body.to_vec()).unwrap(),
            channel: freshet_feed::ChannelName::iceberg(),
            name: "iceberg-mutation".into(),
            key: None,
            room: None,
            timestamp: jiff::Timestamp::UNIX_EPOCH,
            source_application: None,
            commit: None,
            body: body.clone(),
        }
    }

    fn decode(_: &[(String, String)], body: &Bytes) -> Result<Event, Refusal> {
        if body.starts_with(b"bad") {
            return Err(Refusal { code: "event_not_json".into(), reason: "it is bad".into() });
        }
        assert!(!body.starts_with(b"poison"), "the decoder breaks");
        Ok(event(body))
    }

    fn delivery(body: &'static str, ack: &str) -> Delivery {
        Delivery {
            message_id: format!("id-of-{ack}"),
            ack: Some(ack.into()),
            headers: vec![("k".into(), "v".into())],
            body: Bytes::from_static(body.as_bytes()),
            fault: None,
        }
    }

    #[test]
    fn good_and_bad_are_acknowledged_together_in_their_order() {
        let mut batch = Batch::new(10, 1000);
        batch.take(delivery("a", "1"), "commits", &decode);
        batch.take(delivery("bad b", "2"), "commits", &decode);
        batch.take(delivery("c", "3"), "commits", &decode);
        let (events, letters, unsettled) = batch.hand_over();
        assert_eq!(events.iter().map(|event| event.event_id.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(
            letters,
            [DeadLetter {
                source: "commits".into(),
                source_position: "id-of-2".into(),
                code: "event_not_json".into(),
                reason: "it is bad".into(),
                headers: vec![("k".into(), "v".into())],
                body: Bytes::from_static(b"bad b"),
            }]
        );
        assert_eq!(unsettled.settled(), ["1", "2", "3"]);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_faulty_frame_never_reaches_the_decoder() {
        let mut batch = Batch::new(10, 1000);
        let fault = Fault { code: "frame_too_large", reason: "too large".into() };
        batch.take(Delivery { fault: Some(fault), ..delivery("good", "1") }, "commits", &decode);
        let (events, letters, _) = batch.hand_over();
        assert!(events.is_empty());
        assert_eq!(letters[0].code, "frame_too_large");
    }

    #[test]
    fn a_message_on_which_the_decoder_panics_is_buried_and_its_neighbours_are_taken() {
        let mut batch = Batch::new(10, 1000);
        batch.take(delivery("a", "1"), "commits", &decode);
        batch.take(delivery("poison", "2"), "commits", &decode);
        batch.take(delivery("c", "3"), "commits", &decode);
        let (events, letters, unsettled) = batch.hand_over();
        assert_eq!(events.len(), 2);
        assert_eq!((letters[0].code.as_str(), &letters[0].body[..]), ("decoder_failed", &b"poison"[..]));
        assert!(!letters[0].reason.contains("breaks"), "no words of the panic: {}", letters[0].reason);
        assert_eq!(unsettled.settled(), ["1", "2", "3"]);
    }

    #[test]
    fn it_is_full_by_number_or_by_bytes_and_empty_again_after_the_hand_over() {
        let mut by_number = Batch::new(2, 1000);
        by_number.take(delivery("a", "1"), "s", &decode);
        assert!(!by_number.is_full());
        by_number.take(delivery("bad", "2"), "s", &decode);
        assert!(by_number.is_full());
        let _ = by_number.hand_over();
        assert!(!by_number.is_full());

        let mut by_bytes = Batch::new(100, 4);
        by_bytes.take(delivery("abc", "1"), "s", &decode);
        assert!(!by_bytes.is_full());
        by_bytes.take(delivery("de", "2"), "s", &decode);
        assert!(by_bytes.is_full());
        let _ = by_bytes.hand_over();
        assert!(!by_bytes.is_full());
    }
}
