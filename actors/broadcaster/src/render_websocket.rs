//! Events as messages of the WebSocket protocol `freshet.v1`, each in one text frame of RFC 6455, section 5.2.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};
use freshet_feed::{Event, Position};

/// FIN, and the opcode of a text frame.
const FINAL_TEXT: u8 = 0x81;

/// Writes one complete frame, unmasked as a server's frames are. The body's bytes are passed on as they are.
pub(crate) fn write_websocket(event: &Event, position: Position, frame: &mut BytesMut) {
    let mut head =
        format!("{{\"type\":\"event\",\"channel\":\"{}\",\"event\":\"{}\"", event.channel, event.name);
    let mut member = |name: &str, text: &str| {
        let quoted = serde_json::Value::from(text);
        let _ = write!(head, ",\"{name}\":{quoted}");
    };
    member("id", &event.event_id);
    member("position", &position.to_string());
    if let Some(key) = &event.key {
        member("key", key);
    }
    if let Some(room) = &event.room {
        member("room", room);
    }
    head.push_str(",\"data\":");
    let length = head.len() + event.body.len() + 1;
    frame.reserve(length + 10);
    frame.put_u8(FINAL_TEXT);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ ..=125), _) => frame.put_u8(length),
        (_, Ok(length)) => {
            frame.put_u8(126);
            frame.put_u16(length);
        }
        _ => {
            frame.put_u8(127);
            frame.put_u64(length as u64);
        }
    }
    frame.put_slice(head.as_bytes());
    frame.put_slice(&event.body);
    frame.put_u8(b'}');
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use freshet_feed::{ChannelName, Epoch};

    use super::*;

    fn written(body: &str, key: Option<&str>) -> Vec<u8> {
        let event = Event {
            event_id: "e\"1".to_owned(),
            channel: ChannelName::iceberg(),
            name: "x".into(),
            key: key.map(str::to_owned),
            room: None,
            timestamp: "2023-10-27T10:25:40.123Z".parse().unwrap(),
            source_application: None,
            commit: None,
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        let mut frame = BytesMut::new();
        write_websocket(&event, Position { epoch: Epoch(1), offset: 7 }, &mut frame);
        frame.to_vec()
    }

    #[test]
    fn a_message_tells_channel_event_id_position_key_and_the_untouched_data() {
        let frame = written("{\"n\": 1.10}", Some("k\n"));
        let text = "{\"type\":\"event\",\"channel\":\"iceberg\",\"event\":\"x\",\"id\":\"e\\\"1\",\
                    \"position\":\"0000000000000001-7\",\"key\":\"k\\n\",\"data\":{\"n\": 1.10}}";
        assert_eq!(frame[..2], [0x81, u8::try_from(text.len()).unwrap()]);
        assert_eq!(std::str::from_utf8(&frame[2..]).unwrap(), text);
    }

    #[test]
    fn the_length_takes_the_form_of_the_standard() {
        // The frame around an empty body is shorter than 126 bytes, so bodies reach each limit from below.
        let around = written("", None).len() - 2;
        for (length, head) in [
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 255, 255]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let frame = written(&"x".repeat(length - around), None);
            assert_eq!(frame[..head.len()], head, "{length}");
            assert_eq!(frame.len(), head.len() + length);
        }
    }
}
