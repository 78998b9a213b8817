//! Frames as RFC 6455 has them, and what becomes of a client that breaks its rules.

use freshet_session::{CloseCode, Config};
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::websocket::{BINARY, CLOSE, CONTINUATION, Client, FINAL, Frame, PING, PONG, TEXT, masked};

/// The first byte of a text message that goes on in further frames.
const FIRST_OF_SEVERAL: u8 = TEXT & !FINAL;

/// A message of so many bytes: white space after it is no part of it.
fn padded(message: &Value, bytes: usize) -> Vec<u8> {
    let mut text = message.to_string().into_bytes();
    text.resize(bytes.max(text.len()), b' ');
    text
}

#[actix_rt::test]
async fn a_message_may_come_in_pieces_with_control_frames_in_between() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    // The first cut is within the two bytes of a character.
    let text = "{\"type\":\"ping\",\"id\":\"é\"}".as_bytes();
    let cut = text.iter().position(|byte| !byte.is_ascii()).unwrap() + 1;
    client.send_frame(FIRST_OF_SEVERAL, &text[..cut]).await;
    client.send_frame(PING, b"in between").await;
    assert_eq!(client.frame().await, Frame::Pong(b"in between".to_vec()), "before the message is whole");
    client.send_frame(CONTINUATION, b"").await;
    client.send_frame(PONG, b"nobody asked").await;
    client.send_frame(CONTINUATION, &text[cut..=cut]).await;
    client.send_frame(CONTINUATION | FINAL, &text[cut + 1..]).await;
    assert_eq!(client.says().await, json!({"type": "pong", "id": "é"}));
}

#[actix_rt::test]
async fn frames_are_understood_however_the_network_cuts_them() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    client.stream.set_nodelay(true).unwrap();
    // Lengths of one, two and eight bytes.
    let ping = |id: &str, bytes: usize| padded(&json!({"type": "ping", "id": id}), bytes);
    let small = masked(TEXT, &ping("small", 125));
    let medium = masked(TEXT, &ping("medium", 300));
    for byte in [small, medium].concat() {
        client.send_bytes(&[byte]).await;
    }
    let mut several = masked(TEXT, &ping("large", 64 << 10));
    several.extend(masked(PING, &[0xff; 125]));
    several.extend(masked(TEXT, &ping("last", 0)));
    client.send_bytes(&several).await;
    for id in ["small", "medium", "large"] {
        assert_eq!(client.says().await, json!({"type": "pong", "id": id}));
    }
    assert_eq!(client.frame().await, Frame::Pong(vec![0xff; 125]));
    assert_eq!(client.says().await, json!({"type": "pong", "id": "last"}));
}

#[actix_rt::test]
async fn who_breaks_the_protocol_is_told_by_which_rule_and_is_let_go() {
    let daemon = Daemon::start(Config { message_max_bytes: 1024, ..Config::default() }).await;
    let mut witness = Client::open(daemon.address).await;
    witness.subscribe("iceberg", json!({})).await;
    let not_masked = [&[TEXT, 2][..], b"{}"].concat();
    let half_too_long = [masked(FIRST_OF_SEVERAL, &[b' '; 1000]), masked(CONTINUATION, &[b' '; 25])].concat();
    let two_messages = [masked(FIRST_OF_SEVERAL, b"{"), masked(TEXT, b"{}")].concat();
    let cut_character = [masked(FIRST_OF_SEVERAL, b"\xc3"), masked(CONTINUATION | FINAL, b"{")].concat();
    for (bytes, code, reason) in [
        (not_masked, 1002, "not_masked"),
        (masked(TEXT | 0x40, b"{}"), 1002, "reserved_bits"),
        (masked(0x83, b"{}"), 1002, "unknown_opcode"),
        (masked(PING & !FINAL, b""), 1002, "fragmented_control_frame"),
        (masked(PING, &[0; 126]), 1002, "long_control_frame"),
        (masked(CONTINUATION | FINAL, b"{}"), 1002, "nothing_to_continue"),
        (two_messages, 1002, "message_within_message"),
        (masked(CLOSE, &[3]), 1002, "invalid_close_code"),
        (masked(CLOSE, &1005_u16.to_be_bytes()), 1002, "invalid_close_code"),
        // Two bytes of length for what one byte holds.
        (vec![TEXT, 0x80 | 126, 0, 2, 0, 0, 0, 0, b'{', b'}'], 1002, "invalid_length"),
        (masked(BINARY, b"{}"), 1003, "binary_message"),
        (masked(TEXT, b"{\"type\":\"\xff\"}"), 1007, "not_utf8"),
        (cut_character, 1007, "not_utf8"),
        (masked(CLOSE, b"\x03\xe8\xff"), 1007, "not_utf8"),
        (masked(TEXT, &[b' '; 1025]), 1009, "message_too_long"),
        (half_too_long, 1009, "message_too_long"),
        (masked(FIRST_OF_SEVERAL, b"").repeat(1025), 1002, "message_within_message"),
    ] {
        let mut client = Client::open(daemon.address).await;
        client.send_bytes(&bytes).await;
        assert_eq!(client.frame().await, Frame::Close(Some(code), reason.to_owned()));
        assert_eq!(client.frame().await, Frame::End, "{reason}");
    }
    daemon.until(|daemon| daemon.open_sessions() == 1).await;
    daemon.publish([1]).await;
    assert_eq!(witness.ids(1).await, ["e1"], "others notice nothing");
    assert_eq!(daemon.sessions.counters().closed(CloseCode::InternalError), 0, "it is the client's fault");
}

#[actix_rt::test]
async fn a_message_in_too_many_pieces_ends_the_connection() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    let mut pieces = masked(FIRST_OF_SEVERAL, b"");
    pieces.extend(masked(CONTINUATION, b"").repeat(1023));
    client.send_bytes(&pieces).await;
    client.send_frame(PING, b"so far so good").await;
    assert_eq!(client.frame().await, Frame::Pong(b"so far so good".to_vec()));
    client.send_frame(CONTINUATION, b"").await;
    assert_eq!(client.frame().await, Frame::Close(Some(1009), "too_many_fragments".to_owned()));
    assert_eq!(client.frame().await, Frame::End);
}

#[actix_rt::test]
async fn a_message_of_the_largest_size_is_taken_and_a_claim_to_more_is_refused_before_it_comes() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    client.send_frame(TEXT, &padded(&json!({"type": "ping"}), 64 << 10)).await;
    assert_eq!(client.says().await, json!({"type": "pong"}));
    let claim = [&[TEXT, 0x80 | 127][..], &(1_u64 << 40).to_be_bytes()].concat();
    client.send_bytes(&claim).await;
    assert_eq!(client.frame().await, Frame::Close(Some(1009), "message_too_long".to_owned()));
    assert_eq!(client.frame().await, Frame::End);
}

#[actix_rt::test]
async fn who_sends_more_messages_than_it_may_is_closed_and_told_so() {
    let daemon = Daemon::start(Config { messages_per_sec: 5, ..Config::default() }).await;
    for flood in [masked(TEXT, b"{\"type\":\"ping\"}"), masked(PING, b""), masked(PONG, b"")] {
        let mut client = Client::open(daemon.address).await;
        client.send_bytes(&flood.repeat(50)).await;
        let mut answers = 0;
        let close = loop {
            match client.frame().await {
                Frame::Pong(_) => answers += 1,
                Frame::Text(text) if text == "{\"type\":\"pong\"}" => answers += 1,
                Frame::Text(text) => break serde_json::from_str::<Value>(&text).unwrap(),
                other => panic!("unexpected {other:?}"),
            }
        };
        assert!(answers == 0 || (5..50).contains(&answers), "{answers}");
        assert_eq!(
            close,
            json!({"type": "close", "code": 4004, "reason": "rate_exceeded", "reconnect": true})
        );
        assert_eq!(client.frame().await, Frame::Close(Some(4004), "rate_exceeded".to_owned()));
        client.send_frame(CLOSE, &4004_u16.to_be_bytes()).await;
        assert_eq!(client.frame().await, Frame::End);
    }
    assert_eq!(daemon.sessions.counters().closed(CloseCode::RateExceeded), 3);
}
