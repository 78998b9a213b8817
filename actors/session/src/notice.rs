//! What a stream says besides events, in the event stream format of the WHATWG HTML standard, section 9.2.
//!
//! An `id` line in a block without `data` dispatches no event and still moves the client's last event id: the
//! standard's dispatch sets the last event id first, and only then returns for want of data.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use freshet_feed::{ChannelName, Position};
use jiff::Timestamp;
use serde_json::json;

use crate::close_code::CloseCode;
use crate::frames;
use crate::protocol::answer::Answer;

/// The first block of a stream: who the client is, when its token ends, when to come back, and the id from which it resumes when it leaves
/// before its first event. Each stream begins with an empty last event id, so one that resumes is told its own
/// again; an id that the format cannot carry is left out.
pub(crate) fn connected(
    client_id: uuid::Uuid,
    expires_at: Option<Timestamp>,
    retry: Duration,
    id: &str,
) -> Bytes {
    let is_safe = !id.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0'));
    let id = if is_safe { format!("id: {id}\n") } else { String::new() };
    let retry = retry.as_millis();
    let end = expires_at.map(|end| format!(",\"expiresAt\":\"{end}\"")).unwrap_or_default();
    format!("event: connected\ndata: {{\"clientId\":\"{client_id}\"{end}}}\n{id}retry: {retry}\n\n").into()
}

/// A comment; with the id of a client that has everything up to there. The id holds no line end.
pub(crate) fn heartbeat(id: Option<&str>) -> Bytes {
    match id {
        Some(id) => format!(":\nid: {id}\n\n").into(),
        None => Bytes::from_static(b":\n\n"),
    }
}

/// What the client asked for is not held any more. Everything from `oldest` on follows; `before_oldest` is the
/// position from which that resumes.
pub(crate) fn gap(requested: &str, before_oldest: Position, newest: Position) -> Bytes {
    let oldest = Position { offset: before_oldest.offset + 1, ..before_oldest };
    let data = json!({
        "requested": requested, "oldest": oldest.to_string(), "newest": newest.to_string(),
    });
    format!("id: {before_oldest}\nevent: gap\ndata: {data}\n\n").into()
}

/// Older events of tables were left out, because the client read too slowly; the newest of each table follow.
pub(crate) fn coalesced(left_out: u64) -> Bytes {
    format!("event: coalesced\ndata: {{\"leftOut\":{left_out}}}\n\n").into()
}

/// The last block of a stream that the daemon ends.
pub(crate) fn close(code: CloseCode, retry: Duration) -> Bytes {
    let data = json!({
        "code": code.number(), "reason": code.reason(), "reconnect": code.reconnects(),
    });
    format!("retry: {}\nevent: close\ndata: {data}\n\n", retry.as_millis()).into()
}

/// The last message of a WebSocket that the daemon ends, and the close frame.
pub(crate) fn websocket_close(code: CloseCode) -> Bytes {
    let data = json!({
        "type": "close", "code": code.number(), "reason": code.reason(), "reconnect": code.reconnects(),
    });
    let mut joined = BytesMut::from(&*frames::text(data.to_string().as_bytes()));
    joined.extend_from_slice(&frames::close(code.number(), code.reason()));
    joined.freeze()
}

/// Events of these channels were left out, because the client read too slowly: a message for each.
pub(crate) fn websocket_coalesced(left_out: &BTreeMap<ChannelName, u64>) -> Bytes {
    let mut joined = BytesMut::new();
    for (channel, &left_out) in left_out {
        joined.extend_from_slice(&Answer::Coalesced { channel, left_out }.frame());
    }
    joined.freeze()
}

#[cfg(test)]
mod tests {
    use freshet_feed::Epoch;

    use super::*;

    const POSITION: Position = Position { epoch: Epoch(1), offset: 7 };

    #[test]
    fn a_client_learns_where_it_stands_unless_the_id_would_forge_lines() {
        let client = uuid::Uuid::from_u128(5);
        assert_eq!(
            connected(client, None, Duration::from_millis(1500), &POSITION.to_string()),
            "event: connected\ndata: {\"clientId\":\"00000000-0000-0000-0000-000000000005\"}\n\
             id: 0000000000000001-7\nretry: 1500\n\n"
        );
        for id in ["x\ndata: forged", "x\rdata: forged", "x\0"] {
            assert_eq!(
                connected(client, None, Duration::from_millis(1500), id),
                "event: connected\ndata: {\"clientId\":\"00000000-0000-0000-0000-000000000005\"}\nretry: 1500\n\n",
                "{id:?}"
            );
        }
    }

    #[test]
    fn a_client_with_a_token_learns_when_its_stream_ends() {
        let end = Some("2030-01-01T00:00:00Z".parse().unwrap());
        let block = connected(uuid::Uuid::from_u128(5), end, Duration::from_secs(1), "e7");
        assert_eq!(
            block,
            "event: connected\ndata: {\"clientId\":\"00000000-0000-0000-0000-000000000005\",\
             \"expiresAt\":\"2030-01-01T00:00:00Z\"}\nid: e7\nretry: 1000\n\n"
        );
    }

    #[test]
    fn a_websocket_is_told_channel_by_channel_what_was_left_out() {
        let orders = ChannelName::new("orders").unwrap();
        let told = websocket_coalesced(&BTreeMap::from([(ChannelName::iceberg(), 3), (orders, 7)]));
        let texts = [
            &br#"{"type":"coalesced","channel":"iceberg","leftOut":3}"#[..],
            br#"{"type":"coalesced","channel":"orders","leftOut":7}"#,
        ];
        assert_eq!(told, texts.map(frames::text).concat());
    }

    #[test]
    fn heartbeats_are_comments() {
        assert_eq!(heartbeat(Some("e7")), ":\nid: e7\n\n");
        assert_eq!(heartbeat(None), ":\n\n");
    }

    #[test]
    fn what_a_client_asked_for_cannot_inject_lines() {
        let block = gap("x\n\ndata: \"", POSITION, Position { offset: 9, ..POSITION });
        assert_eq!(
            block,
            "id: 0000000000000001-7\nevent: gap\ndata: {\"newest\":\"0000000000000001-9\",\
             \"oldest\":\"0000000000000001-8\",\"requested\":\"x\\n\\ndata: \\\"\"}\n\n"
        );
    }

    #[test]
    fn a_close_tells_its_code_and_when_to_come_back() {
        assert_eq!(
            close(CloseCode::OutboxFull, Duration::from_secs(2)),
            "retry: 2000\nevent: close\ndata: {\"code\":4001,\"reason\":\"outbox_full\",\"reconnect\":true}\n\n"
        );
    }
}
