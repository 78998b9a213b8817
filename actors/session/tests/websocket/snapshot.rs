//! The state of a channel, and then what changes.

use freshet_session::Config;
use serde_json::json;

use crate::daemon::{Daemon, ids};
use crate::memory_log::{MemoryLog, event_of};
use crate::orders::{order, orders};
use crate::websocket::Client;

#[actix_rt::test]
async fn a_snapshot_flows_into_the_changes_without_a_gap_and_nothing_comes_twice() {
    const KEYS: u64 = 10;
    const LAST: u64 = 600;
    let small =
        freshet_broadcaster::Config { recent_max_bytes: 2000, page_max_events: 7, ..Default::default() };
    let daemon = Daemon::start_on(MemoryLog::new(), Config::default(), small).await;
    let of_key = |number: u64| event_of(number, &format!("db.t{}", number % KEYS));
    daemon.publish_events((1..=200).map(of_key).collect()).await;
    let mut client = Client::open(daemon.address).await;
    let publish = async {
        for number in 201..=LAST {
            daemon.publish_events(vec![of_key(number)]).await;
        }
    };
    let read = async {
        let subscribed = client.subscribe("iceberg", json!({"from": "snapshot"})).await;
        assert_eq!(subscribed["recovered"], true);
        assert_eq!(subscribed["snapshot"], KEYS);
        let position = subscribed["position"].as_str().unwrap();
        let through: u64 = position.rsplit_once('-').unwrap().1.parse().unwrap();
        assert!((200..=LAST).contains(&through));
        let state = client.ids(usize::try_from(KEYS).unwrap()).await;
        assert_eq!(state, ids(through - KEYS + 1..=through), "the newest of each key");
        let (mut changes, mut lives) = (Vec::new(), 0);
        while changes.len() as u64 + through < LAST || lives == 0 {
            let message = client.says().await;
            match message["type"].as_str().unwrap() {
                "event" => changes.push(message["id"].as_str().unwrap().to_owned()),
                "live" => lives += 1,
                other => panic!("unexpected {other}"),
            }
        }
        assert_eq!(changes, ids(through + 1..=LAST));
        assert_eq!(lives, 1);
        client.has_heard_all().await;
    };
    tokio::join!(publish, read);
}

#[actix_rt::test]
async fn a_snapshot_of_too_many_keys_is_refused_and_can_be_asked_for_again() {
    let config = Config { snapshot_max_keys: 2, ..Config::default() };
    let daemon = Daemon::start_with(config, orders(|_| {})).await;
    let events = [(1, "a", "x"), (2, "b", "x"), (3, "c", "y")];
    daemon.publish_events(events.map(|(number, key, room)| order(number, key, room)).into()).await;
    let mut client = Client::open(daemon.address).await;
    let refused = client.subscribe("orders", json!({"from": "snapshot", "id": "1"})).await;
    assert_eq!(refused["code"], "snapshot_too_large");
    assert_eq!((&refused["channel"], &refused["id"]), (&json!("orders"), &json!("1")));
    let subscribed = client.subscribe("orders", json!({"from": "snapshot", "room": ["x"]})).await;
    assert_eq!(subscribed["snapshot"], 2);
    assert_eq!(client.ids(2).await, ["e1", "e2"]);
}
