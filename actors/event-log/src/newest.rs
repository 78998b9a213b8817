//! The state of a channel: the newest event of each key. It jumps from key to key in an index, so that it costs as much
//! as there are keys, however many events there are of each.

use std::collections::HashMap;

use freshet_feed::Rooms;
use freshet_feed::port::{KeyedState, NewestByKey};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::{read, scope};

/// The last key below the one that is given, and its newest event. Only events that are held have a key.
const BELOW_IN_CHANNEL: &str = "SELECT event_key, offset, received_at FROM events INDEXED BY events_by_key
     WHERE channel_id = ?1 AND event_key < ?2 ORDER BY event_key DESC, offset DESC LIMIT 1";
/// The same in one room.
const BELOW_IN_ROOM: &str = "SELECT event_key, offset, received_at FROM events INDEXED BY events_by_room_key
     WHERE channel_id = ?1 AND event_key < ?2 AND room = ?3 ORDER BY event_key DESC, offset DESC LIMIT 1";

/// Finds the newest event of each key, as of the moment of this transaction.
pub(crate) fn by_key(transaction: &Transaction<'_>, request: &NewestByKey) -> rusqlite::Result<KeyedState> {
    let through = read::bounds(transaction)?.last;
    let mut newest: HashMap<String, u64> = HashMap::new();
    if let Some(channel_id) = scope::label_id(transaction, request.channel.as_str())? {
        match &request.rooms {
            Rooms::All => add_keys(transaction, request, channel_id, None, &mut newest)?,
            Rooms::Only(rooms) => {
                for room in rooms {
                    add_keys(transaction, request, channel_id, Some(room), &mut newest)?;
                }
            }
        }
    }
    let mut offsets: Vec<u64> = newest.into_values().collect();
    offsets.sort_unstable();
    let is_cut = offsets.len() > request.max_keys;
    offsets.truncate(request.max_keys);
    Ok(KeyedState { through, offsets, is_cut })
}

/// Adds the keys of a channel, or of one room of it: one more than are wanted, at most.
fn add_keys(
    transaction: &Transaction<'_>,
    request: &NewestByKey,
    channel_id: i64,
    room: Option<&str>,
    newest: &mut HashMap<String, u64>,
) -> rusqlite::Result<()> {
    let since = request.appended_since.map_or(i64::MIN, |since| since.as_microsecond());
    let sql = if room.is_some() { BELOW_IN_ROOM } else { BELOW_IN_CHANNEL };
    let mut statement = transaction.prepare_cached(sql)?;
    // Every text stands before every blob.
    let mut below = Value::Blob(Vec::new());
    let mut added = 0;
    while added <= request.max_keys {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found = match room {
            Some(room) => statement.query_row(params![channel_id, below, room], read),
            None => statement.query_row(params![channel_id, below], read),
        };
        let Some((key, offset, received_at)): Option<(String, u64, i64)> = found.optional()? else { break };
        if received_at >= since {
            let known = newest.entry(key.clone()).or_insert(offset);
            *known = offset.max(*known);
            added += 1;
        }
        below = Value::Text(key);
    }
    Ok(())
}

#[cfg(test)]
#[path = "newest_tests.rs"]
mod tests;
