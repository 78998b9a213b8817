//! Events as server-sent events, by the event stream format of the WHATWG HTML standard, section 9.2.5.

use bytes::{BufMut, BytesMut};
use freshet_feed::{Event, Position};

/// Writes one frame: `id`, `event`, the body as `data` lines, and the empty line that ends it.
///
/// The body's bytes are passed on as they are. Line ends inside it, which JSON allows between tokens only, start a
/// new `data` line; a client joins the lines by line feeds and gets equal JSON.
/// The id is the event's own, unless it holds a character that the format cannot carry; then it is the position,
/// from which a client resumes as well.
pub fn write_sse(event: &Event, position: Position, frame: &mut BytesMut) {
    frame.reserve(event.body.len() + event.event_id.len() + 64);
    frame.put_slice(b"id: ");
    if event.event_id.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0')) {
        frame.put_slice(position.to_string().as_bytes());
    } else {
        frame.put_slice(event.event_id.as_bytes());
    }
    frame.put_slice(b"\nevent: ");
    frame.put_slice(event.name.as_bytes());
    frame.put_u8(b'\n');
    write_data(&event.body, frame);
    frame.put_u8(b'\n');
}

/// Writes `data` lines, one for each line of the text. CR LF, CR and LF each end a line.
fn write_data(text: &[u8], frame: &mut BytesMut) {
    let mut rest = text;
    loop {
        let line_end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        frame.put_slice(b"data: ");
        frame.put_slice(&rest[..line_end.unwrap_or(rest.len())]);
        frame.put_u8(b'\n');
        let Some(line_end) = line_end else { return };
        let is_pair = rest[line_end..].starts_with(b"\r\n");
        rest = &rest[line_end + if is_pair { 2 } else { 1 }..];
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use freshet_feed::{ChannelName, Epoch};

    use super::*;

    fn rendered(event_id: &str, body: &'static str) -> String {
        let event = Event {
            event_id: event_id.to_owned(),
            channel: ChannelName::iceberg(),
            name: "iceberg-mutation".into(),
            key: None,
            room: None,
            timestamp: "2023-10-27T10:25:40.123Z".parse().unwrap(),
            source_application: None,
            commit: None,
            body: Bytes::from_static(body.as_bytes()),
        };
        let mut frame = BytesMut::new();
        write_sse(&event, Position { epoch: Epoch(1), offset: 7 }, &mut frame);
        String::from_utf8(frame.to_vec()).unwrap()
    }

    #[test]
    fn a_frame_has_id_event_and_data() {
        assert_eq!(rendered("e-1", "{\"a\":1}"), "id: e-1\nevent: iceberg-mutation\ndata: {\"a\":1}\n\n");
    }

    #[test]
    fn each_line_of_a_body_is_a_data_line() {
        assert_eq!(
            rendered("e", "{\r\n\"a\":1,\r\"b\":2\n\n}"),
            "id: e\nevent: iceberg-mutation\ndata: {\ndata: \"a\":1,\ndata: \"b\":2\ndata: \ndata: }\n\n"
        );
    }

    #[test]
    fn an_id_cannot_inject_lines() {
        for id in ["x\ndata: forged", "x\rdata: forged", "x\0"] {
            assert_eq!(
                rendered(id, "{}"),
                "id: 0000000000000001-7\nevent: iceberg-mutation\ndata: {}\n\n",
                "{id:?}"
            );
        }
    }
}
