//! The format of the file, and how an older one becomes the present one.

use rusqlite::{Connection, TransactionBehavior};

use crate::store::StoreFailure;

/// Step n leads from format n to format n + 1. A step that was released is never changed.
const STEPS: [&str; 1] = [
    // Small columns stand before the body, so that a listing need not walk through it. The index answers the
    // counts by code and the sum of bytes without touching a letter.
    "CREATE TABLE letters (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        buried_at_millis INTEGER NOT NULL,
        stored_bytes INTEGER NOT NULL,
        body_bytes INTEGER NOT NULL,
        headers_truncated INTEGER NOT NULL,
        source TEXT NOT NULL,
        source_position TEXT NOT NULL,
        code TEXT NOT NULL,
        reason TEXT NOT NULL,
        headers TEXT NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX letters_by_age ON letters (buried_at_millis);
    CREATE INDEX letters_by_code ON letters (code, stored_bytes);
    CREATE TABLE probe (filler BLOB NOT NULL) STRICT;",
];

/// The format that this version writes; it stands in the file as `user_version`.
pub const FORMAT: i64 = STEPS.len() as i64;

/// Brings the file to [`FORMAT`], each step whole or not at all.
pub fn migrate(connection: &mut Connection) -> Result<(), StoreFailure> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if !(0..=FORMAT).contains(&found) {
        return Err(StoreFailure::NewerFormat { found, known: FORMAT });
    }
    for (step, format) in STEPS.iter().zip(1..).skip(usize::try_from(found).unwrap_or_default()) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", format)?;
        transaction.commit()?;
    }
    Ok(())
}
