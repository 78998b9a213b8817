//! A slow client hurts only itself.

#![allow(dead_code, reason = "each test uses its part of the support")]
#![allow(clippy::unwrap_used, reason = "the support of tests fails as tests do")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "../../broadcaster/tests/support/memory_log.rs"]
mod memory_log;
#[path = "support/sse.rs"]
mod sse;
#[path = "support/websocket.rs"]
mod websocket;

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use daemon::{Daemon, ids};
use freshet_feed::Channels;
use freshet_feed::Event;
use freshet_feed::channel::WhenFull;
use freshet_session::{CloseCode, Config};
use memory_log::{MemoryLog, event, event_of};
use serde_json::json;
use sse::Client;

const LARGE: usize = 64 << 10;

fn large(number: u64, table: &str) -> Event {
    let body = format!("{{\"eventId\":\"e{number}\",\"filler\":\"{}\"}}", "x".repeat(LARGE));
    Event { body: Bytes::from(body), ..event_of(number, table) }
}

fn tight() -> Config {
    Config {
        outbox_max_bytes: 4 * LARGE,
        socket_unsent_max_bytes: 16 << 10,
        stalled_after_secs: 1,
        ..Config::default()
    }
}

/// Memory of this process that is its own, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[actix_rt::test]
async fn stalled_clients_are_closed_and_their_memory_stays_flat_while_others_get_all() {
    const STALLED: usize = 20;
    const EVENTS: u64 = 640;
    const BOUND: usize = 20 << 20;
    let small = freshet_broadcaster::Config { recent_max_bytes: 1 << 20, ..Default::default() };
    // The operating system is not to help by ending their sockets.
    let config = Config { stalled_after_secs: 3600, ..tight() };
    let daemon = Daemon::start_on(MemoryLog::new(), config, small).await;
    let mut reader = Client::get(daemon.address, "/events", "").await;
    reader.connected().await;
    let (mut stalled, mut stalled_websockets) = (Vec::new(), Vec::new());
    for _ in 0..STALLED / 2 {
        let mut client = Client::get(daemon.address, "/events", "").await;
        client.connected().await;
        stalled.push(client);
        let mut client = websocket::Client::open(daemon.address).await;
        client.subscribe("iceberg", json!({})).await;
        stalled_websockets.push(client);
    }
    let before = resident_bytes();
    // The clients share the bytes of an event, so one that is not bounded keeps all of them for all.
    const { assert!(EVENTS as usize * LARGE >= 2 * BOUND) };
    let mut most = 0;
    for number in 1..=EVENTS {
        daemon.publish_events(vec![large(number, "db.t")]).await;
        assert_eq!(reader.ids(1).await, ids([number]));
        // Nor does the log of this test keep them.
        daemon.log.drop_before(number);
        most = most.max(resident_bytes().saturating_sub(before));
    }
    assert!(most < BOUND, "grew by {most} bytes");
    assert_eq!(daemon.sessions.counters().closed(CloseCode::OutboxFull), STALLED as u64);
    let dropped = daemon.sessions.counters().dropped.load(Relaxed);
    assert!(dropped >= 4 * STALLED as u64, "what waited for them is counted: {dropped}");
}

#[actix_rt::test]
async fn the_socket_of_a_client_that_never_reads_is_ended() {
    let daemon = Daemon::start(tight()).await;
    let mut client = Client::get(daemon.address, "/events", "").await;
    client.connected().await;
    let mut published = 0;
    while daemon.sessions.counters().closed(CloseCode::OutboxFull) == 0 {
        published += 1;
        daemon.publish_events(vec![large(published, "db.t")]).await;
        tokio::task::yield_now().await;
    }
    daemon.until(|daemon| daemon.open_sessions() == 0).await;
    drop(client);
}

#[actix_rt::test]
async fn a_client_that_was_closed_for_being_slow_resumes_where_it_stood() {
    let daemon = Daemon::start(tight()).await;
    let mut client = Client::get(daemon.address, "/events", "").await;
    client.connected().await;
    let mut published = 0;
    while daemon.sessions.counters().closed(CloseCode::OutboxFull) == 0 {
        published += 1;
        daemon.publish_events(vec![large(published, "db.t")]).await;
        tokio::task::yield_now().await;
    }
    let mut got = Vec::new();
    let mut close = None;
    while let Some(event) = client.next().await {
        if event.name == "close" {
            close = Some(event.data);
        } else {
            got.push(event.last_event_id);
        }
    }
    assert_eq!(close.as_deref(), Some("{\"code\":4001,\"reason\":\"outbox_full\",\"reconnect\":true}"));
    let resume = format!("Last-Event-ID: {}\r\n", client.parser.last_event_id);
    let mut client = Client::get(daemon.address, "/events", &resume).await;
    client.connected().await;
    got.extend(client.ids(usize::try_from(published).unwrap() - got.len()).await);
    assert_eq!(got, ids(1..=published));
}

#[actix_rt::test]
async fn coalescing_keeps_the_newest_of_each_table_and_says_how_many_are_left_out() {
    let coalesce = freshet_feed::channel::Config { when_full: WhenFull::Coalesce, ..Default::default() };
    let daemon = Daemon::start_with(tight(), Channels::new(&[coalesce])).await;
    let mut client = Client::get(daemon.address, "/events", "").await;
    client.connected().await;
    let mut published = 0;
    while daemon.sessions.counters().coalesced.load(Relaxed) < 20 {
        published += 1;
        let table = if published % 2 == 0 { "db.even" } else { "db.odd" };
        daemon.publish_events(vec![large(published, table)]).await;
        tokio::task::yield_now().await;
    }
    daemon.publish_events(vec![event(published + 1)]).await;
    let mut last = String::new();
    let (mut got, mut left_out) = (Vec::new(), 0);
    while last != format!("e{}", published + 1) {
        let event = client.next().await.unwrap();
        if event.name == "coalesced" {
            let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
            left_out += data["leftOut"].as_u64().unwrap();
        } else {
            assert_eq!(event.name, "iceberg-mutation");
            last = event.last_event_id;
            got.push(last[1..].parse::<u64>().unwrap());
        }
    }
    assert!(got.is_sorted());
    assert_eq!(got.len() as u64 + left_out, published + 1);
    assert!(got.ends_with(&[published - 1, published, published + 1]), "the newest of each table: {got:?}");
    assert_eq!(daemon.sessions.counters().closed(CloseCode::OutboxFull), 0);
}
