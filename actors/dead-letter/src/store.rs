//! The file of letters. Every call blocks: it belongs on a thread that may.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use freshet_feed::DeadLetter;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, named_params};

use crate::Config;
use crate::migration::migrate;

/// The most headings that one listing gives.
pub const MAX_LISTED: usize = 1000;

/// The longest text of source, position, code and reason, in bytes; what is longer is cut.
const MAX_TEXT_BYTES: usize = 4096;

/// How long another process may hold the file's lock before a write counts as failed. This room is the only
/// writer, so it is a person with a shell, or a backup.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// How large the write-ahead log may stay on the disk after a burst of large letters went through it.
const JOURNAL_BYTES: u32 = 16 * 1024 * 1024;

/// How much one probe writes: enough to need a page of its own, so that a full disk refuses it.
const PROBE_BYTES: u32 = 16 * 1024;

/// Why the file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreFailure {
    /// The file was written by a newer version of the daemon. It was not touched.
    #[error(
        "the file has format {found}, and this version knows formats up to {known}; run the newer version again or move the file away"
    )]
    NewerFormat {
        /// The format of the file.
        found: i64,
        /// The newest format that is known here.
        known: i64,
    },
    /// There is no room left on the disk.
    #[error("no room left: {0}")]
    Full(rusqlite::Error),
    /// Another process holds the file's lock.
    #[error("locked by another process: {0}")]
    Locked(rusqlite::Error),
    /// The file is damaged, or no SQLite database.
    #[error("damaged: {0}; move the file away to start a new one")]
    Damaged(rusqlite::Error),
    /// The file cannot be opened, read or written, or anything else.
    #[error("unusable: {0}")]
    Unusable(rusqlite::Error),
}

impl StoreFailure {
    /// The stable class of the failure.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::NewerFormat { .. } => "newer_format",
            Self::Full(_) => "full",
            Self::Locked(_) => "locked",
            Self::Damaged(_) => "damaged",
            Self::Unusable(_) => "unusable",
        }
    }

    /// Whether the connection is still good, so that only the work must be tried again.
    pub(crate) fn spares_connection(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Locked(_))
    }
}

impl From<rusqlite::Error> for StoreFailure {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(error),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(error),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error),
            _ => Self::Unusable(error),
        }
    }
}

/// A letter without its headers and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Rises from letter to letter, and is never used again.
    pub id: i64,
    /// When it was buried, in milliseconds since 1970.
    pub buried_at_millis: i64,
    /// See [`DeadLetter::source`].
    pub source: String,
    /// See [`DeadLetter::source_position`].
    pub source_position: String,
    /// See [`DeadLetter::code`].
    pub code: String,
    /// See [`DeadLetter::reason`].
    pub reason: String,
    /// The size of the body as it came, in bytes.
    pub body_bytes: u64,
    /// Whether only the first bytes of the body were kept.
    pub body_truncated: bool,
    /// Whether only the first headers were kept.
    pub headers_truncated: bool,
}

/// A letter whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buried {
    /// What a listing shows.
    pub heading: Heading,
    /// Headers in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body, or its first bytes when [`Heading::body_truncated`].
    pub body: Bytes,
}

/// How many letters there are for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeCount {
    /// See [`DeadLetter::code`].
    pub code: String,
    /// Letters with this code.
    pub letters: u64,
}

/// What is held now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Letters.
    pub letters: u64,
    /// Bytes of bodies and headers.
    pub bytes: u64,
}

/// The open file.
pub struct Store {
    connection: Connection,
    config: Config,
    totals: Totals,
}

const COLUMNS: &str = "id, buried_at_millis, source, source_position, code, reason, body_bytes, length(body) AS kept_bytes, headers_truncated";

impl Store {
    /// Opens the file, makes it when there is none, and brings an older format up to date.
    ///
    /// # Errors
    /// When it cannot be opened or written, is damaged, or has a newer format.
    pub fn open(path: &Path, config: Config) -> Result<Self, StoreFailure> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(LOCK_PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES)?;
        migrate(&mut connection)?;
        let totals = totals(&connection)?;
        Ok(Self { connection, config, totals })
    }

    /// What is held now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Writes the letters, all or none, and lets the oldest go when there are too many. They are on the disk when
    /// it returns. Gives the number of letters that went.
    ///
    /// # Errors
    /// When nothing was written.
    pub fn bury(&mut self, letters: &[DeadLetter], now_millis: i64) -> Result<u64, StoreFailure> {
        if letters.is_empty() {
            return Ok(0);
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut totals = self.totals;
        let mut first_id = None;
        for letter in letters {
            let (headers, headers_truncated) = encode_headers(&letter.headers, self.config.max_headers_bytes);
            let body = &letter.body[..letter.body.len().min(self.config.max_body_bytes)];
            let stored_bytes = (headers.len() + body.len()) as u64;
            transaction
                .prepare_cached(
                    "INSERT INTO letters (buried_at_millis, stored_bytes, body_bytes, headers_truncated,
                        source, source_position, code, reason, headers, body)
                     VALUES (:buried_at_millis, :stored_bytes, :body_bytes, :headers_truncated,
                        :source, :source_position, :code, :reason, :headers, :body)",
                )?
                .execute(named_params! {
                    ":buried_at_millis": now_millis,
                    ":stored_bytes": stored_bytes,
                    ":body_bytes": letter.body.len(),
                    ":headers_truncated": headers_truncated,
                    ":source": head_of(&letter.source),
                    ":source_position": head_of(&letter.source_position),
                    ":code": head_of(&letter.code),
                    ":reason": head_of(&letter.reason),
                    ":headers": headers,
                    ":body": body,
                })?;
            first_id.get_or_insert(transaction.last_insert_rowid());
            totals.letters += 1;
            totals.bytes += stored_bytes;
        }
        let removed = make_room(&transaction, &self.config, &mut totals, first_id.unwrap_or_default())?;
        transaction.commit()?;
        self.totals = totals;
        Ok(removed)
    }

    /// Lets letters go that are older than the limit. Gives their number.
    ///
    /// # Errors
    /// When nothing was removed.
    pub fn remove_old(&mut self, now_millis: i64) -> Result<u64, StoreFailure> {
        let age_millis = i64::from(self.config.max_age_days) * 24 * 60 * 60 * 1000;
        let removed = self.connection.execute(
            "DELETE FROM letters WHERE buried_at_millis < ?1",
            [now_millis.saturating_sub(age_millis)],
        )?;
        if removed > 0 {
            self.totals = totals(&self.connection)?;
        }
        Ok(removed as u64)
    }

    /// Finds out whether the file can be written, by writing.
    ///
    /// # Errors
    /// When it cannot.
    pub fn probe(&mut self) -> Result<(), StoreFailure> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("INSERT INTO probe (filler) VALUES (zeroblob(?1))", [PROBE_BYTES])?;
        transaction.execute("DELETE FROM probe", [])?;
        Ok(transaction.commit()?)
    }

    /// Headings with an id greater than `after`, oldest first, at most `limit` and never more than [`MAX_LISTED`].
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self, after: Option<i64>, limit: usize) -> Result<Vec<Heading>, StoreFailure> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM letters WHERE id > ?1 ORDER BY id LIMIT ?2"))?;
        let rows = statement.query_map((after.unwrap_or(0), limit.min(MAX_LISTED)), heading)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// One letter whole.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn get(&self, id: i64) -> Result<Option<Buried>, StoreFailure> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT {COLUMNS}, headers, body FROM letters WHERE id = ?1"))?;
        let found = statement.query_row([id], |row| {
            let headers: String = row.get("headers")?;
            let body: Vec<u8> = row.get("body")?;
            Ok((heading(row)?, headers, Bytes::from(body)))
        });
        let Some((heading, headers, body)) = found.optional()? else { return Ok(None) };
        let headers = serde_json::from_str(&headers).map_err(|error| {
            let kind = rusqlite::types::Type::Text;
            StoreFailure::Damaged(rusqlite::Error::FromSqlConversionFailure(0, kind, Box::new(error)))
        })?;
        Ok(Some(Buried { heading, headers, body }))
    }

    /// How many letters there are for each code, the most frequent first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn count_by_code(&self) -> Result<Vec<CodeCount>, StoreFailure> {
        let mut statement = self.connection.prepare_cached(
            "SELECT code, count(*) AS letters FROM letters GROUP BY code ORDER BY letters DESC, code",
        )?;
        let rows = statement
            .query_map([], |row| Ok(CodeCount { code: row.get("code")?, letters: row.get("letters")? }))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Lets the file grow by no more than `pages`, as a disk does that is almost full; `None` lifts it.
    #[cfg(test)]
    pub(crate) fn squeeze(&self, pages: Option<u32>) {
        let present: u32 = self.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        let limit = pages.map_or(u32::MAX - 1, |pages| present + pages);
        self.connection.pragma_update(None, "max_page_count", limit).unwrap();
    }
}

fn totals(connection: &Connection) -> Result<Totals, StoreFailure> {
    Ok(connection.query_row("SELECT count(*), coalesce(sum(stored_bytes), 0) FROM letters", [], |row| {
        Ok(Totals { letters: row.get(0)?, bytes: row.get(1)? })
    })?)
}

/// Removes the oldest letters before `first_new_id` while there are too many or too large ones.
fn make_room(
    connection: &Connection,
    config: &Config,
    totals: &mut Totals,
    first_new_id: i64,
) -> Result<u64, StoreFailure> {
    let before = totals.letters;
    let mut last_removed = None;
    let mut statement =
        connection.prepare_cached("SELECT id, stored_bytes FROM letters WHERE id < ?1 ORDER BY id")?;
    let mut rows = statement.query([first_new_id])?;
    while totals.letters > config.max_letters || totals.bytes > config.max_total_bytes {
        let Some(row) = rows.next()? else { break };
        last_removed = Some(row.get::<_, i64>("id")?);
        totals.letters = totals.letters.saturating_sub(1);
        totals.bytes = totals.bytes.saturating_sub(row.get("stored_bytes")?);
    }
    drop(rows);
    if let Some(last_removed) = last_removed {
        connection.execute("DELETE FROM letters WHERE id <= ?1", [last_removed])?;
    }
    Ok(before - totals.letters)
}

fn heading(row: &Row<'_>) -> rusqlite::Result<Heading> {
    let body_bytes: u64 = row.get("body_bytes")?;
    Ok(Heading {
        id: row.get("id")?,
        buried_at_millis: row.get("buried_at_millis")?,
        source: row.get("source")?,
        source_position: row.get("source_position")?,
        code: row.get("code")?,
        reason: row.get("reason")?,
        body_bytes,
        body_truncated: row.get::<_, u64>("kept_bytes")? < body_bytes,
        headers_truncated: row.get("headers_truncated")?,
    })
}

/// The headers as a JSON array of pairs, and whether some did not fit.
fn encode_headers(headers: &[(String, String)], max_bytes: usize) -> (String, bool) {
    let mut bytes = 0;
    let fitting = headers
        .iter()
        .take_while(|(name, value)| {
            bytes += name.len() + value.len();
            bytes <= max_bytes
        })
        .count();
    let pairs: Vec<_> = headers[..fitting].iter().map(|(name, value)| [&**name, &**value]).collect();
    (serde_json::json!(pairs).to_string(), fitting < headers.len())
}

/// The text, or as many of its first characters as may be kept.
fn head_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

#[cfg(test)]
mod tests;
