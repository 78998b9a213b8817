//! Events for the tests of this room.

use freshet_feed::event::{Commit, Summary, iceberg_mutation};
use freshet_feed::{ChannelName, Event};

/// An object of the channel `stock` at noon, with a key.
pub(crate) fn event(event_id: &str, key: &str) -> Event {
    Event {
        event_id: event_id.to_owned(),
        channel: ChannelName::new("stock").unwrap(),
        name: "stock:update".into(),
        key: Some(key.to_owned()),
        room: None,
        timestamp: "2026-03-01T12:00:00Z".parse().unwrap(),
        source_application: None,
        commit: None,
        body: "{}".into(),
    }
}

/// An append to a table that made this snapshot.
pub(crate) fn commit(event_id: &str, table: &str, snapshot_id: i64) -> Event {
    Event {
        channel: ChannelName::iceberg(),
        name: iceberg_mutation(),
        commit: Some(Commit {
            table: table.to_owned(),
            event_type: "COMMIT_SUCCESS".to_owned(),
            operation: Some("append".to_owned()),
            snapshot_id: Some(snapshot_id),
            schema_changed: Some(false),
            summary: Summary::default(),
        }),
        ..event(event_id, table)
    }
}
