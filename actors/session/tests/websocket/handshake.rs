//! The opening handshake of RFC 6455, section 4.2, and the first message.

use freshet_session::Config;
use serde_json::json;

use crate::daemon::Daemon;
use crate::websocket::{Client, EXAMPLE_ACCEPT, EXAMPLE_KEY};

#[actix_rt::test]
async fn the_handshake_is_that_of_the_standard_and_the_first_message_is_a_welcome() {
    let daemon = Daemon::start(Config { heartbeat_secs: 17, ..Config::default() }).await;
    let headers = "Sec-WebSocket-Protocol: other, freshet.v1\r\n\
                   Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let mut client = Client::ask(daemon.address, headers).await;
    assert_eq!(client.status(), "101");
    assert_eq!(client.header("sec-websocket-accept"), Some(EXAMPLE_ACCEPT));
    assert_eq!(client.header("sec-websocket-protocol"), Some("freshet.v1"));
    assert_eq!(client.header("upgrade"), Some("websocket"));
    assert!(client.header("connection").unwrap().eq_ignore_ascii_case("upgrade"));
    assert_eq!(client.header("sec-websocket-extensions"), None);
    assert_eq!(client.header("content-length"), None);
    assert_eq!(client.header("transfer-encoding"), None);
    let mut welcome = client.says().await;
    let client_id = welcome["clientId"].take();
    assert!(uuid::Uuid::parse_str(client_id.as_str().unwrap()).is_ok());
    let expected =
        json!({"type": "welcome", "clientId": null, "protocol": "freshet.v1", "heartbeatSecs": 17});
    assert_eq!(welcome, expected);

    let client = Client::ask(daemon.address, "").await;
    assert_eq!(client.status(), "101");
    assert_eq!(client.header("sec-websocket-protocol"), None, "what was not offered is not chosen");
}

#[actix_rt::test]
async fn a_request_that_is_no_handshake_is_told_what_would_be_one() {
    let daemon = Daemon::start(Config::default()).await;
    let get = |headers: &str| format!("GET /ws HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
    let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
    let key = format!("Sec-WebSocket-Key: {EXAMPLE_KEY}\r\n");
    let version = "Sec-WebSocket-Version: 13\r\n";
    for (request, status, code) in [
        (get(""), "426", "upgrade_required"),
        (get(&format!("{upgrade}{key}Sec-WebSocket-Version: 8\r\n")), "426", "upgrade_required"),
        (get(&format!("{upgrade}{version}")), "400", "invalid_handshake"),
        (
            get(&format!("{upgrade}{key}{version}Sec-WebSocket-Protocol: graphql-ws, freshet.v2\r\n")),
            "400",
            "unknown_subprotocol",
        ),
    ] {
        let mut client = Client::request(daemon.address, &request).await;
        assert_eq!(client.status(), status, "{request}");
        if status == "426" {
            assert_eq!(client.header("upgrade"), Some("websocket"));
            assert_eq!(client.header("sec-websocket-version"), Some("13"));
        }
        assert_eq!(client.refusal().await["code"], code, "{request}");
    }
    assert_eq!(daemon.open_sessions(), 0);
}

#[actix_rt::test]
async fn a_handshake_may_come_from_any_browser_and_after_other_requests() {
    let daemon = Daemon::start(Config::default()).await;
    // Firefox says keep-alive as well, names are case-insensitive, and protocols may come in several headers.
    let handshake = format!(
        "GET /ws HTTP/1.1\r\nhost: x\r\nUPGRADE: WebSocket\r\nconnection: keep-alive, upgrade\r\n\
         sec-websocket-key: {EXAMPLE_KEY}\r\nsec-websocket-version: 13\r\n\
         sec-websocket-protocol: other\r\nsec-websocket-protocol: freshet.v1\r\n\r\n"
    );
    let mut client = Client::request(daemon.address, "GET /ws HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(client.status(), "426");
    client.refusal().await;
    client.ask_again(&handshake).await;
    assert_eq!(client.status(), "101");
    assert_eq!(client.header("sec-websocket-protocol"), Some("freshet.v1"));
    assert_eq!(client.says().await["type"], "welcome");
    client.subscribe("iceberg", json!({})).await;
    daemon.publish([1]).await;
    assert_eq!(client.ids(1).await, ["e1"]);
}
