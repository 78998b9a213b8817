//! How a client that goes wrong is let go.

use freshet_session::Config;
use serde_json::json;

use crate::daemon::Daemon;
use crate::websocket::{Client, Frame, TEXT, masked};

/// Unread bytes would make the system reset the connection, and take the close frame with it.
#[actix_rt::test]
async fn who_is_still_sending_hears_why_it_is_let_go() {
    let daemon = Daemon::start(Config::default()).await;
    for _ in 0..20 {
        let client = Client::open(daemon.address).await;
        let large = masked(TEXT, &vec![b' '; 4 << 20]);
        let (mut reader, mut writer) = client.stream.into_split();
        let write = async {
            let _ended_early = tokio::io::AsyncWriteExt::write_all(&mut writer, &large).await;
        };
        let read = async {
            let mut bytes = Vec::new();
            let end = crate::sse::within(tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut bytes)).await;
            (bytes, end.map_err(|error| error.kind()))
        };
        let ((), (bytes, end)) = tokio::join!(write, read);
        assert_eq!(bytes, [&[0x88, 18, 0x03, 0xf1][..], b"message_too_long"].concat());
        assert!(end.is_ok(), "{end:?}");
    }
}

/// Events that come meanwhile are no reason to wait longer.
#[actix_rt::test]
async fn who_does_not_answer_a_close_is_cut_off_although_events_flow() {
    let daemon = Daemon::start(Config { messages_per_sec: 1, ..Config::default() }).await;
    let mut client = Client::open(daemon.address).await;
    client.send(json!({"type": "subscribe", "channel": "iceberg"})).await;
    client.send_bytes(&masked(TEXT, b"{\"type\":\"ping\"}").repeat(9)).await;
    while client.frame().await != Frame::Close(Some(4004), "rate_exceeded".to_owned()) {}
    let started = std::time::Instant::now();
    let mut published = 0;
    while daemon.open_sessions() > 0 {
        published += 1;
        daemon.publish([published]).await;
        assert!(
            started.elapsed() < std::time::Duration::from_secs(9),
            "still there after {published} events"
        );
    }
}

#[actix_rt::test]
async fn a_parameter_that_is_not_known_is_refused() {
    let daemon = Daemon::start(Config::default()).await;
    let request = format!(
        "GET /ws?channel=iceberg HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {}\r\nSec-WebSocket-Version: 13\r\n\r\n",
        crate::websocket::EXAMPLE_KEY
    );
    let mut client = Client::request(daemon.address, &request).await;
    assert_eq!(client.status(), "400");
    assert_eq!(client.refusal().await["code"], "unknown_parameter");
}
