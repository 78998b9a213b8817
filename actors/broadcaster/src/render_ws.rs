//! Events as WebSocket frames: unmasked text frames of RFC 6455, section 5.2, each with one JSON object.

use bytes::{BufMut, BytesMut};
use freshet_feed::Position;

/// The most bytes that a frame has before its payload, when it is not masked.
pub const MAX_HEAD_BYTES: usize = 10;

/// The final frame of a text message: FIN is set, and the opcode is 1.
const FINAL_TEXT: u8 = 0x81;

/// Gives the head of an unmasked text frame that holds a whole message, and how many of the bytes it is: 2 for
/// payloads up to 125 bytes, 4 up to 65,535, else 10.
#[must_use]
pub fn text_head(payload_bytes: usize) -> ([u8; MAX_HEAD_BYTES], usize) {
    let mut head = [0; MAX_HEAD_BYTES];
    head[0] = FINAL_TEXT;
    let head_bytes = if let Ok(short @ 0..=125) = u8::try_from(payload_bytes) {
        head[1] = short;
        2
    } else if let Ok(medium) = u16::try_from(payload_bytes) {
        head[1] = 126;
        head[2..4].copy_from_slice(&medium.to_be_bytes());
        4
    } else {
        head[1] = 127;
        head[2..].copy_from_slice(&(payload_bytes as u64).to_be_bytes());
        10
    };
    (head, head_bytes)
}

/// Appends one complete frame to `frame`, whatever that holds already:
/// `{"type":"event","channel","event","id","position","key"?,"room"?,"data"}`.
///
/// `body` is the event's JSON, passed on byte by byte as `data`. Everything before it is written behind room for
/// the longest head; then its length is known, and it is moved up to the head that fits. So nothing is written
/// twice, and the body is copied once.
#[expect(clippy::too_many_arguments, reason = "the members of one message, in their order on the wire")]
pub fn write_ws(
    channel: &str,
    name: &str,
    id: &str,
    key: Option<&str>,
    room: Option<&str>,
    position: Position,
    body: &[u8],
    frame: &mut BytesMut,
) {
    const FIXED_BYTES: usize = 160;
    let texts = [Some(channel), Some(name), Some(id), key, room];
    let texts_bytes: usize = texts.iter().flatten().map(|text| text.len()).sum();
    frame.reserve(FIXED_BYTES + texts_bytes + body.len());

    let start = frame.len();
    frame.put_bytes(0, MAX_HEAD_BYTES);
    frame.put_slice(b"{\"type\":\"event\",\"channel\":");
    put_json(channel, frame);
    frame.put_slice(b",\"event\":");
    put_json(name, frame);
    frame.put_slice(b",\"id\":");
    put_json(id, frame);
    frame.put_slice(b",\"position\":\"");
    frame.put_slice(position.to_string().as_bytes());
    frame.put_u8(b'"');
    if let Some(key) = key {
        frame.put_slice(b",\"key\":");
        put_json(key, frame);
    }
    if let Some(room) = room {
        frame.put_slice(b",\"room\":");
        put_json(room, frame);
    }
    frame.put_slice(b",\"data\":");

    let envelope = start + MAX_HEAD_BYTES..frame.len();
    let envelope_bytes = envelope.len();
    let (head, head_bytes) = text_head(envelope_bytes + body.len() + 1);
    frame[start..start + head_bytes].copy_from_slice(&head[..head_bytes]);
    frame.copy_within(envelope, start + head_bytes);
    frame.truncate(start + head_bytes + envelope_bytes);
    frame.put_slice(body);
    frame.put_u8(b'}');
}

/// Appends a JSON string. Neither text as JSON nor writing to memory can fail.
fn put_json(text: &str, frame: &mut BytesMut) {
    let written = serde_json::to_writer(frame.writer(), text);
    debug_assert!(written.is_ok(), "text is always JSON");
}

#[cfg(test)]
mod tests {
    use freshet_feed::Epoch;
    use serde_json::{Value, json};

    use super::*;

    const POSITION: Position = Position { epoch: Epoch(1), offset: 7 };

    fn rendered(body: &[u8]) -> BytesMut {
        let mut frame = BytesMut::new();
        write_ws("iceberg", "iceberg-mutation", "e-1", None, None, POSITION, body, &mut frame);
        frame
    }

    /// Splits one frame into its head and its payload as section 5.2 tells a receiver to.
    fn read(frame: &[u8]) -> (usize, &[u8]) {
        assert_eq!(frame[0], 0b1000_0001, "a final text frame without reserved bits");
        let (head_bytes, payload_bytes) = match frame[1] {
            short @ 0..=125 => (2, u64::from(short)),
            126 => (4, u64::from(u16::from_be_bytes(frame[2..4].try_into().unwrap()))),
            127 => (10, u64::from_be_bytes(frame[2..10].try_into().unwrap())),
            _ => panic!("a server's frames are not masked"),
        };
        assert_eq!(frame.len() as u64, head_bytes as u64 + payload_bytes, "the length is the payload's");
        (head_bytes, &frame[head_bytes..])
    }

    #[test]
    fn a_frame_has_the_members_in_their_order() {
        let mut frame = BytesMut::new();
        write_ws("products", "update", "e", Some("k"), Some("north"), POSITION, b"{\"a\": 1.0}", &mut frame);
        let (_, payload) = read(&frame);
        assert_eq!(
            std::str::from_utf8(payload).unwrap(),
            "{\"type\":\"event\",\"channel\":\"products\",\"event\":\"update\",\"id\":\"e\",\
             \"position\":\"0000000000000001-7\",\"key\":\"k\",\"room\":\"north\",\"data\":{\"a\": 1.0}}"
        );
    }

    #[test]
    fn the_length_has_the_form_that_it_needs_at_each_border() {
        let envelope_bytes = read(&rendered(b"")).1.len();
        for (payload_bytes, head_bytes) in [
            (envelope_bytes, if envelope_bytes <= 125 { 2 } else { 4 }),
            (125, 2),
            (126, 4),
            (127, 4),
            (65_535, 4),
            (65_536, 10),
            (1 << 20, 10),
        ] {
            let body = vec![b'1'; payload_bytes - envelope_bytes];
            let frame = rendered(&body);
            let (found, payload) = read(&frame);
            assert_eq!((found, payload.len()), (head_bytes, payload_bytes));
            assert_eq!(&payload[envelope_bytes - 1..payload_bytes - 1], body, "the body is untouched");
            assert_eq!(payload[payload_bytes - 1], b'}');
        }
    }

    #[test]
    fn frames_follow_each_other_in_one_buffer() {
        let mut frames = rendered(b"1");
        let first = frames.clone();
        write_ws("iceberg", "iceberg-mutation", "e-2", None, None, POSITION, &[b'2'; 70_000], &mut frames);
        write_ws("iceberg", "iceberg-mutation", "e-1", None, None, POSITION, b"1", &mut frames);
        assert!(frames.starts_with(&first) && frames.ends_with(&first));
        let middle = &frames[first.len()..frames.len() - first.len()];
        assert_eq!(read(middle).0, 10);
    }

    #[test]
    fn no_text_can_inject_members_and_the_body_keeps_its_bytes() {
        let hostile = "\",\"type\":\"close\"\n\u{0}\u{1f}\\ é \u{2028} 🦀";
        let body = b"{ \"snapshotId\":\t8734628364872364872,\n\"x\":1e400 }";
        let mut frame = BytesMut::new();
        write_ws(hostile, hostile, hostile, Some(hostile), Some(hostile), POSITION, body, &mut frame);
        let (_, payload) = read(&frame);
        assert!(payload.ends_with(&[b"\"data\":", &body[..], b"}"].concat()));
        let envelope = String::from_utf8(payload.to_vec()).unwrap().replace("1e400", "0");
        let message: Value = serde_json::from_str(&envelope).unwrap();
        for member in ["channel", "event", "id", "key", "room"] {
            assert_eq!(message[member], json!(hostile), "{member}");
        }
        assert_eq!(message["type"], "event");
        assert_eq!(message.as_object().unwrap().len(), 8);
    }
}
