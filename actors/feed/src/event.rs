//! A table-commit event.

use bytes::Bytes;

/// A table-commit event: the fields that Freshet understands, and the bytes that it passes on.
///
/// Clones share the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `eventId`: names the event for ever; never empty.
    pub event_id: String,
    /// `eventTimestamp`: when the writer says that it happened.
    pub timestamp: jiff::Timestamp,
    /// `sourceApplication`, where the writer names one.
    pub source_application: Option<String>,
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
    /// The JSON object as it came, byte for byte, unknown fields included.
    pub body: Bytes,
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
