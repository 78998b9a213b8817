//! Events for the tests of this room.

use freshet_feed::event::{Summary, iceberg_mutation};
use freshet_feed::{ChannelName, Commit, Event};
use jiff::Timestamp;

/// A moment from which tests count.
pub(crate) fn noon() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// An append without a snapshot id, at noon, with an empty object as its body.
pub(crate) fn event(event_id: &str, table: &str) -> Event {
    Event {
        event_id: event_id.to_owned(),
        channel: ChannelName::iceberg(),
        name: iceberg_mutation(),
        key: Some(table.to_owned()),
        room: None,
        timestamp: noon(),
        source_application: None,
        commit: Some(Commit {
            table: table.to_owned(),
            event_type: "COMMIT_SUCCESS".to_owned(),
            operation: Some("append".to_owned()),
            snapshot_id: None,
            schema_changed: None,
            summary: Summary::default(),
        }),
        body: "{}".into(),
    }
}

/// An append that made this snapshot.
pub(crate) fn commit(event_id: &str, table: &str, snapshot_id: i64) -> Event {
    changed(event(event_id, table), |commit| {
        commit.snapshot_id = Some(snapshot_id);
        commit.schema_changed = Some(false);
    })
}

/// The event with a change to its commit.
pub(crate) fn changed(mut event: Event, change: impl FnOnce(&mut Commit)) -> Event {
    change(event.commit.as_mut().unwrap());
    event
}

/// An event of another channel, without a commit.
pub(crate) fn message(event_id: &str, channel: &str, room: Option<&str>, key: Option<&str>) -> Event {
    Event {
        channel: ChannelName::new(channel).unwrap(),
        name: "message".into(),
        key: key.map(str::to_owned),
        room: room.map(str::to_owned),
        commit: None,
        ..event(event_id, "")
    }
}

/// The event in this room.
pub(crate) fn in_room(room: &str, event: Event) -> Event {
    Event { room: Some(room.to_owned()), ..event }
}
