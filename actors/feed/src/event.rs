//! An event: what happened, in which channel, and the bytes that are passed on.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use crate::channel::ChannelName;

/// The name of an event on the wire, for instance `iceberg-mutation`.
pub type EventName = Arc<str>;

/// An event of a channel: the fields that Freshet understands, and the bytes that it passes on.
///
/// Clones share the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Names the event for ever; never empty.
    pub event_id: String,
    /// Where it is published.
    pub channel: ChannelName,
    /// What clients listen for.
    pub name: EventName,
    /// What it tells the state of: of two events with the same key in one channel, the newer one replaces the older.
    /// Without one it replaces nothing.
    pub key: Option<String>,
    /// The part of the channel that it belongs to, such as a tenant or a table.
    pub room: Option<String>,
    /// When the writer says that it happened.
    pub timestamp: jiff::Timestamp,
    /// `sourceApplication`, where the writer names one.
    pub source_application: Option<String>,
    /// What an Iceberg commit did; nothing for other events.
    pub commit: Option<Commit>,
    /// The JSON object as it came, byte for byte, unknown fields included.
    pub body: Bytes,
}

/// What an event of the Iceberg contract says of its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// `tableIdentifier`: catalog, namespaces and name, joined by dots; never empty.
    pub table: String,
    /// `eventType`, for instance `COMMIT_SUCCESS`.
    pub event_type: String,
    /// `payload.operation`: `append`, `overwrite`, `replace`, `delete`, or another word of the writer.
    pub operation: Option<String>,
    /// `payload.snapshotId`, exact.
    pub snapshot_id: Option<i64>,
    /// `payload.schemaChanged`; absent is unknown.
    pub schema_changed: Option<bool>,
    /// What the commit says that it added and removed.
    pub summary: Summary,
}

/// Counts of a commit's summary. Absent is unknown, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// `added-records`, in rows.
    pub added_records: Option<i64>,
    /// `deleted-records`, in rows.
    pub deleted_records: Option<i64>,
    /// `added-data-files`, in files.
    pub added_data_files: Option<i64>,
    /// `deleted-data-files`, in files.
    pub deleted_data_files: Option<i64>,
}

impl Event {
    /// The table of a commit.
    #[must_use]
    pub fn table(&self) -> Option<&str> {
        self.commit.as_ref().map(|commit| commit.table.as_str())
    }
}

/// The name of commit events in the wire contract.
#[must_use]
pub fn iceberg_mutation() -> EventName {
    static NAME: LazyLock<EventName> = LazyLock::new(|| "iceberg-mutation".into());
    Arc::clone(&NAME)
}
