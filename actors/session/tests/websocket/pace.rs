//! Windows of unacknowledged events and rates, with what each channel's policy makes of what must wait.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use freshet_feed::channel::WhenFull;
use freshet_session::{CloseCode, Config};
use serde_json::{Value, json};

use crate::daemon::{Daemon, ids};
use crate::orders::{at, order, orders};
use crate::websocket::{CLOSE, Client, Frame};

async fn daemon_whose_orders(when_full: WhenFull) -> Daemon {
    let channels = orders(|config| {
        config.when_full = when_full;
        config.keep_newest = 3;
    });
    Daemon::start_with(Config { outbox_max_bytes: 4096, ..Config::default() }, channels).await
}

/// Orders whose keys are `a` and `b` in turn, one publication each.
async fn publish_orders(daemon: &Daemon, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let key = if number % 2 == 0 { "b" } else { "a" };
        daemon.publish_events(vec![order(number, key, "x")]).await;
    }
}

impl Client {
    async fn acknowledge(&mut self, offset: u64) {
        self.send(json!({"type": "ack", "channel": "orders", "position": at(offset)})).await;
    }

    async fn was_left_out(&mut self, events: u64) {
        assert_eq!(self.says().await, json!({"type": "coalesced", "channel": "orders", "leftOut": events}));
    }
}

#[actix_rt::test]
async fn with_a_full_window_the_newest_of_each_key_waits_for_an_acknowledgement() {
    let daemon = daemon_whose_orders(WhenFull::Coalesce).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"window": 2})).await;
    let mut other = Client::open(daemon.address).await;
    other.subscribe("orders", json!({})).await;
    for number in 1..=2 {
        publish_orders(&daemon, number..=number).await;
        assert_eq!(client.ids(1).await, ids([number]));
    }
    publish_orders(&daemon, 3..=10).await;
    daemon.until(|daemon| daemon.sessions.counters().coalesced.load(Relaxed) == 6).await;
    client.has_heard_all().await;

    client.acknowledge(1).await;
    client.was_left_out(6).await;
    assert_eq!(client.ids(1).await, ["e9"]);
    client.has_heard_all().await;
    // What was acknowledged before is no news, and no error.
    client.acknowledge(1).await;
    client.has_heard_all().await;
    // One acknowledgement for all that came.
    client.acknowledge(9).await;
    assert_eq!(client.ids(1).await, ["e10"]);
    publish_orders(&daemon, 11..=11).await;
    assert_eq!(client.ids(1).await, ["e11"], "the window has room");
    assert_eq!(other.ids(11).await, ids(1..=11), "who asked for no window gets everything");
}

#[actix_rt::test]
async fn with_a_full_window_the_newest_events_wait_where_the_channel_says_so() {
    let daemon = daemon_whose_orders(WhenFull::Newest).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"window": 1})).await;
    publish_orders(&daemon, 1..=1).await;
    assert_eq!(client.ids(1).await, ["e1"]);
    publish_orders(&daemon, 2..=10).await;
    daemon.until(|daemon| daemon.sessions.counters().coalesced.load(Relaxed) == 6).await;
    client.acknowledge(1).await;
    client.was_left_out(6).await;
    for number in 8..=10 {
        assert_eq!(client.ids(1).await, ids([number]));
        client.has_heard_all().await;
        client.acknowledge(number).await;
    }
    client.has_heard_all().await;
}

#[actix_rt::test]
async fn where_nothing_may_be_left_out_a_client_that_never_acknowledges_is_closed_and_resumes() {
    let daemon = daemon_whose_orders(WhenFull::Close).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"window": 1})).await;
    let mut other = Client::open(daemon.address).await;
    other.subscribe("orders", json!({})).await;
    let mut published = 0;
    while daemon.sessions.counters().closed(CloseCode::OutboxFull) == 0 {
        published += 1;
        publish_orders(&daemon, published..=published).await;
        assert_eq!(other.ids(1).await, ids([published]));
    }
    assert_eq!(client.ids(1).await, ["e1"]);
    assert_eq!(
        client.says().await,
        json!({"type": "close", "code": 4001, "reason": "outbox_full", "reconnect": true})
    );
    assert_eq!(client.frame().await, Frame::Close(Some(4001), "outbox_full".to_owned()));
    client.send_frame(CLOSE, &4001_u16.to_be_bytes()).await;
    assert_eq!(client.frame().await, Frame::End);

    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"from": {"position": at(1)}})).await;
    assert_eq!(client.ids(usize::try_from(published).unwrap() - 1).await, ids(2..=published));
}

#[actix_rt::test]
async fn what_was_not_sent_cannot_be_acknowledged() {
    let daemon = daemon_whose_orders(WhenFull::Coalesce).await;
    publish_orders(&daemon, 1..=3).await;
    let mut client = Client::open(daemon.address).await;
    assert_eq!(client.subscribe("orders", json!({"window": 1})).await["position"], at(3));
    client.acknowledge(3).await;
    client.has_heard_all().await;
    publish_orders(&daemon, 4..=4).await;
    assert_eq!(client.ids(1).await, ["e4"]);
    publish_orders(&daemon, 5..=5).await;
    client.send(json!({"type": "ack", "channel": "orders", "position": at(5), "id": "too soon"})).await;
    let refused = client.says().await;
    assert_eq!(
        json!([refused["type"], refused["code"], refused["channel"], refused["id"]]),
        json!(["error", "ack_ahead", "orders", "too soon"])
    );
    client.has_heard_all().await;
    client.acknowledge(4).await;
    assert_eq!(client.ids(1).await, ["e5"]);
}

#[actix_rt::test]
async fn acknowledgements_that_nobody_asked_for_change_nothing() {
    let daemon = daemon_whose_orders(WhenFull::Coalesce).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({})).await;
    publish_orders(&daemon, 1..=2).await;
    assert_eq!(client.ids(2).await, ["e1", "e2"]);
    client.acknowledge(2).await;
    client.has_heard_all().await;
    publish_orders(&daemon, 3..=3).await;
    assert_eq!(client.ids(1).await, ["e3"]);
}

#[actix_rt::test]
async fn who_leaves_with_a_full_window_loses_nothing_when_it_comes_back() {
    let daemon = daemon_whose_orders(WhenFull::Coalesce).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"window": 1})).await;
    publish_orders(&daemon, 1..=1).await;
    assert_eq!(client.ids(1).await, ["e1"]);
    publish_orders(&daemon, 2..=8).await;
    daemon.until(|daemon| daemon.sessions.counters().coalesced.load(Relaxed) == 5).await;
    client.send(json!({"type": "unsubscribe", "channel": "orders"})).await;
    assert_eq!(client.says().await["type"], "unsubscribed");
    client.has_heard_all().await;
    client.subscribe("orders", json!({"from": {"position": at(1)}})).await;
    assert_eq!(client.ids(7).await, ids(2..=8));
    assert_eq!(client.says().await["type"], "live");
}

#[actix_rt::test]
async fn a_rate_spaces_events_and_ends_with_the_newest_of_each_key() {
    const RATE: u32 = 100;
    const LAST: u64 = 400;
    let daemon = daemon_whose_orders(WhenFull::Coalesce).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"maxRate": RATE})).await;
    let started = Instant::now();
    let publish = async {
        for number in 1..=LAST {
            let key = if number.is_multiple_of(2) { "b" } else { "a" };
            daemon.publish_without_waiting(vec![order(number, key, "x")]).await;
        }
    };
    let read = async {
        let (mut got, mut left_out) = (Vec::new(), 0);
        while got.len() as u64 + left_out < LAST {
            let message: Value = client.says().await;
            if message["type"] == "coalesced" {
                left_out += message["leftOut"].as_u64().unwrap();
                continue;
            }
            got.push(message["id"].as_str().unwrap()[1..].parse::<u64>().unwrap());
            let before = u32::try_from(got.len()).unwrap() - 1;
            let earliest = Duration::from_secs(1) / RATE * before;
            assert!(started.elapsed() >= earliest, "event {before} came after {:?}", started.elapsed());
        }
        got
    };
    let ((), got) = tokio::join!(publish, read);
    assert!(got.is_sorted_by(|earlier, later| earlier < later), "{got:?}");
    assert!(got.ends_with(&[LAST - 1, LAST]), "the newest of both keys: {got:?}");
    assert!(got.len() > 2, "it does not wait for silence: {got:?}");
    client.has_heard_all().await;
}

#[actix_rt::test]
async fn one_subscription_waits_and_the_others_of_its_connection_do_not() {
    let daemon = daemon_whose_orders(WhenFull::Coalesce).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("orders", json!({"window": 1})).await;
    client.subscribe("iceberg", json!({})).await;
    publish_orders(&daemon, 1..=2).await;
    assert_eq!(client.ids(1).await, ["e1"]);
    daemon.publish(3..=40).await;
    assert_eq!(client.ids(38).await, ids(3..=40));
    client.acknowledge(1).await;
    assert_eq!(client.ids(1).await, ["e2"]);
}
