//! Events for the tests of this room.

use freshet_feed::Event;
use freshet_feed::event::Summary;
use jiff::Timestamp;

/// A moment from which tests count.
pub(crate) fn noon() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// An append without a snapshot id, at noon, with an empty body.
pub(crate) fn event(event_id: &str, table: &str) -> Event {
    Event {
        event_id: event_id.to_owned(),
        timestamp: noon(),
        source_application: None,
        table: table.to_owned(),
        event_type: "COMMIT_SUCCESS".to_owned(),
        operation: Some("append".to_owned()),
        snapshot_id: None,
        schema_changed: None,
        summary: Summary::default(),
        body: "{}".into(),
    }
}

/// An append that made this snapshot.
pub(crate) fn commit(event_id: &str, table: &str, snapshot_id: i64) -> Event {
    Event { snapshot_id: Some(snapshot_id), schema_changed: Some(false), ..event(event_id, table) }
}
