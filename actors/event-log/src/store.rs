//! The writing half of the log: appending with deduplication, retention, and the end of an outage.
//!
//! **When is an event a duplicate?** Its id is held in its channel, or arrived there within the window and as one of
//! the last `deduplication_events`. Or it is the same commit by another way: within the window an event arrived in the
//! same room of the same channel with the same table, snapshot id and event type, its own
//! time lies within `same_commit_within_secs`, and nothing that both report differs: operation, counts,
//! `schemaChanged`. An unknown `schemaChanged` counts as false. Three things keep that from hiding what is new.
//! A rollback reports an old snapshot again, perhaps with the old operation, but later: hence the nearness in
//! time. A change of the schema makes no snapshot, so two changes in a row name the same one: with
//! `schemaChanged: true` the times must be equal. A change of properties or partitions makes none either, and
//! adds nothing: its counts differ from those of the commit before.

use std::path::Path;
use std::time::Duration;

use freshet_feed::port::{Logged, Outcome};
use freshet_feed::{Commit, Epoch, Event, Position};
use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::batch::Batch;
use crate::event_id::EventId;
use crate::retention::{self, Retention};
use crate::{Config, connection, projection, rows};

/// Rows are kept at least this long after their arrival, whatever the window: the tables' summaries count over
/// a day.
const SUMMARY_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);
/// How many events retention may remove beside an append, more than the append brought.
const STEP_BESIDE_APPEND: usize = 64;
/// How many events one step of maintenance removes at most.
pub(crate) const MAINTENANCE_STEP: usize = 1000;
/// How much a trial writes to find out whether the disk has room again.
const PROBE_BYTES: usize = 64 * 1024;

/// Finds the same commit by another way. The index is named because SQLite, were it to consider the one that is
/// limited to an event type, would prepare the statement anew whenever the type that is bound changes.
const KNOWN_COMMIT: &str = "SELECT 1 FROM events INDEXED BY events_by_commit
     WHERE table_id = ?1 AND snapshot_id = ?2 AND event_type = ?3
         AND ifnull(operation = ?4, 1) AND ifnull(schema_changed, 0) = ifnull(?5, 0)
         AND received_at >= ?6 AND abs(event_time - ?7) <= ?8
         AND ifnull(added_records = ?9, 1) AND ifnull(deleted_records = ?10, 1)
         AND ifnull(added_data_files = ?11, 1) AND ifnull(deleted_data_files = ?12, 1)";

/// The write connection, and what it knows of the log.
pub(crate) struct Store {
    connection: Connection,
    limits: Limits,
    retention: Retention,
    log: Log,
}

/// The configuration, ready to compare with.
pub(crate) struct Limits {
    window_micros: i64,
    same_commit_micros: i64,
    pub(crate) row_age_micros: i64,
    pub(crate) known_events: u64,
    pub(crate) held_age_micros: i64,
    pub(crate) held_events: u64,
    pub(crate) held_bytes: u64,
}

/// The log as of the last commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    pub(crate) epoch: Epoch,
    /// The oldest offset that is held; `last + 1` when none is.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) held_bytes: u64,
}

impl Log {
    pub(crate) fn held_events(&self) -> u64 {
        (self.last + 1).saturating_sub(self.first)
    }

    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let (epoch, last, held_bytes): (i64, u64, u64) =
            connection.query_row("SELECT epoch, last_offset, held_bytes FROM log", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let first: Option<u64> =
            connection.query_row("SELECT min(offset) FROM bodies", [], |row| row.get(0))?;
        Ok(Self { epoch: Epoch(epoch.cast_unsigned()), first: first.unwrap_or(last + 1), last, held_bytes })
    }
}

impl Store {
    /// Opens the file for writing and marks it as at work.
    pub(crate) fn open(file: &Path, config: &Config, retention: &Retention) -> rusqlite::Result<Self> {
        let connection = connection::writer(file)?;
        connection.execute("UPDATE log SET clean = 0", [])?;
        let log = Log::read(&connection)?;
        Ok(Self { connection, limits: Limits::new(config), retention: retention.clone(), log })
    }

    /// The log as of the last commit.
    pub(crate) fn log(&self) -> Log {
        self.log
    }

    /// Appends the events in one transaction. When it answers they are on the disk; when it fails none is.
    pub(crate) fn append(&mut self, events: &[Event], now: Timestamp) -> rusqlite::Result<Vec<Outcome>> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut log = self.log;
        let now = now.as_microsecond();
        let mut batch = Batch::default();
        let mut outcomes = Vec::with_capacity(events.len());
        for event in events {
            if is_known(&transaction, &mut batch, &self.limits, &log, now, event)? {
                outcomes.push(Outcome::Duplicate);
                continue;
            }
            let offset = log.last + 1;
            batch.add(&transaction, &mut log, offset, now, event)?;
            outcomes.push(Outcome::Accepted { position: Position { epoch: log.epoch, offset } });
        }
        batch.write(&transaction)?;
        retention::retain(&transaction, &self.limits, &mut log, now, 2 * events.len() + STEP_BESIDE_APPEND)?;
        write_log(&transaction, &log)?;
        transaction.commit()?;
        self.log = log;
        Ok(outcomes)
    }

    /// Takes over what another log holds, in one transaction; see [`projection`]. Answers how many events were added.
    pub(crate) fn project(
        &mut self,
        epoch: Epoch,
        events: &[Logged],
        now: Timestamp,
    ) -> rusqlite::Result<usize> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut log = self.log;
        let added = projection::project(&transaction, &mut log, epoch, events)?;
        let budget = 2 * events.len() + STEP_BESIDE_APPEND;
        retention::retain(&transaction, &self.limits, &mut log, now.as_microsecond(), budget)?;
        write_log(&transaction, &log)?;
        transaction.commit()?;
        self.log = log;
        Ok(added)
    }

    /// Removes what has grown too old or too much, in one bounded step. `true` when a full step was done, so
    /// that there may be more.
    pub(crate) fn maintain(&mut self, now: Timestamp) -> rusqlite::Result<bool> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut log = self.log;
        let now = now.as_microsecond();
        let removed = retention::retain(&transaction, &self.limits, &mut log, now, MAINTENANCE_STEP)?;
        let blanked = retention::blank(&transaction, &self.retention, &mut log, now, MAINTENANCE_STEP)?;
        let forgotten = retention::forget(&transaction, &self.limits, &log, now, MAINTENANCE_STEP)?;
        if removed + blanked + forgotten > 0 {
            write_log(&transaction, &log)?;
            transaction.commit()?;
            self.log = log;
        }
        Ok([removed, blanked, forgotten].contains(&MAINTENANCE_STEP))
    }

    /// Writes something and takes it away again: succeeds when the disk takes bytes.
    pub(crate) fn probe(&mut self) -> rusqlite::Result<()> {
        self.connection.execute("UPDATE log SET probe = zeroblob(?1)", [PROBE_BYTES])?;
        self.connection.execute("UPDATE log SET probe = NULL", [])?;
        Ok(())
    }

    /// Marks the file as closed in order.
    pub(crate) fn close(self) -> rusqlite::Result<()> {
        self.connection.execute("UPDATE log SET clean = 1", [])?;
        // Readers may hold the WAL; then it is moved at the next start.
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.connection.close().map_err(|(_, error)| error)
    }

    /// Bounds the file, so that a test can fill the disk; `None` frees it.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, more: Option<i64>) {
        let pages: i64 = self.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let limit = more.map_or(i64::from(u32::MAX - 1), |more| pages + more);
        self.connection
            .query_row(&format!("PRAGMA max_page_count = {limit}"), [], |row| row.get::<_, i64>(0))
            .unwrap();
    }
}

impl Limits {
    fn new(config: &Config) -> Self {
        let micros = |secs: u64| i64::try_from(secs.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        let window = config.deduplication_window_secs;
        Self {
            window_micros: micros(window),
            same_commit_micros: micros(config.same_commit_within_secs),
            row_age_micros: micros(window.max(SUMMARY_PERIOD.as_secs())),
            known_events: config.deduplication_events,
            held_age_micros: micros(u64::from(config.retention_days) * 24 * 60 * 60),
            held_events: config.retention_events,
            held_bytes: config.retention_bytes,
        }
    }

    /// What arrived before this is recognised no more.
    fn window_start(&self, now: i64) -> i64 {
        now.saturating_sub(self.window_micros)
    }
}

/// Whether a later try with the same connection may succeed. After other errors the connection is not trusted.
pub(crate) fn keeps_connection(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn is_known<'a>(
    transaction: &Transaction<'_>,
    batch: &mut Batch<'a>,
    limits: &Limits,
    log: &Log,
    now: i64,
    event: &'a Event,
) -> rusqlite::Result<bool> {
    let channel_id = batch.label_id(transaction, event.channel.as_str())?;
    if is_known_id(transaction, limits, log, now, channel_id, &event.event_id)? {
        return Ok(true);
    }
    let Some(commit) = &event.commit else { return Ok(false) };
    let table_id = batch.table(transaction, channel_id, event, commit)?.id;
    is_known_commit(transaction, limits, now, table_id, event, commit)
}

fn is_known_id(
    transaction: &Transaction<'_>,
    limits: &Limits,
    log: &Log,
    now: i64,
    channel_id: i64,
    event_id: &str,
) -> rusqlite::Result<bool> {
    let known: Option<(u64, i64)> = transaction
        .prepare_cached(
            "SELECT offset, received_at FROM events WHERE event_id = ?1 AND channel_id = ?2
             ORDER BY offset DESC LIMIT 1",
        )?
        .query_row(params![EventId::of(event_id), channel_id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((offset, received_at)) = known else { return Ok(false) };
    if offset >= log.first || received_at >= limits.window_start(now) {
        return Ok(true);
    }
    // Its time is over and only its removal is still to come: the id is free.
    transaction.prepare_cached("DELETE FROM events WHERE offset = ?1")?.execute([offset])?;
    Ok(false)
}

fn is_known_commit(
    transaction: &Transaction<'_>,
    limits: &Limits,
    now: i64,
    table_id: i64,
    event: &Event,
    commit: &Commit,
) -> rusqlite::Result<bool> {
    let Some(snapshot_id) = commit.snapshot_id else { return Ok(false) };
    let apart = if commit.schema_changed == Some(true) { 0 } else { limits.same_commit_micros };
    transaction.prepare_cached(KNOWN_COMMIT)?.exists(params![
        table_id,
        snapshot_id,
        commit.event_type,
        commit.operation,
        commit.schema_changed,
        limits.window_start(now),
        rows::micros_and_nanos(event.timestamp).0,
        apart,
        commit.summary.added_records,
        commit.summary.deleted_records,
        commit.summary.added_data_files,
        commit.summary.deleted_data_files,
    ])
}

fn write_log(transaction: &Transaction<'_>, log: &Log) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE log SET epoch = ?1, last_offset = ?2, held_bytes = ?3")?
        .execute(params![log.epoch.0.cast_signed(), log.last, log.held_bytes])?;
    Ok(())
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
