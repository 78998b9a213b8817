//! What is removed, and when: the oldest events of the whole log, events that are older than their channel shows, and
//! what is remembered of events that have gone. Each function does one bounded step.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use freshet_feed::{Channel, ChannelName, Channels};
use rusqlite::{Transaction, params};

use crate::scope;
use crate::store::{Limits, Log};

/// How long the channels show their events, besides what the configuration of the log holds for all. An older event
/// leaves nothing but its place: it is read with an empty body, without id, key, room or commit, and nothing finds it.
/// It is not recognised either when it comes again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The age of the oldest events that are shown, by channel.
    pub by_channel: Vec<(ChannelName, Duration)>,
}

impl Retention {
    /// What is declared of the channels.
    #[must_use]
    pub fn of(channels: &Channels) -> Self {
        let limited = |channel: &Arc<Channel>| channel.history_max_age.map(|age| (channel.name.clone(), age));
        Self { by_channel: channels.iter().filter_map(limited).collect() }
    }
}

/// Removes the bodies and words of the oldest events that are beyond a limit, at most `budget`. Answers how
/// many. The newest event goes by age only: a body larger than all that may be held is held until the next.
pub(crate) fn retain(
    transaction: &Transaction<'_>,
    limits: &Limits,
    log: &mut Log,
    now: i64,
    budget: usize,
) -> rusqlite::Result<usize> {
    let oldest_held = now.saturating_sub(limits.held_age_micros);
    let mut first = log.first;
    let mut removed: Vec<u64> = Vec::new();
    {
        let mut statement = transaction.prepare_cached(
            "SELECT events.received_at, length(bodies.body), bodies.offset
             FROM bodies CROSS JOIN events ON events.offset = bodies.offset
             WHERE bodies.offset >= ?1 ORDER BY bodies.offset LIMIT ?2",
        )?;
        let mut oldest = statement.query(params![first, budget])?;
        while let Some(row) = oldest.next()? {
            let held_events = log.last + 1 - first;
            let too_many = held_events > limits.held_events || log.held_bytes > limits.held_bytes;
            let too_old = row.get::<_, i64>(0)? < oldest_held;
            if !(too_old || too_many && held_events > 1) {
                break;
            }
            log.held_bytes = log.held_bytes.saturating_sub(row.get(1)?);
            removed.push(row.get(2)?);
            // A projection may have gaps. They count as held: more than the limit is never held, perhaps less.
            first = row.get::<_, u64>(2)? + 1;
        }
    }
    if !removed.is_empty() {
        transaction.prepare_cached("DELETE FROM bodies WHERE offset < ?1")?.execute([first])?;
        transaction
            .prepare_cached(
                "UPDATE events SET event_key = NULL, room = NULL
                 WHERE offset >= ?1 AND offset < ?2 AND (event_key IS NOT NULL OR room IS NOT NULL)",
            )?
            .execute([log.first, first])?;
        let mut forget_words = transaction.prepare_cached("DELETE FROM event_words WHERE rowid = ?1")?;
        for offset in &removed {
            forget_words.execute([offset])?;
        }
        log.first = first;
    }
    Ok(removed.len())
}

/// Takes away all but the place of events that are older than their channel shows, at most `budget`. Answers how many.
pub(crate) fn blank(
    transaction: &Transaction<'_>,
    retention: &Retention,
    log: &mut Log,
    now: i64,
    budget: usize,
) -> rusqlite::Result<usize> {
    let mut blanked = 0;
    for (channel, max_age) in &retention.by_channel {
        let Some(channel_id) = scope::label_id(transaction, channel.as_str())? else { continue };
        let max_age_micros = i64::try_from(max_age.as_micros()).unwrap_or(i64::MAX);
        blanked += blank_channel(transaction, channel_id, max_age_micros, log, now, budget - blanked)?;
    }
    Ok(blanked)
}

fn blank_channel(
    transaction: &Transaction<'_>,
    channel_id: i64,
    max_age_micros: i64,
    log: &mut Log,
    now: i64,
    budget: usize,
) -> rusqlite::Result<usize> {
    let mut offsets: Vec<u64> = Vec::new();
    let mut tables: HashSet<i64> = HashSet::new();
    {
        let mut statement = transaction.prepare_cached(
            "SELECT offset, received_at, table_id FROM events INDEXED BY events_by_channel
             WHERE channel_id = ?1 AND event_id IS NOT NULL ORDER BY offset LIMIT ?2",
        )?;
        let mut oldest = statement.query(params![channel_id, budget])?;
        while let Some(row) = oldest.next()? {
            if age(now, row.get(1)?) <= max_age_micros {
                break;
            }
            offsets.push(row.get(0)?);
            tables.extend(row.get::<_, Option<i64>>(2)?);
        }
    }
    let Some(last) = offsets.last() else { return Ok(0) };
    let mut forget_schema_change = transaction.prepare_cached(
        "UPDATE tables SET last_schema_change = NULL WHERE last_schema_change IS NOT NULL
             AND (id, last_schema_change) = (SELECT table_id, event_time FROM events WHERE offset = ?1)",
    )?;
    let mut empty_event = transaction.prepare_cached(
        "UPDATE events SET table_id = NULL, schema_changed = NULL, snapshot_id = NULL, added_records = NULL,
             deleted_records = NULL, added_data_files = NULL, deleted_data_files = NULL, event_type = NULL,
             operation = NULL, application = NULL, event_id = NULL, event_key = NULL, room = NULL
         WHERE offset = ?1",
    )?;
    let mut body_bytes =
        transaction.prepare_cached("SELECT ifnull(sum(length(body)), 0) FROM bodies WHERE offset = ?1")?;
    let mut empty_body = transaction.prepare_cached("UPDATE bodies SET body = x'' WHERE offset = ?1")?;
    let mut forget_words = transaction.prepare_cached("DELETE FROM event_words WHERE rowid = ?1")?;
    for offset in &offsets {
        forget_schema_change.execute([offset])?;
        empty_event.execute([offset])?;
        let bytes: u64 = body_bytes.query_row([offset], |row| row.get(0))?;
        log.held_bytes = log.held_bytes.saturating_sub(bytes);
        empty_body.execute([offset])?;
        forget_words.execute([offset])?;
    }
    forget_tables(transaction, &tables, *last)?;
    Ok(offsets.len())
}

/// How old a row is. One from the future was written under a wrong clock; it must not hold up all that follow, so its
/// distance counts.
fn age(now: i64, received_at: i64) -> i64 {
    now.saturating_sub(received_at).saturating_abs()
}

/// Removes those of the tables of which nothing came after the last offset that goes.
fn forget_tables(transaction: &Transaction<'_>, tables: &HashSet<i64>, last: u64) -> rusqlite::Result<()> {
    let mut statement =
        transaction.prepare_cached("DELETE FROM tables WHERE id = ?1 AND last_offset <= ?2")?;
    for id in tables {
        statement.execute(params![id, last])?;
    }
    Ok(())
}

/// Removes the rows of events that are not held and too old or too many to be recognised, and the tables of
/// which no event is known any more; at most `budget` rows. Answers how many.
pub(crate) fn forget(
    transaction: &Transaction<'_>,
    limits: &Limits,
    log: &Log,
    now: i64,
    budget: usize,
) -> rusqlite::Result<usize> {
    let mut tables: HashSet<i64> = HashSet::new();
    let mut last: Option<u64> = None;
    let mut forgotten = 0;
    {
        let mut statement = transaction.prepare_cached(
            "SELECT offset, received_at, table_id FROM events WHERE offset < ?1 ORDER BY offset LIMIT ?2",
        )?;
        let mut oldest = statement.query(params![log.first, budget])?;
        while let Some(row) = oldest.next()? {
            let offset: u64 = row.get(0)?;
            // Offsets have next to no gaps, so their distance is the count.
            let too_many = log.last - offset >= limits.known_events;
            if age(now, row.get(1)?) <= limits.row_age_micros && !too_many {
                break;
            }
            tables.extend(row.get::<_, Option<i64>>(2)?);
            last = Some(offset);
            forgotten += 1;
        }
    }
    if let Some(last) = last {
        transaction.prepare_cached("DELETE FROM events WHERE offset <= ?1")?.execute([last])?;
        forget_tables(transaction, &tables, last)?;
    }
    Ok(forgotten)
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
