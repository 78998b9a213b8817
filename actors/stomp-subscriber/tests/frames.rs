//! Frames as real brokers sent them (`tests/frames/`), whole, in pieces, and damaged.
#![allow(clippy::unwrap_used, reason = "helpers of tests may end a test")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use freshet_stomp_subscriber::failure::{Failure, FailureClass};
use freshet_stomp_subscriber::frame::{Delivery, Frame, FrameError, FrameReader, KEPT_BYTES, MAX_HEAD_BYTES};

const LIMIT: usize = 1024 * 1024;

fn recorded(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frames").join(format!("{name}.frame"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn all_recorded() -> Vec<PathBuf> {
    let frames = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frames");
    let mut paths: Vec<PathBuf> = ["activemq", "rabbitmq"]
        .iter()
        .flat_map(|broker| std::fs::read_dir(frames.join(broker)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert_eq!(paths.len(), 28);
    paths
}

/// Gives the bytes to a reader in pieces of this size, and collects the frames.
fn read_in_pieces(bytes: &[u8], piece_bytes: usize, limit: usize) -> Result<Vec<Frame>, FrameError> {
    let mut reader = FrameReader::new(limit);
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        reader.buffer().extend_from_slice(piece);
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame);
        }
    }
    assert_eq!(reader.next_frame()?, None);
    assert!(reader.buffer().is_empty(), "bytes are left over");
    Ok(frames)
}

fn read_one(bytes: &[u8]) -> Frame {
    let mut frames = read_in_pieces(bytes, bytes.len(), LIMIT).unwrap();
    assert_eq!(frames.len(), 1);
    frames.remove(0)
}

fn message(name: &str) -> Delivery {
    match read_one(&recorded(name)) {
        Frame::Message(delivery) => delivery,
        other => panic!("expected a MESSAGE, got {other:?}"),
    }
}

fn header<'a>(delivery: &'a Delivery, key: &str) -> Option<&'a str> {
    delivery.headers.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

#[test]
fn both_brokers_open_a_session() {
    for (name, heart_beat) in [("activemq/connected-1.2", "4000,4000"), ("rabbitmq/connected", "1000,1000")] {
        assert_eq!(
            read_one(&recorded(name)),
            Frame::Connected { version: "1.2".into(), heart_beat: Some(heart_beat.into()) }
        );
    }
}

#[test]
fn a_durable_message_of_activemq_keeps_its_digits_and_names_its_acknowledgement() {
    let delivery = message("activemq/message-durable");
    assert_eq!(delivery.ack.as_deref(), Some("ID:vm-37627-1796035153925-4:1"));
    assert_eq!(delivery.message_id, "ID:vm-37627-1796035153925-3:14:-1:1:1");
    assert_eq!(delivery.fault, None);
    assert_eq!(delivery.body.len(), 223);
    let text = std::str::from_utf8(&delivery.body).unwrap();
    assert!(text.contains(r#""snapshotId": 8744736658442914487"#), "{text}");
    assert!(text.contains("\u{fc}n\u{ef}: \\\\ \u{2603} \\u0001 line\\nbreak"), "{text}");
}

#[test]
fn nul_bytes_of_a_body_stay_in_it() {
    for name in ["activemq/message-nul-body", "rabbitmq/message-nul-body-escaped-key"] {
        assert_eq!(message(name).body, Bytes::from_static(b"a\0b\0c"), "{name}");
    }
}

#[test]
fn header_keys_and_values_are_unescaped() {
    let from_activemq = message("activemq/message-escaped-header");
    assert_eq!(header(&from_activemq, "h1"), Some("colon:newline\nback\\slash"));
    let from_rabbitmq = message("rabbitmq/message-nul-body-escaped-key");
    assert_eq!(header(&from_rabbitmq, "h:k"), Some("a:b"));
}

#[test]
fn a_redelivery_is_seen_where_the_broker_says_so() {
    assert!(message("rabbitmq/message-redelivered").redelivered());
    assert!(!message("rabbitmq/message-nul-body-escaped-key").redelivered());
    assert!(!message("activemq/message-redelivered").redelivered(), "ActiveMQ Classic does not say it");
}

#[test]
fn a_text_message_ends_at_its_nul() {
    let delivery = message("activemq/message-topic-text");
    assert_eq!(delivery.body, Bytes::from_static(br#"{"plain":"text without content-length"}"#));
    assert_eq!(delivery.ack, None);
}

#[test]
fn each_refusal_of_a_real_broker_has_its_class() {
    let cases = [
        ("activemq/error-password", FailureClass::LoginRefused),
        ("activemq/error-client-id-in-use", FailureClass::ClientIdInUse),
        ("activemq/error-version", FailureClass::VersionUnsupported),
        ("activemq/error-too-big", FailureClass::FrameTooLarge),
        ("activemq/error-ack", FailureClass::BrokerError),
        ("activemq/error-command", FailureClass::BrokerError),
        ("rabbitmq/error-password", FailureClass::LoginRefused),
        ("rabbitmq/error-vhost", FailureClass::LoginRefused),
        ("rabbitmq/error-version", FailureClass::VersionUnsupported),
        ("rabbitmq/error-destination", FailureClass::DestinationRefused),
        ("rabbitmq/error-ack", FailureClass::BrokerError),
    ];
    for (name, class) in cases {
        let Frame::Error { message, detail } = read_one(&recorded(name)) else {
            panic!("{name} is no ERROR frame");
        };
        let failure = Failure::from_error_frame(&message, &detail);
        assert_eq!(failure.class, class, "{name}: {failure}");
        assert!(!failure.reason.contains("ProtocolConverter"), "{name} shows a stack trace: {failure}");
    }
}

#[test]
fn every_recorded_frame_reads_the_same_in_pieces_of_any_size() {
    let mut stream = Vec::new();
    for path in all_recorded() {
        stream.extend_from_slice(&std::fs::read(path).unwrap());
        // Brokers send line feeds between frames: the end of a frame, and heart-beats.
        stream.extend_from_slice(b"\n\n\r\n");
    }
    let whole = read_in_pieces(&stream, stream.len(), LIMIT).unwrap();
    assert_eq!(whole.len(), 28);
    assert!(whole.iter().all(|frame| !matches!(frame, Frame::Message(Delivery { fault: Some(_), .. }))));
    for piece_bytes in [1, 2, 3, 5, 7, 64, 1000] {
        assert_eq!(read_in_pieces(&stream, piece_bytes, LIMIT).unwrap(), whole, "{piece_bytes}");
    }
}

#[test]
fn carriage_returns_before_line_feeds_do_not_matter() {
    let plain = b"MESSAGE\nmessage-id:1\ndestination:d\nsubscription:s\nack:a\ncontent-length:2\n\n\n\n\0";
    let head_end = plain.len() - 3;
    let mut with_returns = Vec::new();
    for &byte in &plain[..head_end] {
        if byte == b'\n' {
            with_returns.push(b'\r');
        }
        with_returns.push(byte);
    }
    with_returns.extend_from_slice(&plain[head_end..]);
    assert_eq!(read_one(&with_returns), read_one(plain));
}

#[test]
fn of_a_frame_that_is_too_large_headers_and_first_bytes_are_kept_and_the_next_is_whole() {
    let body = vec![b'x'; 3 * 1024 * 1024];
    let small = recorded("activemq/message-durable");
    for with_length in [true, false] {
        let mut stream =
            Vec::from(&b"MESSAGE\nmessage-id:big\ndestination:d\nsubscription:s\nack:a\\c1\n"[..]);
        if with_length {
            stream.extend_from_slice(format!("content-length:{}\n", body.len()).as_bytes());
        }
        stream.push(b'\n');
        stream.extend_from_slice(&body);
        stream.push(0);
        stream.extend_from_slice(b"\n\n");
        stream.extend_from_slice(&small);
        for piece_bytes in [100, 65_536, 1024 * 1024 + 7, stream.len()] {
            let frames = read_in_pieces(&stream, piece_bytes, LIMIT).unwrap();
            let [Frame::Message(big), Frame::Message(next)] = &frames[..] else {
                panic!("expected two messages, got {}", frames.len());
            };
            assert_eq!(big.message_id, "big");
            assert_eq!(big.ack.as_deref(), Some("a:1"));
            assert_eq!(big.body, &body[..KEPT_BYTES]);
            let fault = big.fault.as_ref().unwrap();
            assert_eq!(fault.code, "frame_too_large");
            assert!(fault.reason.contains("3145728 bytes"), "{}", fault.reason);
            assert_eq!(next, &message("activemq/message-durable"));
        }
    }
}

#[test]
fn a_claimed_length_beyond_all_memory_is_never_allocated() {
    let mut reader = FrameReader::new(LIMIT);
    let head = format!("MESSAGE\nmessage-id:1\nack:a\ncontent-length:{}\n\nxyz", u64::MAX);
    reader.buffer().extend_from_slice(head.as_bytes());
    assert_eq!(reader.next_frame(), Ok(None));
    assert!(reader.buffer().capacity() < LIMIT);
}

#[test]
fn a_header_that_is_no_utf8_costs_only_its_message() {
    let mut stream = Vec::from(
        &b"MESSAGE\nmessage-id:1\ndestination:d\nsubscription:s\nack:a1\nx:\xff\xfe\ncontent-length:3\n\n\0b\0\0"[..],
    );
    stream.extend_from_slice(&recorded("activemq/message-durable"));
    let frames = read_in_pieces(&stream, stream.len(), LIMIT).unwrap();
    let [Frame::Message(odd), Frame::Message(next)] = &frames[..] else {
        panic!("expected two messages, got {frames:?}");
    };
    assert_eq!(odd.ack.as_deref(), Some("a1"));
    assert_eq!(odd.body, Bytes::from_static(b"\0b\0"));
    assert_eq!(odd.fault.as_ref().unwrap().code, "frame_malformed");
    assert_eq!(header(odd, "x"), Some("\u{fffd}\u{fffd}"));
    assert_eq!(next.fault, None);
}

#[test]
fn a_message_without_its_required_headers_costs_only_itself() {
    let Frame::Message(odd) = read_one(b"MESSAGE\nack:a1\n\nbody\0") else { panic!("no message") };
    assert_eq!(odd.fault.as_ref().unwrap().code, "frame_malformed");
    assert_eq!(odd.ack.as_deref(), Some("a1"));
    assert_eq!(odd.body, Bytes::from_static(b"body"));
}

#[test]
fn what_is_no_stomp_ends_the_connection() {
    let endless_headers = vec![b'h'; MAX_HEAD_BYTES + 1];
    let http = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n\0";
    let wrong_length = b"MESSAGE\nmessage-id:1\ncontent-length:2\n\nabc\0";
    let unknown = b"PANIC\n\n\0";
    type IsExpected = fn(&FrameError) -> bool;
    let cases: [(&[u8], IsExpected); 4] = [
        (&endless_headers, |error| *error == FrameError::HeadTooLarge),
        (wrong_length, |error| *error == FrameError::NotTerminated),
        (http, |error| matches!(error, FrameError::Malformed(_))),
        (unknown, |error| matches!(error, FrameError::Malformed(_))),
    ];
    for (bytes, is_expected) in cases {
        let mut reader = FrameReader::new(LIMIT);
        reader.buffer().extend_from_slice(bytes);
        let error = reader.next_frame().unwrap_err();
        assert!(is_expected(&error), "{error:?}");
        assert_eq!(Failure::from(error).class, FailureClass::FrameMalformed);
    }
}
