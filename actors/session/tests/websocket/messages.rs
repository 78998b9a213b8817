//! Messages that are answered, and messages that are rubbish.

use freshet_session::Config;
use serde_json::json;

use crate::daemon::Daemon;
use crate::websocket::{Client, TEXT};

#[actix_rt::test]
async fn rubbish_is_answered_and_the_connection_goes_on() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    for (text, code) in [
        ("", "invalid_json"),
        ("hello", "invalid_json"),
        ("[1]", "not_an_object"),
        ("{\"type\":\"shout\"}", "unknown_type"),
        ("{\"type\":\"subscribe\"}", "missing_field"),
        ("{\"type\":\"ping\",\"type\":\"ping\"}", "duplicate_field"),
        ("{\"type\":\"ack\",\"channel\":\"iceberg\",\"position\":\"7\"}", "invalid_position"),
    ] {
        client.send_frame(TEXT, text.as_bytes()).await;
        let answer = client.says().await;
        assert_eq!(json!([answer["type"], answer["code"]]), json!(["error", code]), "{text}");
        assert!(answer["error"].as_str().is_some_and(|sentence| !sentence.is_empty()));
    }
    client.send(json!({"type": "ping"})).await;
    assert_eq!(client.says().await, json!({"type": "pong"}));
}
