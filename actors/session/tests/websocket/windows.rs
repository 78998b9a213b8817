//! Windows and rates over replays, snapshots and bursts.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use bytes::Bytes;
use freshet_feed::Event;
use freshet_feed::channel::WhenFull;
use freshet_session::{CloseCode, Config};
use serde_json::json;

use crate::daemon::{Daemon, ids};
use crate::memory_log::{MemoryLog, event_of};
use crate::orders::{at, order, orders};
use crate::websocket::Client;

fn small_pages() -> freshet_broadcaster::Config {
    freshet_broadcaster::Config {
        recent_max_bytes: 1,
        batch_max_bytes: 1,
        page_max_events: 7,
        ..Default::default()
    }
}

/// A replay larger than all that may wait comes as fast as the client acknowledges.
#[actix_rt::test]
async fn a_replay_goes_at_the_pace_of_its_window_and_live_comes_after_it() {
    let config = Config { outbox_max_bytes: 4096, messages_per_sec: 10_000, ..Config::default() };
    let daemon = Daemon::start_on(MemoryLog::new(), config, small_pages()).await;
    daemon.publish(1..=200).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"from": {"position": at(0)}, "window": 5})).await;
    for number in 1..=200 {
        let message = client.says().await;
        assert_eq!(message["id"], format!("e{number}"), "{message}");
        client.send(json!({"type": "ack", "channel": "iceberg", "position": message["position"]})).await;
    }
    assert_eq!(client.says().await["type"], "live");
}

/// The same for a snapshot, whose events are one for each key and must all come.
#[actix_rt::test]
async fn a_snapshot_goes_at_the_pace_of_its_window() {
    let channels = orders(|config| config.when_full = WhenFull::Coalesce);
    let config = Config { outbox_max_bytes: 4096, messages_per_sec: 10_000, ..Config::default() };
    let daemon = Daemon::start_in(MemoryLog::new(), config, channels, small_pages()).await;
    let events = (1..=200).map(|number| order(number, &format!("k{number}"), "x")).collect();
    daemon.publish_events(events).await;
    let mut client = Client::open(daemon.address).await;
    assert_eq!(client.subscribe("orders", json!({"from": "snapshot", "window": 5})).await["snapshot"], 200);
    for number in 1..=200 {
        let message = client.says().await;
        assert_eq!(message["id"], format!("e{number}"), "{message}");
        client.send(json!({"type": "ack", "channel": "orders", "position": message["position"]})).await;
    }
    assert_eq!(client.says().await["type"], "live");
}

#[actix_rt::test]
async fn live_comes_after_the_replay_although_a_window_holds_it_back() {
    let daemon = Daemon::start(Config::default()).await;
    daemon.publish(1..=3).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"from": {"position": at(0)}, "window": 1})).await;
    for number in 1..=3 {
        let message = client.says().await;
        assert_eq!(message["id"], format!("e{number}"), "{message}");
        client.send(json!({"type": "ack", "channel": "iceberg", "position": message["position"]})).await;
    }
    assert_eq!(client.says().await["type"], "live");
}

/// A burst is sent as far as the window has room, and only then left out.
#[actix_rt::test]
async fn nothing_is_left_out_while_the_window_has_room() {
    let channels = orders(|config| config.when_full = WhenFull::Coalesce);
    let daemon = Daemon::start_with(Config::default(), channels).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"window": 10})).await;
    daemon.publish_events((1..=5).map(|number| order(number, "a", "x")).collect()).await;
    assert_eq!(client.ids(5).await, ids(1..=5));
}

#[actix_rt::test]
async fn the_position_of_live_can_be_acknowledged() {
    let daemon = Daemon::start_in(MemoryLog::new(), Config::default(), orders(|_| {}), small_pages()).await;
    daemon.publish(1..=5).await;
    let mut witness = Client::open(daemon.address).await;
    witness.subscribe("iceberg", json!({})).await;
    let mut second = Client::open(daemon.address).await;
    second.subscribe("iceberg", json!({})).await;
    let mut client = Client::open(daemon.address).await;
    daemon.log.readable.send_replace(false);
    client.subscribe("orders", json!({"from": {"position": at(1)}, "window": 5})).await;
    daemon.until(|daemon| daemon.log.reads.load(SeqCst) > 0).await;
    daemon.publish_events((6..=9).map(|number| event_of(number, "t")).collect()).await;
    daemon.log.readable.send_replace(true);
    witness.ids(4).await;
    second.ids(4).await;
    let live = client.says().await;
    assert_eq!(live["type"], "live", "{live}");
    client.send(json!({"type": "ack", "channel": "orders", "position": live["position"]})).await;
    client.has_heard_all().await;
}

/// A position of another log releases nothing.
#[actix_rt::test]
async fn a_position_of_another_log_acknowledges_nothing() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"window": 1})).await;
    daemon.publish([1]).await;
    assert_eq!(client.ids(1).await, ["e1"]);
    daemon.publish([2]).await;
    client.send(json!({"type": "ack", "channel": "iceberg", "position": "00000000deadbeef-1"})).await;
    assert_eq!(client.says().await["code"], "ack_ahead");
}

#[actix_rt::test]
async fn what_a_replay_did_not_send_yet_cannot_be_acknowledged() {
    let daemon = Daemon::start(Config::default()).await;
    daemon.publish(1..=5).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"from": {"position": at(0)}, "window": 1})).await;
    let first = client.says().await;
    assert_eq!(first["id"], "e1");
    client.send(json!({"type": "ack", "channel": "iceberg", "position": at(4)})).await;
    loop {
        let message = client.says().await;
        if message["type"] != "live" {
            assert_eq!(message["code"], "ack_ahead");
            break;
        }
    }
}

#[actix_rt::test]
async fn a_client_with_a_rate_that_reads_nothing_is_coalesced_as_its_channel_says() {
    const LARGE_BYTES: usize = 64 << 10;
    let channels = orders(|config| config.when_full = WhenFull::Coalesce);
    let config =
        Config { outbox_max_bytes: 4 * LARGE_BYTES, socket_unsent_max_bytes: 16 << 10, ..Config::default() };
    let daemon = Daemon::start_with(config, channels).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"window": 65_536})).await;
    let mut published = 0;
    let counters = daemon.sessions.counters();
    while counters.coalesced.load(Relaxed) < 20 && counters.closed(CloseCode::OutboxFull) == 0 {
        published += 1;
        let body = Bytes::from(format!("{{\"filler\":\"{}\"}}", "x".repeat(LARGE_BYTES)));
        daemon.publish_events(vec![Event { body, ..order(published, "a", "x") }]).await;
    }
    assert_eq!(counters.closed(CloseCode::OutboxFull), 0);
    drop(client);
}

/// What makes room is no flood.
#[actix_rt::test]
async fn who_acknowledges_each_event_of_a_burst_is_not_closed() {
    let daemon = Daemon::start(Config::default()).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"window": 1000})).await;
    daemon.publish(1..=500).await;
    for number in 1..=500 {
        assert_eq!(client.says().await["id"], format!("e{number}"));
        client.send(json!({"type": "ack", "channel": "iceberg", "position": at(number)})).await;
    }
    client.has_heard_all().await;
}
