//! What the daemon says on a WebSocket, besides events, which are rendered once for all clients.

use std::fmt::Display;

use bytes::Bytes;
use freshet_feed::Position;
use freshet_feed::channel::ChannelName;
use serde::{Serialize, Serializer};

use super::request::ProtocolError;
use crate::close_code::CloseCode;
use crate::frames;

/// A message of the daemon. `id` repeats the id of the message that it answers.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Answer<'a> {
    /// The first message of each connection.
    Welcome {
        #[serde(serialize_with = "as_text")]
        client_id: uuid::Uuid,
        protocol: &'static str,
        heartbeat_secs: u64,
        /// When the connection ends with its token.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_some_text")]
        expires_at: Option<jiff::Timestamp>,
    },
    /// The subscription stands: everything after `position` follows. Without recovery `missing` says what is gone.
    Subscribed {
        #[serde(serialize_with = "as_text")]
        channel: &'a ChannelName,
        #[serde(serialize_with = "as_text")]
        position: Position,
        recovered: bool,
        #[serde(flatten)]
        missing: Option<Missing<'a>>,
        /// How many events of a snapshot follow.
        #[serde(skip_serializing_if = "Option::is_none")]
        snapshot: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
    },
    /// Replay or snapshot is over; what follows is new.
    Live {
        #[serde(serialize_with = "as_text")]
        channel: &'a ChannelName,
        #[serde(serialize_with = "as_text")]
        position: Position,
    },
    /// Some events are gone; everything still held follows.
    Gap {
        #[serde(serialize_with = "as_text")]
        channel: &'a ChannelName,
        #[serde(flatten)]
        missing: Missing<'a>,
    },
    /// So many events were left out, because the client was too slow or asked for less; newer ones follow.
    Coalesced {
        #[serde(serialize_with = "as_text")]
        channel: &'a ChannelName,
        left_out: u64,
    },
    Unsubscribed {
        #[serde(serialize_with = "as_text")]
        channel: &'a ChannelName,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
    },
    Pong {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
    },
    /// The session goes on until then; without a time it does not end by itself.
    Renewed {
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_some_text")]
        expires_at: Option<jiff::Timestamp>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
    },
    /// A message was refused; the connection goes on.
    Error {
        code: &'static str,
        /// A sentence for people.
        error: &'a str,
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_some_text")]
        channel: Option<&'a ChannelName>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
    },
    /// The last message, before the close frame.
    Close { code: u16, reason: &'static str, reconnect: bool },
}

/// What a client asked for and what is held instead.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Missing<'a> {
    /// The position or event id that the client named.
    pub(crate) requested: &'a str,
    /// The first event that is held.
    #[serde(serialize_with = "as_text")]
    pub(crate) oldest: Position,
    /// The last event that is held.
    #[serde(serialize_with = "as_text")]
    pub(crate) newest: Position,
}

impl Answer<'_> {
    /// The JSON object alone.
    pub(crate) fn json(&self) -> Vec<u8> {
        // Memory takes every byte, and no map here has a key that is no text: it cannot fail.
        let json = serde_json::to_vec(self);
        debug_assert!(json.is_ok(), "every answer is JSON");
        json.unwrap_or_default()
    }

    /// A complete text frame.
    pub(crate) fn frame(&self) -> Bytes {
        frames::text(&self.json())
    }
}

impl From<CloseCode> for Answer<'static> {
    fn from(code: CloseCode) -> Self {
        Self::Close { code: code.number(), reason: code.reason(), reconnect: code.reconnects() }
    }
}

/// The answer to a message that is no message of the protocol.
pub(crate) fn refusal(error: &ProtocolError) -> Bytes {
    let sentence = error.problem.to_string();
    let answer = Answer::Error {
        code: error.problem.code(),
        error: &sentence,
        channel: error.channel.as_ref(),
        id: error.id.as_deref(),
    };
    answer.frame()
}

fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// For members that are left out when there is nothing.
fn as_some_text<S: Serializer>(value: &Option<impl Display>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use freshet_feed::Epoch;

    use super::*;
    use crate::protocol::{SUBPROTOCOL, request};

    const POSITION: Position = Position { epoch: Epoch(1), offset: 7 };

    fn text(answer: &Answer<'_>) -> String {
        String::from_utf8(answer.json()).unwrap()
    }

    #[test]
    fn each_message_has_its_form() {
        let channel = &ChannelName::iceberg();
        let id = Some("a\"b");
        let missing =
            Missing { requested: "e-9", oldest: POSITION, newest: Position { offset: 9, ..POSITION } };
        let at = "\"position\":\"0000000000000001-7\"";
        let gone =
            "\"requested\":\"e-9\",\"oldest\":\"0000000000000001-7\",\"newest\":\"0000000000000001-9\"";
        let subscribed = |missing: Option<Missing<'static>>, snapshot, id| Answer::Subscribed {
            channel,
            position: POSITION,
            recovered: missing.is_none(),
            missing,
            snapshot,
            id,
        };
        for (answer, expected) in [
            (
                Answer::Welcome {
                    client_id: uuid::Uuid::from_u128(5),
                    protocol: SUBPROTOCOL,
                    heartbeat_secs: 25,
                    expires_at: None,
                },
                "{\"type\":\"welcome\",\"clientId\":\"00000000-0000-0000-0000-000000000005\",\
                 \"protocol\":\"freshet.v1\",\"heartbeatSecs\":25}"
                    .to_owned(),
            ),
            (
                subscribed(None, None, None),
                format!("{{\"type\":\"subscribed\",\"channel\":\"iceberg\",{at},\"recovered\":true}}"),
            ),
            (
                subscribed(Some(missing), None, id),
                format!(
                    "{{\"type\":\"subscribed\",\"channel\":\"iceberg\",{at},\"recovered\":false,{gone},\
                     \"id\":\"a\\\"b\"}}"
                ),
            ),
            (
                subscribed(None, Some(0), None),
                format!(
                    "{{\"type\":\"subscribed\",\"channel\":\"iceberg\",{at},\"recovered\":true,\"snapshot\":0}}"
                ),
            ),
            (
                Answer::Live { channel, position: POSITION },
                format!("{{\"type\":\"live\",\"channel\":\"iceberg\",{at}}}"),
            ),
            (
                Answer::Gap { channel, missing },
                format!("{{\"type\":\"gap\",\"channel\":\"iceberg\",{gone}}}"),
            ),
            (
                Answer::Coalesced { channel, left_out: u64::MAX },
                "{\"type\":\"coalesced\",\"channel\":\"iceberg\",\"leftOut\":18446744073709551615}"
                    .to_owned(),
            ),
            (
                Answer::Unsubscribed { channel, id: None },
                "{\"type\":\"unsubscribed\",\"channel\":\"iceberg\"}".to_owned(),
            ),
            (Answer::Pong { id: None }, "{\"type\":\"pong\"}".to_owned()),
            (Answer::Pong { id }, "{\"type\":\"pong\",\"id\":\"a\\\"b\"}".to_owned()),
            (
                Answer::Renewed { expires_at: Some("2030-01-01T00:00:00Z".parse().unwrap()), id: None },
                "{\"type\":\"renewed\",\"expiresAt\":\"2030-01-01T00:00:00Z\"}".to_owned(),
            ),
            (Answer::Renewed { expires_at: None, id: None }, "{\"type\":\"renewed\"}".to_owned()),
            (
                Answer::from(CloseCode::ShuttingDown),
                "{\"type\":\"close\",\"code\":1012,\"reason\":\"shutting_down\",\"reconnect\":true}"
                    .to_owned(),
            ),
        ] {
            assert_eq!(text(&answer), expected);
            assert_eq!(answer.frame(), frames::text(expected.as_bytes()), "the frame holds the same");
        }
    }

    #[test]
    fn a_refusal_repeats_what_could_be_read() {
        let error = request::read(br#"{"type":"subscribe","channel":"iceberg","id":"7","form":"now"}"#);
        assert_eq!(
            refusal(&error.unwrap_err()),
            frames::text(
                b"{\"type\":\"error\",\"code\":\"unknown_field\",\
                  \"error\":\"a member is not known in subscribe\",\"channel\":\"iceberg\",\"id\":\"7\"}"
            )
        );
        assert_eq!(
            refusal(&request::read(b"hello").unwrap_err()),
            frames::text(
                b"{\"type\":\"error\",\"code\":\"invalid_json\",\"error\":\"the message is not one JSON value\"}"
            )
        );
    }
}
