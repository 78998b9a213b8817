//! A second channel, of orders: JSON objects with a key and a room.

use bytes::Bytes;
use freshet_feed::channel::{Config, Format};
use freshet_feed::{ChannelName, Channels, Event, Position};
use serde_json::json;

use crate::memory_log::{EPOCH, event};

/// The channels `iceberg` and `orders`; the latter changed by the test.
pub fn orders(change: impl FnOnce(&mut Config)) -> Channels {
    let mut config = Config {
        name: "orders".to_owned(),
        format: Format::Json,
        id: "/id".to_owned(),
        key: "/key".to_owned(),
        room: "/room".to_owned(),
        ..Config::default()
    };
    change(&mut config);
    Channels::new(&[config])
}

pub fn order(number: u64, key: &str, room: &str) -> Event {
    Event {
        channel: ChannelName::new("orders").unwrap(),
        name: "message".into(),
        key: Some(key.to_owned()),
        room: Some(room.to_owned()),
        commit: None,
        body: Bytes::from(json!({"id": number, "key": key, "room": room}).to_string()),
        ..event(number)
    }
}

/// A position of the log that tests use.
pub fn at(offset: u64) -> String {
    Position { epoch: EPOCH, offset }.to_string()
}
