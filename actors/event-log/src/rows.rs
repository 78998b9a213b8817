//! Events as rows.

use bytes::Bytes;
use freshet_feed::Event;
use freshet_feed::event::Summary;
use freshet_feed::port::Logged;
use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::Type;

use crate::event_id::StoredEventId;

/// The columns that [`logged`] reads, of `events`, `tables` and `bodies`.
pub(crate) const COLUMNS: &str = "events.offset, events.event_id, events.event_time, events.event_time_nanos, \
     events.application, tables.name, events.event_type, events.operation, events.snapshot_id, \
     events.schema_changed, events.added_records, events.deleted_records, events.added_data_files, \
     events.deleted_data_files, bodies.body";

/// Reads the columns named by [`COLUMNS`].
pub(crate) fn logged(row: &Row<'_>) -> rusqlite::Result<Logged> {
    let body: Vec<u8> = row.get(14)?;
    Ok(Logged {
        offset: row.get(0)?,
        event: Event {
            event_id: row.get::<_, StoredEventId>(1)?.0,
            timestamp: time(row, 2, 3)?,
            source_application: row.get(4)?,
            table: row.get(5)?,
            event_type: row.get(6)?,
            operation: row.get(7)?,
            snapshot_id: row.get(8)?,
            schema_changed: row.get(9)?,
            summary: Summary {
                added_records: row.get(10)?,
                deleted_records: row.get(11)?,
                added_data_files: row.get(12)?,
                deleted_data_files: row.get(13)?,
            },
            body: Bytes::from(body),
        },
    })
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
