//! What a dashboard sees.

#![allow(dead_code, reason = "each test uses its part of the support")]
#![allow(clippy::unwrap_used, reason = "the support of tests fails as tests do")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "../../broadcaster/tests/support/memory_log.rs"]
mod memory_log;
#[path = "support/sse.rs"]
mod sse;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use bytes::Bytes;
use daemon::{Daemon, ids};
use freshet_session::{CloseCode, Config};
use memory_log::{Failure, MemoryLog, event, event_of};
use serde_json::json;
use sse::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[actix_rt::test]
async fn a_new_client_is_greeted_at_once_and_then_gets_each_commit() {
    let daemon = Daemon::start(Config::default()).await;
    daemon.publish([1]).await;
    let mut client = Client::get(daemon.address, "/events", "").await;
    assert_eq!(client.status(), "200");
    assert_eq!(client.header("content-type"), Some("text/event-stream"));
    assert_eq!(client.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(client.header("x-accel-buffering"), Some("no"));
    assert_eq!(client.header("content-encoding"), None);

    let client_id = client.connected().await;
    assert_eq!(uuid::Uuid::parse_str(&client_id).unwrap().to_string(), client_id);
    let retry = client.parser.retry_millis.unwrap();
    assert!((1000..=5000).contains(&retry), "{retry}");

    daemon.publish([2, 3]).await;
    let commit = client.next().await.unwrap();
    assert_eq!(commit.name, "iceberg-mutation");
    assert_eq!(commit.last_event_id, "e2");
    assert_eq!(commit.data, "{\"eventId\":\"e2\"}");
    assert_eq!(client.ids(1).await, ["e3"]);
}

#[actix_rt::test]
async fn a_body_with_line_ends_reads_back_as_equal_json() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::get(daemon.address, "/events", "").await;
    client.connected().await;
    let body =
        "{\r\n  \"eventId\": \"x\",\r  \"snapshotId\": 8734628364872364872,\n\n  \"text\": \"a\\nb\"\n}";
    let with_lines = freshet_feed::Event { body: Bytes::from_static(body.as_bytes()), ..event(1) };
    daemon.publish_events(vec![with_lines]).await;
    let read = client.next().await.unwrap().data;
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&read), value(body));
}

#[actix_rt::test]
async fn a_client_resumes_by_event_id_by_position_and_the_header_wins() {
    let daemon = Daemon::start(Config::default()).await;
    daemon.publish(1..=20).await;
    for (path, header) in [
        ("/events", "Last-Event-ID: e5\r\n"),
        ("/events?lastEventId=e5", ""),
        ("/events?lastEventId=0000000000c0ffee-5", ""),
        ("/events?lastEventId=e19", "Last-Event-ID: 0000000000c0ffee-5\r\n"),
    ] {
        let mut client = Client::get(daemon.address, path, header).await;
        client.connected().await;
        assert_eq!(client.ids(15).await, ids(6..=20), "{path} {header}");
    }
    daemon.publish([21]).await;
    let mut client = Client::get(daemon.address, "/events?lastEventId=e21", "").await;
    client.connected().await;
    daemon.publish([22]).await;
    assert_eq!(client.ids(1).await, ["e22"]);
}

#[actix_rt::test]
async fn a_client_that_leaves_before_its_first_event_misses_nothing() {
    let daemon = Daemon::start(Config::default()).await;
    daemon.publish([1, 2]).await;
    let mut client = Client::get(daemon.address, "/events", "").await;
    client.connected().await;
    let last_event_id = client.parser.last_event_id.clone();
    assert_eq!(last_event_id, "e2", "the newest event, which other instances know too");
    let header = format!("Last-Event-ID: {last_event_id}\r\n");
    let mut again = Client::get(daemon.address, "/events", &header).await;
    again.connected().await;
    assert_eq!(again.parser.last_event_id, last_event_id, "each stream begins with an empty id");
    drop((client, again));
    daemon.publish([3]).await;
    let mut client = Client::get(daemon.address, "/events", &header).await;
    client.connected().await;
    assert_eq!(client.ids(1).await, ["e3"]);
}

#[actix_rt::test]
async fn a_long_absence_is_replayed_from_the_log_and_flows_into_the_live_stream() {
    let small =
        freshet_broadcaster::Config { recent_max_bytes: 1000, page_max_events: 7, ..Default::default() };
    let config = Config { outbox_max_bytes: 4096, ..Config::default() };
    let daemon = Daemon::start_on(MemoryLog::new(), config, small).await;
    daemon.publish(1..=2000).await;
    let mut client = Client::get(daemon.address, "/events?lastEventId=e1", "").await;
    client.connected().await;
    for number in 2001..=2100 {
        daemon.publish([number]).await;
    }
    assert_eq!(client.ids(2099).await, ids(2..=2100));
    assert!(daemon.sessions.counters().replayed.load(Relaxed) >= 1999);
}

#[actix_rt::test]
async fn what_history_no_longer_holds_is_a_gap_and_the_rest_follows() {
    let daemon = Daemon::start_on(
        MemoryLog::new(),
        Config::default(),
        freshet_broadcaster::Config { recent_max_bytes: 200, batch_max_bytes: 1, ..Default::default() },
    )
    .await;
    daemon.publish(1..=20).await;
    daemon.log.drop_before(11);
    for requested in ["e3", "never-heard-of", "00000000deadbeef-7", "0000000000c0ffee-999"] {
        let mut client = Client::get(daemon.address, &format!("/events?lastEventId={requested}"), "").await;
        client.connected().await;
        let gap = client.next().await.unwrap();
        assert_eq!(gap.name, "gap");
        assert_eq!(gap.last_event_id, "0000000000c0ffee-10");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&gap.data).unwrap(),
            json!({"requested": requested, "oldest": "0000000000c0ffee-11", "newest": "0000000000c0ffee-20"})
        );
        assert_eq!(client.ids(10).await, ids(11..=20));
    }
    // A position of this log that is too old names itself.
    let mut client = Client::get(daemon.address, "/events?lastEventId=0000000000c0ffee-3", "").await;
    client.connected().await;
    assert_eq!(client.next().await.unwrap().name, "gap");
    assert_eq!(client.ids(10).await, ids(11..=20));
    assert_eq!(daemon.sessions.counters().gaps.load(Relaxed), 5);
}

#[actix_rt::test]
async fn a_client_gets_what_its_filter_wants_live_and_replayed() {
    let daemon = Daemon::start(Config::default()).await;
    let tables = |numbers: std::ops::RangeInclusive<u64>| {
        numbers
            .map(|number| event_of(number, if number % 3 == 0 { "prod.orders" } else { "test.orders" }))
            .collect::<Vec<_>>()
    };
    daemon.publish_events(tables(1..=9)).await;
    let mut client =
        Client::get(daemon.address, "/events?table=prod.*&operation=append&lastEventId=e1", "").await;
    client.connected().await;
    assert_eq!(client.ids(3).await, ["e3", "e6", "e9"]);
    daemon.publish_events(tables(10..=15)).await;
    assert_eq!(client.ids(2).await, ["e12", "e15"]);

    let mut client = Client::get(daemon.address, "/events?table=none.*&lastEventId=e1", "").await;
    client.connected().await;
    while client.parser.last_event_id != "e15" {
        assert!(client.read().await, "the id moves on although nothing fits");
    }
    assert_eq!(client.next_dispatched(), None);
}

impl Client {
    fn next_dispatched(&mut self) -> Option<sse::Dispatched> {
        self.parser.dispatched.pop_front()
    }
}

#[actix_rt::test]
async fn requests_that_cannot_be_understood_are_refused_with_a_code() {
    let daemon = Daemon::start(Config::default()).await;
    let long = format!("/events?lastEventId={}", "x".repeat(2000));
    for (path, status, code) in [
        ("/events?schemaChanged=perhaps", "400", "invalid_filter"),
        ("/events?tabel=x", "400", "unknown_parameter"),
        ("/events?channels=orders", "404", "unknown_channel"),
        (long.as_str(), "400", "invalid_last_event_id"),
    ] {
        let refused = Client::get(daemon.address, path, "").await;
        assert_eq!(refused.status(), status);
        assert_eq!(refused.header("content-type"), Some("application/json"));
        let body = refused.body().await;
        assert_eq!(body["code"], code);
        assert!(body["error"].is_string());
    }
}

async fn raw(daemon: &Daemon, request: &str) -> String {
    let mut stream = TcpStream::connect(daemon.address).await.unwrap();
    stream
        .write_all(format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    sse::within(stream.read_to_string(&mut answer)).await.unwrap();
    answer.to_lowercase()
}

#[actix_rt::test]
async fn other_methods_are_answered_sensibly() {
    let daemon = Daemon::start(Config::default()).await;
    let head = raw(&daemon, "HEAD /events").await;
    assert!(head.starts_with("http/1.1 200") && head.contains("text/event-stream"), "{head}");
    let options = raw(&daemon, "OPTIONS /events").await;
    assert!(
        options.starts_with("http/1.1 204") && options.contains("allow: get, head, options"),
        "{options}"
    );
    let post = raw(&daemon, "POST /events").await;
    assert!(post.starts_with("http/1.1 405") && post.contains("method_not_allowed"), "{post}");
    assert_eq!(daemon.open_sessions(), 0);
}

#[actix_rt::test]
async fn a_catch_up_ends_with_its_client_however_slow_the_log_is() {
    let small = freshet_broadcaster::Config { recent_max_bytes: 1, batch_max_bytes: 1, ..Default::default() };
    let daemon =
        Daemon::start_on(MemoryLog::new(), Config { max_sessions: 1, ..Config::default() }, small).await;
    daemon.publish(1..=5).await;
    daemon.log.readable.send_replace(false);
    let mut client = Client::get(daemon.address, "/events?lastEventId=0000000000c0ffee-1", "").await;
    client.connected().await;
    daemon.until(|daemon| daemon.log.reads.load(SeqCst) > 0).await;
    drop(client);
    daemon.until(|daemon| daemon.open_sessions() == 0).await;
    daemon.until(|daemon| daemon.nursery.count() == 0).await;
}

#[actix_rt::test]
async fn a_log_that_cannot_be_read_closes_who_must_catch_up_and_nobody_else() {
    let small = freshet_broadcaster::Config { recent_max_bytes: 1, batch_max_bytes: 1, ..Default::default() };
    let daemon = Daemon::start_on(MemoryLog::new(), Config::default(), small).await;
    daemon.publish(1..=5).await;
    let mut live = Client::get(daemon.address, "/events", "").await;
    live.connected().await;
    daemon.log.fail(Some(Failure::Before));
    let mut client = Client::get(daemon.address, "/events?lastEventId=e1", "").await;
    client.connected().await;
    let close = client.next().await.unwrap();
    assert_eq!(close.name, "close");
    assert_eq!(close.data, "{\"code\":4002,\"reason\":\"store_unavailable\",\"reconnect\":true}");
    assert_eq!(client.next().await, None, "the stream ends");
    assert_eq!(daemon.sessions.counters().closed(CloseCode::StoreUnavailable), 1);
    daemon.log.fail(None);
    daemon.publish([6]).await;
    assert_eq!(live.ids(1).await, ["e6"]);
}
