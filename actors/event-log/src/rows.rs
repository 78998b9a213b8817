//! Events as rows.

use bytes::Bytes;
use freshet_feed::channel::ICEBERG;
use freshet_feed::event::{EventName, Summary, iceberg_mutation};
use freshet_feed::port::Logged;
use freshet_feed::{ChannelName, Commit, Event};
use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, Type, ValueRef};

use crate::event_id::StoredEventId;

/// The columns that [`logged`] reads, of [`SOURCES`] and `bodies`.
pub(crate) const COLUMNS: &str = "events.offset, events.received_at, events.event_id, channels.text, names.text, \
     events.event_key, events.room, events.event_time, events.event_time_nanos, events.application, tables.name, \
     events.event_type, events.operation, events.snapshot_id, events.schema_changed, events.added_records, \
     events.deleted_records, events.added_data_files, events.deleted_data_files, bodies.body";

/// What is joined to `events` and `bodies` for [`COLUMNS`], and changes neither their number nor their order.
pub(crate) const SOURCES: &str = "CROSS JOIN labels AS channels ON channels.id = events.channel_id \
     CROSS JOIN labels AS names ON names.id = events.name_id LEFT JOIN tables ON tables.id = events.table_id";

/// Reads the columns named by [`COLUMNS`].
pub(crate) fn logged(row: &Row<'_>) -> rusqlite::Result<Logged> {
    let body: Vec<u8> = row.get(19)?;
    Ok(Logged {
        offset: row.get(0)?,
        appended_at: time_of_micros(1, row.get(1)?)?,
        event: Event {
            // An event that its channel no longer shows has no id.
            event_id: row.get::<_, Option<StoredEventId>>(2)?.map(|id| id.0).unwrap_or_default(),
            channel: row.get::<_, StoredChannelName>(3)?.0,
            name: row.get::<_, StoredEventName>(4)?.0,
            key: row.get(5)?,
            room: row.get(6)?,
            timestamp: time(row, 7, 8)?,
            source_application: row.get(9)?,
            commit: commit(row)?,
            body: Bytes::from(body),
        },
    })
}

fn commit(row: &Row<'_>) -> rusqlite::Result<Option<Commit>> {
    let Some(table) = row.get(10)? else { return Ok(None) };
    Ok(Some(Commit {
        table,
        event_type: row.get(11)?,
        operation: row.get(12)?,
        snapshot_id: row.get(13)?,
        schema_changed: row.get(14)?,
        summary: Summary {
            added_records: row.get(15)?,
            deleted_records: row.get(16)?,
            added_data_files: row.get(17)?,
            deleted_data_files: row.get(18)?,
        },
    }))
}

/// The name of a channel as it was read.
pub(crate) struct StoredChannelName(pub(crate) ChannelName);

impl FromSql for StoredChannelName {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            ICEBERG => Ok(Self(ChannelName::iceberg())),
            name => ChannelName::new(name).map(Self).ok_or(FromSqlError::InvalidType),
        }
    }
}

struct StoredEventName(EventName);

impl FromSql for StoredEventName {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let name = value.as_str()?;
        let usual = iceberg_mutation();
        Ok(Self(if name == &*usual { usual } else { name.into() }))
    }
}

/// Splits a time into microseconds since 1970, rounded down, and the nanoseconds beyond them.
pub(crate) fn micros_and_nanos(timestamp: Timestamp) -> (i64, i32) {
    let beyond = timestamp.as_nanosecond().rem_euclid(1000) as i32;
    let micros = timestamp.as_microsecond();
    // A time before 1970 is rounded towards 1970 by the library.
    if timestamp.as_nanosecond() < 0 && beyond != 0 { (micros - 1, beyond) } else { (micros, beyond) }
}

/// Reads a time from its two columns.
pub(crate) fn time(row: &Row<'_>, micros: usize, nanos: usize) -> rusqlite::Result<Timestamp> {
    let whole: i64 = row.get(micros)?;
    let beyond: i64 = row.get(nanos)?;
    Timestamp::from_nanosecond(i128::from(whole) * 1000 + i128::from(beyond))
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(micros, Type::Integer, Box::new(error)))
}

/// Takes microseconds since 1970, read from this column, as a time.
pub(crate) fn time_of_micros(column: usize, micros: i64) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(micros)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_down_also_before_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00.000001999Z", (1, 999)),
            ("1970-01-01T00:00:00Z", (0, 0)),
            ("1969-12-31T23:59:59.999999999Z", (-1, 999)),
            ("1969-12-31T23:59:59.999999Z", (-1, 0)),
        ] {
            assert_eq!(micros_and_nanos(text.parse().unwrap()), expected, "{text}");
        }
    }
}
