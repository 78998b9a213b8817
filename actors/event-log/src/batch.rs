//! What one transaction adds: rows of events, and what they do to the tables that they belong to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use freshet_feed::{Commit, Event};
use rusqlite::{OptionalExtension, Transaction, params};

use crate::event_id::EventId;
use crate::store::Log;
use crate::{rows, scope, words};

/// The type of an event that tells of a commit that succeeded; the index behind the summaries names it too.
pub(crate) const COMMIT: &str = "COMMIT_SUCCESS";

/// What a batch did to one table.
pub(crate) struct Touched {
    pub(crate) id: i64,
    last_offset: u64,
    last_commit_offset: Option<u64>,
    last_schema_change: Option<i64>,
}

impl Touched {
    fn saw(&mut self, event: &Event, commit: &Commit, offset: u64) {
        self.last_offset = offset;
        if commit.event_type != COMMIT {
            return;
        }
        self.last_commit_offset = Some(offset);
        if commit.schema_changed == Some(true) {
            let time = rows::micros_and_nanos(event.timestamp).0;
            self.last_schema_change = self.last_schema_change.max(Some(time));
        }
    }
}

/// The keys that a batch has looked up or made: of labels, and of tables, which count for a room of a channel.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    labels: HashMap<&'a str, i64>,
    tables: HashMap<(i64, Option<&'a str>, &'a str), Touched>,
}

impl<'a> Batch<'a> {
    /// The key of a name, which is remembered for ever: there are as many as are declared.
    pub(crate) fn label_id(&mut self, transaction: &Transaction<'_>, text: &'a str) -> rusqlite::Result<i64> {
        if let Some(id) = self.labels.get(text) {
            return Ok(*id);
        }
        let id = match scope::label_id(transaction, text)? {
            Some(id) => id,
            None => transaction.prepare_cached("INSERT INTO labels (text) VALUES (?1)")?.insert([text])?,
        };
        self.labels.insert(text, id);
        Ok(id)
    }

    /// The table of a commit in the event's room and channel.
    pub(crate) fn table(
        &mut self,
        transaction: &Transaction<'_>,
        channel_id: i64,
        event: &'a Event,
        commit: &'a Commit,
    ) -> rusqlite::Result<&mut Touched> {
        let (room, name) = (event.room.as_deref(), commit.table.as_str());
        let vacant = match self.tables.entry((channel_id, room, name)) {
            Entry::Occupied(known) => return Ok(known.into_mut()),
            Entry::Vacant(vacant) => vacant,
        };
        let known = transaction
            .prepare_cached("SELECT id FROM tables WHERE name = ?1 AND channel_id = ?2 AND room IS ?3")?
            .query_row(params![name, channel_id, room], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => transaction
                .prepare_cached(
                    "INSERT INTO tables (name, channel_id, room, last_offset) VALUES (?1, ?2, ?3, 0)",
                )?
                .insert(params![name, channel_id, room])?,
        };
        Ok(vacant.insert(Touched { id, last_offset: 0, last_commit_offset: None, last_schema_change: None }))
    }

    /// Writes the event at this offset, which is beyond every other, and counts it in the log.
    pub(crate) fn add(
        &mut self,
        transaction: &Transaction<'_>,
        log: &mut Log,
        offset: u64,
        appended_at: i64,
        event: &'a Event,
    ) -> rusqlite::Result<()> {
        let channel_id = self.label_id(transaction, event.channel.as_str())?;
        let name_id = self.label_id(transaction, &event.name)?;
        let mut table_id = None;
        if let Some(commit) = &event.commit {
            let touched = self.table(transaction, channel_id, event, commit)?;
            touched.saw(event, commit, offset);
            table_id = Some(touched.id);
        }
        insert(transaction, offset, appended_at, Place { channel_id, name_id, table_id }, event)?;
        log.last = offset;
        log.held_bytes += event.body.len() as u64;
        Ok(())
    }

    /// Writes what the batch did to its tables.
    pub(crate) fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut statement = transaction.prepare_cached(
            "UPDATE tables SET last_offset = ?2, last_commit_offset = ifnull(?3, last_commit_offset),
                 last_schema_change = max(ifnull(last_schema_change, ?4), ifnull(?4, last_schema_change))
             WHERE id = ?1",
        )?;
        for table in self.tables.values().filter(|table| table.last_offset > 0) {
            statement.execute(params![
                table.id,
                table.last_offset,
                table.last_commit_offset,
                table.last_schema_change
            ])?;
        }
        Ok(())
    }
}

/// Where an event belongs, by keys.
struct Place {
    channel_id: i64,
    name_id: i64,
    table_id: Option<i64>,
}

fn insert(
    transaction: &Transaction<'_>,
    offset: u64,
    now: i64,
    place: Place,
    event: &Event,
) -> rusqlite::Result<()> {
    let (micros, nanos) = rows::micros_and_nanos(event.timestamp);
    let commit = event.commit.as_ref();
    let summary = commit.map(|commit| commit.summary).unwrap_or_default();
    transaction
        .prepare_cached(
            "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19)",
        )?
        .execute(params![
            offset,
            micros,
            nanos,
            now,
            place.channel_id,
            place.name_id,
            place.table_id,
            commit.and_then(|commit| commit.schema_changed),
            commit.and_then(|commit| commit.snapshot_id),
            summary.added_records,
            summary.deleted_records,
            summary.added_data_files,
            summary.deleted_data_files,
            commit.map(|commit| &commit.event_type),
            commit.and_then(|commit| commit.operation.as_ref()),
            event.source_application,
            // An event without a body is one that its channel no longer shows.
            (!event.body.is_empty()).then(|| EventId::of(&event.event_id)),
            event.key,
            event.room,
        ])?;
    transaction
        .prepare_cached("INSERT INTO bodies VALUES (?1, ?2)")?
        .execute(params![offset, event.body.as_ref()])?;
    transaction
        .prepare_cached("INSERT INTO event_words (rowid, words) VALUES (?1, ?2)")?
        .execute(params![offset, words::of_event(event)])?;
    Ok(())
}
