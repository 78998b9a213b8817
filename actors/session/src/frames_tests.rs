//! The rules of RFC 6455 for what a server reads, in the groups of the public Autobahn test suite. Each case is read
//! whole, byte by byte and in two parts, and must have the same outcome.

use Incoming::{Close, Pong};
use proptest::prelude::*;

use super::*;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// What a client with these bytes gets: what was read, then how it ended.
type Outcome = (Vec<Incoming>, Result<(), FrameError>);

fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        medium @ 126..=65_535 => {
            frame.push(0x80 | 126);
            frame.extend((medium as u16).to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

/// A final frame.
fn frame(opcode: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    masked(0x80 | opcode, payload.as_ref())
}

/// A frame that others follow.
fn fragment(opcode: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    masked(opcode, payload.as_ref())
}

fn closing(code: u16, reason: impl AsRef<[u8]>) -> Vec<u8> {
    frame(CLOSE, [&code.to_be_bytes(), reason.as_ref()].concat())
}

fn message(text: impl AsRef<[u8]>) -> Incoming {
    Incoming::Message(Bytes::copy_from_slice(text.as_ref()))
}

fn ping(payload: impl AsRef<[u8]>) -> Incoming {
    Incoming::Ping(Bytes::copy_from_slice(payload.as_ref()))
}

fn read_parts(parts: &[&[u8]], limits: &FrameLimits) -> Outcome {
    let mut inbound = Inbound::default();
    let mut came = Vec::new();
    for part in parts {
        let mut rest = *part;
        loop {
            match inbound.next(&mut rest, limits) {
                Ok(Some(incoming)) => came.push(incoming),
                Ok(None) => break,
                Err(error) => return (came, Err(error)),
            }
        }
        assert!(rest.is_empty(), "all was read");
    }
    (came, Ok(()))
}

fn read(bytes: &[u8]) -> Outcome {
    read_parts(&[bytes], &FrameLimits::default())
}

/// Reads it whole, in single bytes, and in every two parts; large ones in 16 of them.
fn expect(case: &str, frames: &[Vec<u8>], expected: Outcome) {
    let bytes = frames.concat();
    let limits = FrameLimits::default();
    assert_eq!(read(&bytes), expected, "{case}, whole");
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read_parts(&single, &limits), expected, "{case}, byte by byte");
    let step = if bytes.len() <= 512 { 1 } else { bytes.len() / 16 };
    for at in (1..bytes.len()).step_by(step) {
        let (one, other) = bytes.split_at(at);
        assert_eq!(read_parts(&[one, other], &limits), expected, "{case}, split at {at}");
    }
}

fn fails(case: &str, frames: &[Vec<u8>], error: FrameError) {
    expect(case, frames, (vec![], Err(error)));
}

#[test]
fn group_1_framing_of_text_and_binary() {
    for length in [0, 125, 126, 127, 128, 65_535, 65_536] {
        let text = "*".repeat(length);
        expect("1.1", &[frame(TEXT, &text)], (vec![message(&text)], Ok(())));
        fails("1.2: binary is not understood", &[frame(BINARY, &text)], FrameError::Binary);
    }
    assert_eq!(FrameError::Binary.close_code(), 1003);
}

#[test]
fn group_2_pings_and_pongs() {
    for payload in [&b""[..], b"Hello, world!", &[0, 255, 254, 253, 252, 251, 0, 255], &[0xfe; 125]] {
        expect("2.1-2.4", &[frame(PING, payload)], (vec![ping(payload)], Ok(())));
        expect("2.7-2.8", &[frame(PONG, payload)], (vec![Pong], Ok(())));
    }
    fails("2.5", &[frame(PING, [0xfe; 126])], FrameError::LongControl);
    expect("2.9", &[frame(PONG, "unsolicited"), frame(PING, "p")], (vec![Pong, ping("p")], Ok(())));
    let ten: Vec<_> = (0..10).map(|number| frame(PING, format!("payload-{number}"))).collect();
    let answers = (0..10).map(|number| ping(format!("payload-{number}"))).collect();
    expect("2.10", &ten, (answers, Ok(())));
}

#[test]
fn group_3_reserved_bits() {
    for bits in 1..=7_u8 {
        for opcode in [TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG] {
            let reserved = masked(0x80 | bits << 4 | opcode, b"x");
            expect(
                "3.1-3.7: what came before is read",
                &[frame(TEXT, "Hello"), reserved, frame(PING, "")],
                (vec![message("Hello")], Err(FrameError::ReservedBits)),
            );
        }
    }
    assert_eq!(FrameError::ReservedBits.close_code(), 1002);
}

#[test]
fn group_4_opcodes() {
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        for payload in ["", "reserved opcode payload"] {
            expect(
                "4.1-4.2",
                &[frame(TEXT, "Hello"), frame(opcode, payload), frame(PING, "")],
                (vec![message("Hello")], Err(FrameError::UnknownOpcode)),
            );
        }
    }
    assert_eq!(FrameError::UnknownOpcode.close_code(), 1002);
}

#[test]
fn group_5_fragmentation() {
    for opcode in [PING, PONG, CLOSE] {
        let frames = [fragment(opcode, "a"), frame(CONTINUATION, "b")];
        fails("5.1-5.2", &frames, FrameError::FragmentedControl);
    }
    expect(
        "5.3-5.5",
        &[fragment(TEXT, "fragment1"), frame(CONTINUATION, "fragment2")],
        (vec![message("fragment1fragment2")], Ok(())),
    );
    expect(
        "5.6-5.8: a ping between fragments is answered at once",
        &[fragment(TEXT, "fragment1"), frame(PING, "p"), frame(CONTINUATION, "fragment2")],
        (vec![ping("p"), message("fragment1fragment2")], Ok(())),
    );
    for last in [true, false] {
        let orphan = if last { frame(CONTINUATION, "x") } else { fragment(CONTINUATION, "x") };
        let frames = [orphan, frame(TEXT, "Hello"), frame(TEXT, "Hello")];
        fails("5.9-5.14", &frames, FrameError::NothingToContinue);
    }
    expect(
        "5.15",
        &[
            fragment(TEXT, "fragment1"),
            frame(CONTINUATION, "fragment2"),
            fragment(CONTINUATION, "fragment3"),
            frame(TEXT, "fragment4"),
        ],
        (vec![message("fragment1fragment2")], Err(FrameError::NothingToContinue)),
    );
    for second in [frame(TEXT, "b"), fragment(TEXT, "b"), frame(BINARY, "b")] {
        fails("5.18", &[fragment(TEXT, "a"), second], FrameError::MessageWithinMessage);
    }
    expect(
        "5.19-5.20",
        &[
            fragment(TEXT, "1"),
            fragment(CONTINUATION, "2"),
            frame(PING, "p1"),
            fragment(CONTINUATION, "3"),
            fragment(CONTINUATION, ""),
            frame(PONG, ""),
            frame(PING, "p2"),
            frame(CONTINUATION, "5"),
            frame(TEXT, "next"),
        ],
        (vec![ping("p1"), Pong, ping("p2"), message("1235"), message("next")], Ok(())),
    );
}

#[test]
fn group_6_utf8() {
    let greek = "Hello-µ@ßöäüàá-UTF-8!! κόσμε";
    expect("6.1", &[frame(TEXT, "")], (vec![message("")], Ok(())));
    expect(
        "6.1.2",
        &[fragment(TEXT, ""), fragment(CONTINUATION, ""), frame(CONTINUATION, "")],
        (vec![message("")], Ok(())),
    );
    let mut each_byte = vec![fragment(TEXT, "")];
    each_byte.extend(greek.as_bytes().chunks(1).map(|byte| fragment(CONTINUATION, byte)));
    each_byte.push(frame(CONTINUATION, ""));
    expect("6.2: characters cut by fragments", &each_byte, (vec![message(greek)], Ok(())));

    let valid: [&[u8]; 16] = [
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5",
        b"\x00",
        b"\x7f",
        b"\xc2\x80",
        b"\xdf\xbf",
        b"\xe0\xa0\x80",
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xef\xbf\xbd",
        b"\xef\xbf\xbe",
        b"\xef\xbf\xbf",
        b"\xf0\x90\x80\x80",
        b"\xf0\x9f\xbf\xbf",
        b"\xf3\xbf\xbf\xbf",
        b"\xf4\x80\x80\x80",
        b"\xf4\x8f\xbf\xbf",
    ];
    for text in valid {
        expect("6.5-6.9, 6.22-6.23", &[frame(TEXT, text)], (vec![message(text)], Ok(())));
    }
    let invalid: [&[u8]; 24] = [
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
        b"\xce",
        b"\xce\xba\xe1",
        b"\x80",
        b"\xbf",
        b"\x80\xbf\x80",
        b"\xc0 ",
        b"\xe0 ",
        b"\xf0 ",
        b"\xf8 ",
        b"\xfc ",
        b"\xf0\x90\x80",
        b"\xfe",
        b"\xff",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xf8\x88\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xed\xa0\x80",
        b"\xed\xaf\xbf\xed\xb0\x80",
        b"\xed\xbf\xbf",
        b"\xf7\xbf\xbf\xbf",
        b"\xe0\x80\x80",
    ];
    for text in invalid {
        fails("6.3, 6.10-6.21", &[frame(TEXT, text)], FrameError::NotUtf8);
        let frames = [fragment(TEXT, "ok"), fragment(CONTINUATION, text), frame(CONTINUATION, "")];
        fails("6.3 in fragments", &frames, FrameError::NotUtf8);
    }
    assert_eq!(FrameError::NotUtf8.close_code(), 1007);
}

#[test]
fn group_6_4_invalid_text_fails_with_its_first_bad_byte() {
    let bytes = fragment(TEXT, b"\xce\xba\xe1\xbd\xb9\xf4\x90\x80\x80 never read");
    let bad = 2 + 4 + 6;
    let limits = FrameLimits::default();
    let mut inbound = Inbound::default();
    assert_eq!(inbound.next(&mut &bytes[..bad], &limits), Ok(None), "f4 alone may still become a character");
    assert_eq!(inbound.next(&mut &bytes[bad..=bad], &limits), Err(FrameError::NotUtf8), "f4 90 may not");
}

#[test]
fn group_7_close_handling() {
    let bye = (vec![Close(Some(1000))], Ok(()));
    expect("7.1.1-7.1.2", &[closing(1000, ""), closing(1000, "")], bye.clone());
    expect("7.1.3-7.1.5", &[closing(1000, ""), frame(PING, "x"), frame(TEXT, "x"), vec![0; 9]], bye);
    let frames = [fragment(TEXT, "fragment1"), closing(1000, ""), frame(CONTINUATION, "fragment2")];
    expect("7.1.5", &frames, (vec![Close(Some(1000))], Ok(())));

    expect("7.3.1", &[frame(CLOSE, "")], (vec![Close(None)], Ok(())));
    fails("7.3.2", &[frame(CLOSE, [3])], FrameError::InvalidCloseCode);
    for reason_bytes in [0, 5, 123] {
        let frames = [closing(1000, "*".repeat(reason_bytes))];
        expect("7.3.3-7.3.5", &frames, (vec![Close(Some(1000))], Ok(())));
    }
    fails("7.3.6", &[closing(1000, "*".repeat(124))], FrameError::LongControl);
    fails("7.5.1", &[closing(1000, b"\xce\xba\xed\xa0\x80edited")], FrameError::NotUtf8);

    let valid =
        [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999];
    for code in valid {
        expect("7.7", &[closing(code, "")], (vec![Close(Some(code))], Ok(())));
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        for reason in ["", "reason"] {
            fails("7.9, 7.13", &[closing(code, reason)], FrameError::InvalidCloseCode);
        }
    }
    assert_eq!(FrameError::InvalidCloseCode.close_code(), 1002);
}

#[test]
fn group_9_limits() {
    let limit = FrameLimits::default().message_bytes;
    let full = "*".repeat(limit);
    expect("9.1: a message as large as the limit", &[frame(TEXT, &full)], (vec![message(&full)], Ok(())));
    fails("9.1: one byte more", &[frame(TEXT, "*".repeat(limit + 1))], FrameError::TooLong);

    // 64 KiB in fragments of 64 bytes are as many as may be.
    let part = "*".repeat(64);
    let mut frames = vec![fragment(TEXT, &part)];
    frames.extend((0..1022).map(|_| fragment(CONTINUATION, &part)));
    frames.push(frame(CONTINUATION, &part));
    assert_eq!(read(&frames.concat()), (vec![message(&full)], Ok(())));
    frames[1023] = fragment(CONTINUATION, &part);
    frames.push(frame(CONTINUATION, "*"));
    assert_eq!(read(&frames.concat()), (vec![], Err(FrameError::TooLong)));

    let mut endless = vec![fragment(TEXT, "")];
    endless.extend((0..1024).map(|_| fragment(CONTINUATION, "")));
    assert_eq!(read(&endless.concat()), (vec![], Err(FrameError::TooManyFragments)));
    assert_eq!(FrameError::TooLong.close_code(), 1009);
    assert_eq!(FrameError::TooManyFragments.close_code(), 1009);
}

#[test]
fn group_9_a_claimed_length_is_judged_before_its_payload_comes_and_holds_no_memory() {
    let limits = FrameLimits::default();
    let claim = |length: u64| [&[0x81, 0xFF][..], &length.to_be_bytes()].concat();
    for (length, error) in [
        (65_537, FrameError::TooLong),
        (u64::MAX >> 1, FrameError::TooLong),
        (1 << 63, FrameError::InvalidLength),
        (u64::MAX, FrameError::InvalidLength),
        (65_535, FrameError::InvalidLength),
        (1, FrameError::InvalidLength),
    ] {
        let read = Inbound::default().next(&mut claim(length).as_slice(), &limits);
        assert_eq!(read, Err(error), "{length}");
    }
    let read = Inbound::default().next(&mut &[0x81, 0x80 | 126, 0, 125][..], &limits);
    assert_eq!(read, Err(FrameError::InvalidLength), "125 needs no extended length");

    let mut inbound = Inbound::default();
    let head = [claim(65_536), MASK.to_vec(), vec![b'a' ^ MASK[0]]].concat();
    assert_eq!(inbound.next(&mut head.as_slice(), &limits), Ok(None));
    let held = inbound.0.unwrap().message.unwrap().text.capacity();
    assert!(held < 1024, "{held} bytes are held for one that came");
}

#[test]
fn group_10_a_message_is_the_same_however_it_is_cut() {
    let text: String = (0..65_536).map(|number| char::from(b'a' + (number % 26) as u8)).collect();
    for size in [1300, 2048, 65_000] {
        let mut parts = text.as_bytes().chunks(size);
        let mut frames = vec![fragment(TEXT, parts.next().unwrap())];
        frames.extend(parts.map(|part| fragment(CONTINUATION, part)));
        frames.push(frame(CONTINUATION, ""));
        expect("10.1", &frames, (vec![message(&text)], Ok(())));
    }
}

#[test]
fn frames_of_a_client_must_be_masked() {
    for first in [0x81, 0x88, 0x89, 0x01] {
        fails("5.1 of the RFC", &[vec![first, 0x01, b'x']], FrameError::NotMasked);
    }
    assert_eq!(FrameError::NotMasked.close_code(), 1002);
}

#[test]
fn nothing_is_read_after_an_error() {
    let limits = FrameLimits::default();
    let mut inbound = Inbound::default();
    assert_eq!(inbound.next(&mut &[0xF1][..], &limits), Err(FrameError::ReservedBits));
    let more = frame(TEXT, "more");
    let mut rest = more.as_slice();
    assert_eq!(inbound.next(&mut rest, &limits), Ok(None));
    assert!(rest.is_empty());
}

#[test]
fn a_connection_between_messages_holds_a_pointer_and_no_more() {
    assert_eq!(size_of::<Inbound>(), size_of::<usize>());
    let limits = FrameLimits::default();
    let mut inbound = Inbound::default();
    let bytes = [frame(TEXT, "a"), frame(PING, "b"), fragment(TEXT, "c"), frame(CONTINUATION, "d")].concat();
    let mut rest = bytes.as_slice();
    let mut held = Vec::new();
    while inbound.next(&mut rest, &limits).unwrap().is_some() {
        held.push(inbound.0.is_some());
    }
    assert_eq!(held, [false, false, false]);
    assert!(inbound.0.is_none());
    inbound.next(&mut &frame(TEXT, "e")[..3], &limits).unwrap();
    assert!(inbound.0.is_some());
}

#[test]
fn each_error_has_a_name_and_a_reason_that_fits_a_close_frame() {
    let all = [
        FrameError::ReservedBits,
        FrameError::UnknownOpcode,
        FrameError::NotMasked,
        FrameError::InvalidLength,
        FrameError::FragmentedControl,
        FrameError::LongControl,
        FrameError::NothingToContinue,
        FrameError::MessageWithinMessage,
        FrameError::InvalidCloseCode,
        FrameError::NotUtf8,
        FrameError::Binary,
        FrameError::TooLong,
        FrameError::TooManyFragments,
    ];
    for (index, error) in all.into_iter().enumerate() {
        assert!(all[..index].iter().all(|other| other.reason() != error.reason()));
        assert!(close(error.close_code(), error.reason()).ends_with(error.reason().as_bytes()));
    }
}

#[test]
fn frames_to_a_client_are_those_of_the_rfc() {
    // Section 5.7: a single unmasked text message, and an unmasked ping's answer.
    assert_eq!(text(b"Hello"), [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f].as_slice());
    assert_eq!(pong(b"Hello"), [0x8a, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f].as_slice());
    assert_eq!(super::ping(), [0x89, 0x00].as_slice());
    assert_eq!(close(1012, "shutting_down"), [&[0x88, 15, 0x03, 0xf4], &b"shutting_down"[..]].concat());
    assert_eq!(close_without_code(), [0x88, 0x00].as_slice());
    assert_eq!(text(&[b'a'; 256])[..4], [0x81, 126, 0x01, 0x00]);
    assert_eq!(text(&[b'a'; 65_536])[..10], [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    let cut = close(1000, &"é".repeat(100));
    assert_eq!((cut.len(), cut[1]), (2 + 2 + 122, 124), "the reason is cut between characters");
    assert_eq!(pong(&[1; 200]).len(), 127);
}

#[test]
fn the_masked_frames_of_the_rfc_are_read() {
    // Section 5.7: a single masked text message, and a masked pong.
    let bytes = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(read(&bytes), (vec![message("Hello")], Ok(())));
    let bytes = [0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(read(&bytes), (vec![Pong], Ok(())));
}

proptest! {
    #[test]
    fn whatever_comes_the_outcome_does_not_depend_on_how_it_is_cut(
        frames in prop::collection::vec(
            prop_oneof![
                "[aé🦀]{0,40}".prop_map(|text| frame(TEXT, text)),
                "[aé🦀]{0,40}".prop_map(|text| fragment(TEXT, text)),
                "[aé🦀]{0,40}".prop_map(|text| frame(CONTINUATION, text)),
                prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| fragment(CONTINUATION, bytes)),
                prop::collection::vec(any::<u8>(), 0..130).prop_map(|bytes| frame(PING, bytes)),
                prop::collection::vec(any::<u8>(), 0..20),
            ],
            0..8,
        ),
        cuts in prop::collection::vec(1..40_usize, 1..20),
    ) {
        let bytes = frames.concat();
        let mut parts = Vec::new();
        let mut rest = bytes.as_slice();
        for size in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (part, after) = rest.split_at((*size).min(rest.len()));
            parts.push(part);
            rest = after;
        }
        let limits = FrameLimits { message_bytes: 100, fragments: 4 };
        prop_assert_eq!(read_parts(&parts, &limits), read_parts(&[&bytes], &limits));
    }
}
