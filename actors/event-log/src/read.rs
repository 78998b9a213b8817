//! Reading by position. Each function sees one state of the log.

use freshet_feed::Epoch;
use freshet_feed::port::{Bounds, Logged, PageLimit};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::event_id::EventId;
use crate::rows;

/// Events after `offset`, oldest first, within the limit; the first one whatever its size.
pub(crate) fn after(connection: &Connection, offset: u64, limit: PageLimit) -> rusqlite::Result<Vec<Logged>> {
    // An offset beyond SQLite's integers is beyond every event.
    let Ok(offset) = i64::try_from(offset) else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM bodies CROSS JOIN events ON events.offset = bodies.offset
             {} WHERE bodies.offset > ?1 ORDER BY bodies.offset LIMIT ?2",
        rows::COLUMNS,
        rows::SOURCES
    ))?;
    let mut found = statement.query(params![offset, limit.events])?;
    let mut page = Vec::new();
    let mut bytes = 0;
    while let Some(row) = found.next()? {
        let logged = rows::logged(row)?;
        bytes += logged.event.body.len();
        if bytes > limit.bytes && !page.is_empty() {
            break;
        }
        page.push(logged);
    }
    Ok(page)
}

/// The events at these offsets that are held and shown, in their order.
pub(crate) fn at(transaction: &Transaction<'_>, offsets: &[u64]) -> rusqlite::Result<Vec<Logged>> {
    let mut statement = transaction.prepare_cached(&format!(
        "SELECT {} FROM events CROSS JOIN bodies ON bodies.offset = events.offset
             {} WHERE events.offset = ?1 AND events.event_id IS NOT NULL",
        rows::COLUMNS,
        rows::SOURCES
    ))?;
    let mut found = Vec::with_capacity(offsets.len());
    for offset in offsets.iter().filter_map(|offset| i64::try_from(*offset).ok()) {
        found.extend(statement.query_row([offset], rows::logged).optional()?);
    }
    Ok(found)
}

/// The offset of the newest event with this id, of whatever channel, while it is held.
pub(crate) fn locate(connection: &Connection, event_id: &str) -> rusqlite::Result<Option<u64>> {
    connection
        .prepare_cached(
            "SELECT max(events.offset) FROM events CROSS JOIN bodies ON bodies.offset = events.offset
             WHERE events.event_id = ?1",
        )?
        .query_row([EventId::of(event_id)], |row| row.get(0))
}

/// What can be read now.
pub(crate) fn bounds(connection: &Connection) -> rusqlite::Result<Bounds> {
    connection
        .prepare_cached("SELECT epoch, last_offset, (SELECT min(offset) FROM bodies) FROM log")?
        .query_row([], |row| {
            let last: u64 = row.get(1)?;
            Ok(Bounds {
                epoch: Epoch(row.get::<_, i64>(0)?.cast_unsigned()),
                first: row.get::<_, Option<u64>>(2)?.unwrap_or(last + 1),
                last,
            })
        })
}
