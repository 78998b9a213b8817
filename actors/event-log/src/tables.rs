//! What is known of each table.

use freshet_feed::Scope;
use freshet_feed::filter::Glob;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Transaction, params};

use crate::batch::COMMIT;
use crate::event_id::StoredEventId;
use crate::history::{check_limit, fits};
use crate::scope::{self, Readable};
use crate::{Config, Page, SearchError, cursor, read, rows};

/// Which tables to list, in the order of their names' bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablesQuery {
    /// What may be read, and is wanted; `None` is everything, which is for what the daemon reads for itself. Only events
    /// that belong to it are counted.
    pub scope: Option<Scope>,
    /// Patterns for names; empty wants every table.
    pub tables: Vec<Glob>,
    /// `next` of the page before, for the same patterns.
    pub cursor: Option<String>,
    /// At most this many tables, at least 1, at most the configuration's `search_page_limit`.
    pub limit: usize,
    /// The moment from which the last hour and the last day count back.
    pub now: Timestamp,
}

/// What is known of one table. A table is listed for as long as one of its events is held, or recognised as a
/// duplicate.
///
/// A commit is an event of the type `COMMIT_SUCCESS`: an attempt that failed adds nothing and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// Its name.
    pub table: String,
    /// The commit that arrived last. While none of the table is known, its last event, of whatever type.
    pub last_commit: LastCommit,
    /// Commits whose own time lies in the hour up to now.
    pub commits_last_hour: u64,
    /// Commits whose own time lies in the day up to now.
    pub commits_last_day: u64,
    /// Rows that the commits of the last day say they added.
    pub records_added_last_day: Added,
    /// Data files that the commits of the last day say they added.
    pub files_added_last_day: Added,
    /// The latest time of a commit that says that it changed the schema; `None` when none is remembered.
    pub last_schema_change: Option<Timestamp>,
}

/// The commit of a table that arrived last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCommit {
    /// Its offset in the log.
    pub offset: u64,
    /// Its event id.
    pub event_id: String,
    /// Its own time.
    pub timestamp: Timestamp,
    /// The kind of event.
    pub event_type: String,
    /// What it did, where it says so.
    pub operation: Option<String>,
    /// The snapshot that it made, where it says so.
    pub snapshot_id: Option<i64>,
}

/// A sum over commits of which some may not say their part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// The exact sum over the commits that say it; `None` when none does: unknown is not 0.
    pub sum: Option<i128>,
    /// How many commits do not say it.
    pub commits_without: u64,
}

impl Added {
    fn add(&mut self, part: Option<i64>) {
        match part {
            Some(part) => self.sum = Some(self.sum.unwrap_or(0) + i128::from(part)),
            None => self.commits_without += 1,
        }
    }

    fn merge(&mut self, other: Self) {
        self.sum = match (self.sum, other.sum) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.commits_without += other.commits_without;
    }
}

impl TableSummary {
    /// Adds what is known of the same table in another room or channel.
    fn merge(&mut self, other: Self) {
        let place = |commit: &LastCommit| (commit.event_type == COMMIT, commit.offset);
        if place(&other.last_commit) > place(&self.last_commit) {
            self.last_commit = other.last_commit;
        }
        self.commits_last_hour += other.commits_last_hour;
        self.commits_last_day += other.commits_last_day;
        self.records_added_last_day.merge(other.records_added_last_day);
        self.files_added_last_day.merge(other.files_added_last_day);
        self.last_schema_change = self.last_schema_change.max(other.last_schema_change);
    }
}

/// One page of tables.
///
/// # Errors
/// Each of [`SearchError`].
pub(crate) fn tables(
    transaction: &Transaction<'_>,
    config: &Config,
    query: &TablesQuery,
) -> Result<Page<TableSummary>, SearchError> {
    check_limit(query.limit, config)?;
    let epoch = read::bounds(transaction)?.epoch;
    let scope = scope::identity(query.scope.as_ref());
    let mut identity = vec![b"tables".to_vec(), scope, epoch.0.to_be_bytes().to_vec()];
    identity.extend(query.tables.iter().map(|glob| glob.as_str().as_bytes().to_vec()));
    let identity = cursor::canonical(identity.iter().map(Vec::as_slice));
    let after = match &query.cursor {
        None => String::new(),
        Some(text) => {
            String::from_utf8(cursor::read(&identity, text)?).map_err(|_| SearchError::InvalidCursor)?
        }
    };

    let readable = Readable::of(transaction, query.scope.as_ref())?;
    let mut statement = transaction.prepare_cached(
        "SELECT tables.name, tables.channel_id, tables.room, tables.id, tables.last_schema_change, events.offset,
             events.event_id, events.event_time, events.event_time_nanos, events.event_type, events.operation,
             events.snapshot_id
         FROM tables CROSS JOIN events ON events.offset = ifnull(
             (SELECT offset FROM events WHERE offset = tables.last_commit_offset AND event_id IS NOT NULL),
             tables.last_offset)
         WHERE tables.name > ?1 AND events.event_id IS NOT NULL ORDER BY tables.name",
    )?;
    let mut found = statement.query([&after])?;
    let mut items: Vec<TableSummary> = Vec::new();
    while let Some(row) = found.next()? {
        let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        let room = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        if !readable.holds(row.get(1)?, room) || !fits(&query.tables, name) {
            continue;
        }
        let is_known = items.last().is_some_and(|last| last.table == name);
        if !is_known && items.len() == query.limit {
            let next = items.last().map(|last| cursor::write(&identity, last.table.as_bytes()));
            return Ok(Page { items, next });
        }
        let mut summary = TableSummary {
            table: name.to_owned(),
            last_commit: LastCommit {
                offset: row.get(5)?,
                event_id: row.get::<_, StoredEventId>(6)?.0,
                timestamp: rows::time(row, 7, 8)?,
                event_type: row.get(9)?,
                operation: row.get(10)?,
                snapshot_id: row.get(11)?,
            },
            commits_last_hour: 0,
            commits_last_day: 0,
            records_added_last_day: Added::default(),
            files_added_last_day: Added::default(),
            last_schema_change: row
                .get::<_, Option<i64>>(4)?
                .map(|micros| rows::time_of_micros(4, micros))
                .transpose()?,
        };
        count_last_day(transaction, row.get(3)?, query.now, &mut summary)?;
        match items.last_mut() {
            Some(last) if is_known => last.merge(summary),
            _ => items.push(summary),
        }
    }
    Ok(Page { items, next: None })
}

/// Reads an index that holds all that is asked for.
fn count_last_day(
    connection: &Connection,
    table_id: i64,
    now: Timestamp,
    summary: &mut TableSummary,
) -> rusqlite::Result<()> {
    let ago = |hours| {
        let start = now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::MIN);
        start.as_microsecond()
    };
    let mut statement = connection.prepare_cached(
        "SELECT event_time, added_records, added_data_files FROM events INDEXED BY events_by_time
         WHERE event_type = 'COMMIT_SUCCESS' AND table_id = ?1 AND event_time > ?2 AND event_time <= ?3",
    )?;
    let mut commits = statement.query(params![table_id, ago(24), now.as_microsecond()])?;
    let hour_ago = ago(1);
    while let Some(row) = commits.next()? {
        summary.commits_last_day += 1;
        summary.commits_last_hour += u64::from(row.get::<_, i64>(0)? > hour_ago);
        summary.records_added_last_day.add(row.get(1)?);
        summary.files_added_last_day.add(row.get(2)?);
    }
    Ok(())
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
