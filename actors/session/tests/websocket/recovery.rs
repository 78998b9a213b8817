//! From now, from a position or from an event on: each event once, in order, or a gap that is told.

use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use freshet_feed::Event;
use freshet_session::{CloseCode, Config};
use serde_json::{Value, json};

use crate::daemon::{Daemon, ids};
use crate::memory_log::{Failure, MemoryLog, event, event_of};
use crate::orders::at;
use crate::websocket::{Client, Frame};

#[actix_rt::test]
async fn who_subscribes_now_gets_what_comes_with_its_bytes_untouched() {
    let daemon = Daemon::start(Config::default()).await;
    daemon.publish([1]).await;
    let mut client = Client::open(daemon.address).await;
    let subscribed = client.subscribe("iceberg", json!({"id": "7"})).await;
    assert_eq!(
        subscribed,
        json!({"type": "subscribed", "channel": "iceberg", "position": at(1), "recovered": true, "id": "7"})
    );
    let body =
        "{\"eventId\": \"e2\",\n \"snapshotId\":\t8734628364872364872, \"x\": 1.50, \"y\": \"\\u00e9\"}";
    daemon.publish_events(vec![Event { body: Bytes::from_static(body.as_bytes()), ..event(2) }]).await;
    assert_eq!(
        client.text().await,
        format!(
            "{{\"type\":\"event\",\"channel\":\"iceberg\",\"event\":\"iceberg-mutation\",\"id\":\"e2\",\
             \"position\":\"{}\",\"key\":\"db.t\",\"data\":{body}}}",
            at(2)
        )
    );
    client.send(json!({"type": "unsubscribe", "channel": "iceberg", "id": "8"})).await;
    assert_eq!(client.says().await, json!({"type": "unsubscribed", "channel": "iceberg", "id": "8"}));
    daemon.publish([3]).await;
    let subscribed = client.subscribe("iceberg", json!({"from": {"eventId": "e3"}})).await;
    assert_eq!(subscribed["position"], at(3), "nothing came while it was not subscribed");
}

#[actix_rt::test]
async fn who_comes_back_gets_what_it_missed_and_then_what_is_new() {
    let daemon = Daemon::start(Config::default()).await;
    daemon.publish(1..=20).await;
    for from in [json!({"position": at(5)}), json!({"eventId": "e5"})] {
        let mut client = Client::open(daemon.address).await;
        let subscribed = client.subscribe("iceberg", json!({"from": from, "id": "x"})).await;
        assert_eq!(
            subscribed,
            json!({"type": "subscribed", "channel": "iceberg", "position": at(5), "recovered": true, "id": "x"})
        );
        assert_eq!(client.ids(15).await, ids(6..=20), "{from}");
        assert_eq!(client.says().await, json!({"type": "live", "channel": "iceberg", "position": at(20)}));
        client.has_heard_all().await;
    }
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"from": {"position": at(20)}})).await;
    assert_eq!(client.says().await["type"], "live");
    daemon.publish([21]).await;
    assert_eq!(client.ids(1).await, ["e21"]);
}

#[actix_rt::test]
async fn what_is_not_held_is_said_and_everything_that_is_held_follows() {
    let small =
        freshet_broadcaster::Config { recent_max_bytes: 200, batch_max_bytes: 1, ..Default::default() };
    let daemon = Daemon::start_on(MemoryLog::new(), Config::default(), small).await;
    daemon.publish(1..=20).await;
    daemon.log.drop_before(11);
    for (from, requested) in [
        (json!({"position": "00000000deadbeef-7"}), "00000000deadbeef-7"),
        (json!({"position": at(999)}), "0000000000c0ffee-999"),
        (json!({"eventId": "e3"}), "e3"),
    ] {
        let mut client = Client::open(daemon.address).await;
        let subscribed = client.subscribe("iceberg", json!({"from": from})).await;
        let expected = json!({
            "type": "subscribed", "channel": "iceberg", "position": at(10), "recovered": false,
            "requested": requested, "oldest": at(11), "newest": at(20),
        });
        assert_eq!(subscribed, expected);
        assert_eq!(client.ids(10).await, ids(11..=20));
        assert_eq!(client.says().await["type"], "live");
    }
}

#[actix_rt::test]
async fn who_leaves_a_channel_before_it_was_told_that_it_is_in_hears_of_it_no_more() {
    let small = freshet_broadcaster::Config { recent_max_bytes: 1, batch_max_bytes: 1, ..Default::default() };
    let daemon = Daemon::start_on(MemoryLog::new(), Config::default(), small).await;
    daemon.publish(1..=5).await;
    let mut client = Client::open(daemon.address).await;
    daemon.log.readable.send_replace(false);
    let subscribed = client.subscribe("iceberg", json!({"from": {"position": at(1)}})).await;
    assert_eq!(subscribed["position"], at(1));
    daemon.until(|daemon| daemon.log.reads.load(SeqCst) > 0).await;
    client.send(json!({"type": "unsubscribe", "channel": "iceberg"})).await;
    assert_eq!(client.says().await["type"], "unsubscribed");
    daemon.log.readable.send_replace(true);
    let subscribed = client.subscribe("iceberg", json!({"from": {"position": at(4)}})).await;
    assert_eq!(subscribed["position"], at(4));
    assert_eq!(client.ids(1).await, ["e5"]);
    assert_eq!(client.says().await["type"], "live");
    client.has_heard_all().await;
}

#[actix_rt::test]
async fn a_log_that_cannot_be_read_closes_who_must_catch_up() {
    let daemon = Daemon::start(Config::default()).await;
    daemon.publish([1]).await;
    let mut client = Client::open(daemon.address).await;
    daemon.log.fail(Some(Failure::Before));
    let close = client.subscribe("iceberg", json!({"from": "snapshot"})).await;
    let expected: Value =
        json!({"type": "close", "code": 4002, "reason": "store_unavailable", "reconnect": true});
    assert_eq!(close, expected);
    assert_eq!(client.frame().await, Frame::Close(Some(4002), "store_unavailable".to_owned()));
    daemon.until(|daemon| daemon.sessions.counters().closed(CloseCode::StoreUnavailable) == 1).await;
}

#[actix_rt::test]
async fn a_long_absence_is_replayed_while_more_is_published_and_each_event_comes_once() {
    const LAST: u64 = 900;
    let small =
        freshet_broadcaster::Config { recent_max_bytes: 1000, page_max_events: 7, ..Default::default() };
    let config = Config { outbox_max_bytes: 4096, ..Config::default() };
    let daemon = Daemon::start_on(MemoryLog::new(), config, small).await;
    daemon.publish(1..=500).await;
    let mut client = Client::open(daemon.address).await;
    let publish = async {
        for number in 501..=LAST {
            daemon.publish_without_waiting(vec![event(number)]).await;
        }
    };
    let read = async {
        let subscribed = client.subscribe("iceberg", json!({"from": {"position": at(3)}})).await;
        assert_eq!(json!([subscribed["position"], subscribed["recovered"]]), json!([at(3), true]));
        let (mut next, mut live) = (4, None);
        while next <= LAST || live.is_none() {
            let message = client.says().await;
            if message["type"] == "live" {
                assert_eq!(live.replace(message["position"].clone()), None, "once");
                assert_eq!(message["position"], at(next - 1), "where the client stands");
                continue;
            }
            assert_eq!(json!([message["id"], message["position"]]), json!([format!("e{next}"), at(next)]));
            next += 1;
        }
        client.has_heard_all().await;
    };
    tokio::join!(publish, read);
}

#[actix_rt::test]
async fn a_filter_narrows_what_is_replayed_and_what_is_new() {
    let daemon = Daemon::start(Config::default()).await;
    let publish = async |numbers: std::ops::RangeInclusive<u64>| {
        for number in numbers {
            let table = if number % 3 == 0 { "prod.orders" } else { "test.orders" };
            daemon.publish_events(vec![event_of(number, table)]).await;
        }
    };
    publish(1..=9).await;
    let mut client = Client::open(daemon.address).await;
    let filter = json!({"table": ["prod.*", "none"], "operation": ["append", "overwrite"]});
    client.subscribe("iceberg", json!({"from": {"position": at(1)}, "filter": filter})).await;
    assert_eq!(client.ids(3).await, ["e3", "e6", "e9"]);
    assert_eq!(client.says().await["type"], "live");
    publish(10..=15).await;
    assert_eq!(client.ids(2).await, ["e12", "e15"]);
    for nothing in [json!({"schemaChanged": true}), json!({"application": ["spark"]})] {
        let mut client = Client::open(daemon.address).await;
        client.subscribe("iceberg", json!({"from": {"position": at(1)}, "filter": nothing})).await;
        assert_eq!(client.says().await["type"], "live", "an event that does not say a field fits no filter");
    }
}
