//! Messages that are answered, and messages that are rubbish.

use freshet_session::Config;
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::orders::{at, orders};
use crate::websocket::{CLOSE, Client, Frame, PING, TEXT};

#[actix_rt::test]
async fn rubbish_is_answered_with_its_code_and_the_connection_goes_on() {
    let channels = orders(|config| config.rooms_are_tenants = true);
    let daemon = Daemon::start_with(Config::default(), channels).await;
    let mut client = Client::open_with(daemon.address, "X-Tenant: north\r\n").await;
    client.subscribe("iceberg", json!({"window": 1})).await;
    let subscribe = |options: Value| {
        let mut message = json!({"type": "subscribe", "channel": "orders"});
        message.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        message.to_string()
    };
    for (text, code) in [
        (String::new(), "invalid_json"),
        ("hello".to_owned(), "invalid_json"),
        ("{\"type\":\"ping\"} {\"type\":\"ping\"}".to_owned(), "invalid_json"),
        ("[1]".to_owned(), "not_an_object"),
        ("\"ping\"".to_owned(), "not_an_object"),
        ("{\"type\":\"ping\",\"type\":\"ping\"}".to_owned(), "duplicate_field"),
        (json!({"type": "ping", "colour": "red"}).to_string(), "unknown_field"),
        (subscribe(json!({"filter": {"colour": ["red"]}})), "unknown_field"),
        (json!({"channel": "iceberg"}).to_string(), "missing_field"),
        (json!({"type": "subscribe"}).to_string(), "missing_field"),
        (json!({"type": "ack", "channel": "iceberg"}).to_string(), "missing_field"),
        (json!({"type": "shout"}).to_string(), "unknown_type"),
        (json!({"type": 7}).to_string(), "invalid_field"),
        (json!({"type": "ping", "id": "x".repeat(65)}).to_string(), "invalid_field"),
        (subscribe(json!({"from": "yesterday"})), "invalid_field"),
        (subscribe(json!({"from": {"eventId": "x".repeat(1025)}})), "invalid_field"),
        (subscribe(json!({"window": 0})), "invalid_field"),
        (subscribe(json!({"window": 65_537})), "invalid_field"),
        (subscribe(json!({"maxRate": 1001})), "invalid_field"),
        (subscribe(json!({"maxRate": 0.5})), "invalid_field"),
        (subscribe(json!({"room": []})), "invalid_field"),
        (subscribe(json!({"from": {"position": "7"}})), "invalid_position"),
        (json!({"type": "ack", "channel": "iceberg", "position": "7"}).to_string(), "invalid_position"),
        (subscribe(json!({"filter": {"table": ["x".repeat(1025)]}})), "invalid_filter"),
        (json!({"type": "subscribe", "channel": "no such name"}).to_string(), "unknown_channel"),
        (json!({"type": "subscribe", "channel": "nothing"}).to_string(), "unknown_channel"),
        (subscribe(json!({"room": ["south"]})), "unknown_room"),
        (json!({"type": "subscribe", "channel": "iceberg"}).to_string(), "already_subscribed"),
        (json!({"type": "unsubscribe", "channel": "orders"}).to_string(), "not_subscribed"),
        (json!({"type": "ack", "channel": "orders", "position": at(0)}).to_string(), "not_subscribed"),
        (json!({"type": "ack", "channel": "iceberg", "position": at(9)}).to_string(), "ack_ahead"),
        (json!({"type": "renew", "token": "x"}).to_string(), "renewal_unavailable"),
    ] {
        client.send_frame(TEXT, text.as_bytes()).await;
        let answer = client.says().await;
        assert_eq!(json!([answer["type"], answer["code"]]), json!(["error", code]), "{text}");
        let sentence = answer["error"].as_str().unwrap();
        assert!(!sentence.is_empty() && !sentence.ends_with('.'), "{sentence}");
    }
    daemon.publish([1]).await;
    assert_eq!(client.ids(1).await, ["e1"], "what it had asked for before goes on");
}

#[actix_rt::test]
async fn an_answer_repeats_the_id_and_the_channel_of_what_it_answers() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    let id = "\u{1f30a} \"7\"\n";
    for (message, answer) in [
        (json!({"type": "ping"}), json!({"type": "pong"})),
        (
            json!({"type": "subscribe", "channel": "iceberg"}),
            json!({"type": "subscribed", "channel": "iceberg", "position": at(0), "recovered": true}),
        ),
        (
            json!({"type": "unsubscribe", "channel": "iceberg"}),
            json!({"type": "unsubscribed", "channel": "iceberg"}),
        ),
        (
            json!({"type": "unsubscribe", "channel": "iceberg"}),
            json!({
                "type": "error", "code": "not_subscribed", "channel": "iceberg",
                "error": "there is no such subscription",
            }),
        ),
        (
            json!({"type": "subscribe", "channel": "iceberg", "window": 0}),
            json!({
                "type": "error", "code": "invalid_field", "channel": "iceberg",
                "error": "window must be a whole number from 1 to 65536",
            }),
        ),
    ] {
        let with_id = |mut message: Value| {
            message["id"] = json!(id);
            message
        };
        client.send(with_id(message)).await;
        assert_eq!(client.says().await, with_id(answer));
    }
}

#[actix_rt::test]
async fn a_message_of_any_depth_is_refused_and_harms_nobody() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    let deep = format!("{{\"type\":\"subscribe\",\"channel\":\"iceberg\",\"filter\":{}", "[".repeat(60_000));
    client.send_frame(TEXT, deep.as_bytes()).await;
    assert_eq!(client.says().await["code"], "invalid_json");
    let deep = format!("{deep}{}}}", "]".repeat(60_000));
    client.send_frame(TEXT, &deep.as_bytes()[..deep.len().min(64 << 10)]).await;
    assert_eq!(client.says().await["type"], "error");
    client.has_heard_all().await;
}

#[actix_rt::test]
async fn pings_are_answered_at_both_levels_in_order() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    for payload in [&b""[..], &b"\x00\xff"[..], &[b'p'; 125][..]] {
        client.send_frame(PING, payload).await;
        client.send(json!({"type": "ping"})).await;
        assert_eq!(client.frame().await, Frame::Pong(payload.to_vec()), "the bytes come back");
        assert_eq!(client.says().await, json!({"type": "pong"}));
    }
    client.send_frame(CLOSE, b"").await;
    assert_eq!(client.frame().await, Frame::Close(None, String::new()));
}

#[actix_rt::test]
async fn a_quiet_client_is_pinged_and_need_not_answer() {
    let daemon = Daemon::start(Config { heartbeat_secs: 1, ..Config::default() }).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({})).await;
    for _ in 0..2 {
        assert_eq!(client.frame().await, Frame::Ping(Vec::new()));
    }
    daemon.publish([1]).await;
    assert_eq!(client.ids(1).await, ["e1"]);
}
