//! What a source's messages become: events of one channel, by the channel's format.
//!
//! A channel of table commits follows the event contract ([`decode`](crate::decode)). Any other channel takes JSON
//! objects, and its declaration says where id, time, key and room stand in them. An id must be a text or a number; keys
//! and rooms may be absent. None may be longer than its limit: ids and rooms come back in headers and addresses.

use std::sync::Arc;

use bytes::Bytes;

use crate::channel::{Channel, Channels, Format};
use crate::decode::{body_of, check_duplicates, check_size, decode_event, members_of};
use crate::limits::{Limits, MAX_EVENT_ID_BYTES, MAX_TABLE_BYTES};
use crate::pointer::Pointer;
use crate::rejection::{Rejection, RejectionCode};
use crate::scope::MAX_ROOM_BYTES;
use crate::{Event, timestamp};

/// Takes messages into a channel.
#[derive(Clone, Debug)]
pub struct Intake {
    /// The channel.
    pub channel: Arc<Channel>,
    /// How much of a message is looked at.
    pub limits: Limits,
}

/// What a CloudEvent's attributes say of an object that does not say it itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) time: Option<&'a str>,
}

impl Intake {
    /// Takes table commits into the channel `iceberg` as it is without a declaration.
    #[must_use]
    pub fn iceberg(limits: Limits) -> Self {
        Self { channel: Channels::new(&[]).iceberg(), limits }
    }

    /// Reads one event. Its body shares the memory of `bytes`, without white space and byte order mark around it.
    ///
    /// # Errors
    /// When the bytes are no event of this channel.
    pub fn decode(&self, bytes: &Bytes) -> Result<Event, Rejection> {
        self.decode_in(bytes, Envelope::default())
    }

    pub(crate) fn decode_in(&self, bytes: &Bytes, envelope: Envelope<'_>) -> Result<Event, Rejection> {
        let mut event = match self.channel.format {
            Format::Iceberg => decode_event(bytes, &self.limits)?,
            Format::Json => self.decode_object(bytes, envelope)?,
        };
        event.channel = self.channel.name.clone();
        event.name = Arc::clone(&self.channel.event_name);
        let text = std::str::from_utf8(&event.body).unwrap_or_default();
        if let Some(pointer) = &self.channel.key {
            event.key = bounded(pointer, text, "key", MAX_TABLE_BYTES)?;
        }
        event.room = match &self.channel.room {
            Some(pointer) => bounded(pointer, text, "room", MAX_ROOM_BYTES)?,
            None => None,
        };
        Ok(event)
    }

    fn decode_object(&self, bytes: &Bytes, envelope: Envelope<'_>) -> Result<Event, Rejection> {
        check_size(bytes, &self.limits)?;
        let body = body_of(bytes, &self.limits)?;
        check_duplicates(&members_of(&body)?, None)?;
        let text = std::str::from_utf8(&body).unwrap_or_default();
        let id = match &self.channel.id {
            Some(pointer) => bounded(pointer, text, "id", MAX_EVENT_ID_BYTES)?,
            None => None,
        };
        let id = id.or_else(|| envelope.id.map(str::to_owned));
        if id.as_ref().is_some_and(|id| id.len() > MAX_EVENT_ID_BYTES) {
            return Err(too_long("id", MAX_EVENT_ID_BYTES));
        }
        let event_id = match (id, &self.channel.id) {
            (Some(id), _) => id,
            (None, None) => uuid::Uuid::now_v7().to_string(),
            (None, Some(_)) => {
                return Err(Rejection::field(RejectionCode::MissingField, "id", "required, but absent"));
            }
        };
        let time = match &self.channel.timestamp {
            Some(pointer) => pointer.scalar(text),
            None => None,
        };
        let timestamp = match time.as_deref().or(envelope.time) {
            Some(time) => timestamp::parse(time).ok_or_else(|| {
                let message = "not an RFC 3339 time with an offset, such as 2023-10-27T10:25:40.123Z";
                Rejection::field(RejectionCode::InvalidTimestamp, "timestamp", message)
            })?,
            None => jiff::Timestamp::now(),
        };
        Ok(Event {
            event_id,
            channel: self.channel.name.clone(),
            name: Arc::clone(&self.channel.event_name),
            key: None,
            room: None,
            timestamp,
            source_application: None,
            commit: None,
            body,
        })
    }
}

/// A scalar that goes into lines, headers and addresses, from which it must come back as it was.
fn bounded(
    pointer: &Pointer,
    text: &str,
    field: &'static str,
    max_bytes: usize,
) -> Result<Option<String>, Rejection> {
    let Some(scalar) = pointer.scalar(text).filter(|scalar| !scalar.is_empty()) else { return Ok(None) };
    if scalar.len() > max_bytes {
        return Err(too_long(field, max_bytes));
    }
    if scalar.contains(char::is_control) {
        return Err(Rejection::field(RejectionCode::InvalidText, field, "has control characters"));
    }
    Ok(Some(scalar))
}

fn too_long(field: &'static str, max_bytes: usize) -> Rejection {
    Rejection::field(RejectionCode::TextTooLong, field, format!("the limit is {max_bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Config;

    fn products() -> Intake {
        let channel = Channel::new(&Config {
            name: "products".into(),
            format: Format::Json,
            event_name: "products:update".into(),
            id: "/id".into(),
            key: "/sku".into(),
            room: "/shop/tenant".into(),
            timestamp: "/at".into(),
            ..Config::default()
        });
        Intake { channel: Arc::new(channel.unwrap()), limits: Limits::default() }
    }

    #[test]
    fn a_declaration_says_where_id_key_room_and_time_stand() {
        let body = r#" {"id":18446744073709551617,"sku":"a","shop":{"tenant":"north"},"at":"2026-01-02T03:04:05Z"} "#;
        let event = products().decode(&body.into()).unwrap();
        assert_eq!(event.event_id, "18446744073709551617", "exact, beyond 64 bits");
        assert_eq!((event.channel.as_str(), &*event.name), ("products", "products:update"));
        assert_eq!((event.key.as_deref(), event.room.as_deref()), (Some("a"), Some("north")));
        assert_eq!(event.timestamp, "2026-01-02T03:04:05Z".parse().unwrap());
        assert_eq!(event.body, body.trim());
        assert_eq!(event.commit, None);
    }

    #[test]
    fn key_and_room_may_be_absent_and_the_id_may_not() {
        let event = products().decode(&r#"{"id":"x"}"#.into()).unwrap();
        assert_eq!((event.key, event.room), (None, None));
        let rejection = products().decode(&r#"{"sku":"x"}"#.into()).unwrap_err();
        assert_eq!((rejection.code, rejection.field), (RejectionCode::MissingField, Some("id")));
    }

    #[test]
    fn without_a_place_for_ids_each_message_is_an_event_of_its_own() {
        let channel = Channel::new(&Config { name: "x".into(), format: Format::Json, ..Config::default() });
        let intake = Intake { channel: Arc::new(channel.unwrap()), limits: Limits::default() };
        let ids: Vec<String> = (0..2).map(|_| intake.decode(&"{}".into()).unwrap().event_id).collect();
        assert_ne!(ids[0], ids[1]);
    }

    #[test]
    fn rubbish_has_its_code() {
        let long = format!(r#"{{"id":"x","shop":{{"tenant":"{}"}}}}"#, "r".repeat(MAX_ROOM_BYTES + 1));
        for (body, code) in [
            ("[]", RejectionCode::NotObject),
            ("{", RejectionCode::NotJson),
            (r#"{"id":"a","id":"b"}"#, RejectionCode::DuplicateField),
            (r#"{"id":"a","at":"yesterday"}"#, RejectionCode::InvalidTimestamp),
            (r#"{"id":"a\nb"}"#, RejectionCode::InvalidText),
            (&long, RejectionCode::TextTooLong),
        ] {
            assert_eq!(products().decode(&Bytes::copy_from_slice(body.as_bytes())).unwrap_err().code, code);
        }
    }

    #[test]
    fn a_commit_may_have_another_key_and_a_room() {
        let body = r#"{"eventId":"e","eventTimestamp":"2023-10-27T10:25:40Z","tableIdentifier":"db.t",
            "eventType":"COMMIT_SUCCESS","payload":{"operation":"append","tenant":"north"}}"#;
        let plain = Intake::iceberg(Limits::default()).decode(&body.into()).unwrap();
        assert_eq!((plain.key.as_deref(), plain.room.as_deref()), (Some("db.t"), None));
        let config = Config { room: "/payload/tenant".into(), key: "/eventId".into(), ..Config::default() };
        let channel = Arc::new(Channel::new(&config).unwrap());
        let other = Intake { channel, limits: Limits::default() }.decode(&body.into()).unwrap();
        assert_eq!((other.key.as_deref(), other.room.as_deref()), (Some("e"), Some("north")));
    }
}
