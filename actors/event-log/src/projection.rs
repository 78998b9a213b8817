//! The file as a copy of a log that several instances share: what the shared log holds can be searched here, and tables
//! be counted, while order, positions and duplicates are decided there.
//!
//! Events keep their offsets. What is known already is passed over, so that a follower may begin anew anywhere. Offsets
//! that the follower missed, since the shared log no longer held them, stay absent. Another epoch is another log: all
//! that was held goes, and so do ids and tables.

use freshet_feed::Epoch;
use freshet_feed::port::Logged;
use rusqlite::Transaction;

use crate::batch::Batch;
use crate::store::Log;

/// Adds those of the events that lie beyond the newest one. Their offsets rise. Answers how many were added.
pub(crate) fn project(
    transaction: &Transaction<'_>,
    log: &mut Log,
    epoch: Epoch,
    events: &[Logged],
) -> rusqlite::Result<usize> {
    if epoch != log.epoch {
        transaction.execute_batch(
            "DELETE FROM events; DELETE FROM bodies; DELETE FROM tables;
             INSERT INTO event_words (event_words) VALUES ('delete-all');",
        )?;
        *log = Log { epoch, first: 1, last: 0, held_bytes: 0 };
    }
    let is_empty = log.first > log.last;
    let mut batch = Batch::default();
    let mut added = 0;
    for logged in events {
        if logged.offset <= log.last {
            continue;
        }
        if is_empty && added == 0 {
            log.first = logged.offset;
        }
        batch.add(transaction, log, logged.offset, logged.appended_at.as_microsecond(), &logged.event)?;
        added += 1;
    }
    batch.write(transaction)?;
    Ok(added)
}

#[cfg(test)]
#[path = "projection_tests.rs"]
mod tests;
