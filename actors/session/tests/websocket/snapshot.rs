//! The state of a channel, and then what changes.

use freshet_session::Config;
use serde_json::{Value, json};

use crate::daemon::{Daemon, ids};
use crate::memory_log::{MemoryLog, event_of};
use crate::orders::{at, order, orders};
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
            daemon.publish_without_waiting(vec![of_key(number)]).await;
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

#[actix_rt::test]
async fn each_channel_of_one_connection_goes_from_its_state_to_its_changes_while_both_change() {
    const LAST: u64 = 300;
    let small =
        freshet_broadcaster::Config { recent_max_bytes: 2000, page_max_events: 7, ..Default::default() };
    let daemon = Daemon::start_in(MemoryLog::new(), Config::default(), orders(|_| {}), small).await;
    // Even numbers are orders with three keys, odd ones commits to three tables.
    let of_channel = |number: u64| {
        let key = format!("k{}", number / 2 % 3);
        if number.is_multiple_of(2) { order(number, &key, "x") } else { event_of(number, &key) }
    };
    daemon.publish_events((1..=100).map(of_channel).collect()).await;
    let mut client = Client::open(daemon.address).await;
    let publish = async {
        for number in 101..=LAST {
            daemon.publish_without_waiting(vec![of_channel(number)]).await;
        }
    };
    let read = async {
        for channel in ["orders", "iceberg"] {
            client.send(json!({"type": "subscribe", "channel": channel, "from": "snapshot"})).await;
        }
        let mut channels = [Followed::new(0), Followed::new(1)];
        while channels.iter().any(|followed| followed.newest < LAST - 1 || !followed.is_live) {
            let message = client.says().await;
            let index = usize::from(message["channel"] == "iceberg");
            channels[index].hears(&message);
        }
        client.has_heard_all().await;
    };
    tokio::join!(publish, read);
}

/// What a client knows of a channel whose events are every second one of the log.
struct Followed {
    parity: u64,
    state_events: u64,
    through: u64,
    newest: u64,
    is_live: bool,
}

impl Followed {
    fn new(parity: u64) -> Self {
        Self { parity, state_events: 0, through: 0, newest: 0, is_live: false }
    }

    fn hears(&mut self, message: &Value) {
        let position = message["position"].as_str().unwrap();
        let offset: u64 = position.rsplit_once('-').unwrap().1.parse().unwrap();
        match message["type"].as_str().unwrap() {
            "subscribed" => {
                assert_eq!(message["snapshot"], 3);
                self.through = offset;
                let newest = offset - u64::from(offset % 2 != self.parity);
                // The first of the three keys' newest events follows what is not given.
                self.newest = newest - 3 * 2;
            }
            "live" => {
                assert!(!self.is_live && self.state_events == 3, "once, after the state");
                self.is_live = true;
            }
            "event" => {
                assert_eq!(offset, self.newest + 2, "no gap, and nothing twice");
                self.newest = offset;
                self.state_events += u64::from(offset <= self.through);
            }
            other => panic!("unexpected {other}"),
        }
    }
}

#[actix_rt::test]
async fn a_snapshot_is_narrowed_by_room_and_filter_and_may_be_empty() {
    let daemon = Daemon::start_with(Config::default(), orders(|_| {})).await;
    let mut client = Client::open(daemon.address).await;
    let subscribed = client.subscribe("orders", json!({"from": "snapshot"})).await;
    assert_eq!(json!([subscribed["snapshot"], subscribed["position"]]), json!([0, at(0)]));
    assert_eq!(client.says().await, json!({"type": "live", "channel": "orders", "position": at(0)}));

    let events = [(1, "a", "x"), (2, "b", "y"), (3, "a", "x"), (4, "c", "z")];
    daemon.publish_events(events.map(|(number, key, room)| order(number, key, room)).into()).await;
    assert_eq!(client.ids(4).await, ids(1..=4));
    let mut client = Client::open(daemon.address).await;
    let subscribed = client.subscribe("orders", json!({"from": "snapshot", "room": ["x", "y"]})).await;
    assert_eq!(subscribed["snapshot"], 2);
    assert_eq!(client.ids(2).await, ["e2", "e3"]);
    assert_eq!(client.says().await["type"], "live");

    daemon.publish_events(vec![event_of(5, "prod.t"), event_of(6, "test.t")]).await;
    let filter = json!({"table": ["prod.*"]});
    let subscribed = client.subscribe("iceberg", json!({"from": "snapshot", "filter": filter})).await;
    assert!(subscribed["snapshot"].as_u64().unwrap() >= 1, "at most so many");
    assert_eq!(client.ids(1).await, ["e5"]);
    assert_eq!(client.says().await["type"], "live");
}
