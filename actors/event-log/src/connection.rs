//! Opening the file: for the writer, for readers, and the first time in a process, with its checks.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use crate::{OpenError, schema};

/// The name of the log's file in the data directory.
pub const LOG_FILE: &str = "event-log.sqlite";

/// How long a connection waits for another one's lock. Readers and the writer do not block each other in WAL
/// mode; this covers the moments in which the WAL is begun anew.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The writer's page cache. The indexes by event id and snapshot id are written at random places.
const WRITER_CACHE_KIB: i64 = 64 * 1024;
/// Pages in the WAL before they are moved into the file, 64 MiB. SQLite's 1000 would move the same pages of the
/// random indexes again and again.
const WAL_PAGES: i64 = 16_384;
/// What the WAL may keep of the disk after a burst, in bytes.
const WAL_SIZE_LIMIT_BYTES: i64 = 64 * 1024 * 1024;
const STATEMENTS_KEPT: usize = 64;

/// Makes the file where it is missing, checks it when it was not closed in order, and upgrades it.
///
/// # Errors
/// [`OpenError::Corrupt`], [`OpenError::Newer`] or [`OpenError::Unavailable`]; a damaged file is left as it is.
pub(crate) fn prepare(file: &Path) -> Result<(), OpenError> {
    let failed = |source: rusqlite::Error| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            OpenError::Corrupt { file: file.to_owned(), reason: source.to_string() }
        }
        _ => OpenError::Unavailable { file: file.to_owned(), source },
    };
    let failed_step = |error| match error {
        OpenError::Unavailable { source, .. } => failed(source),
        other => other,
    };
    let mut connection = writer(file).map_err(failed)?;
    let version = schema::version(&connection, schema::STEPS, file).map_err(failed_step)?;
    if version > 0 && !was_closed_in_order(&connection).map_err(failed)? {
        tracing::info!(file = %file.display(), "event log was not closed in order, checking it");
        let finding: String =
            connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
        if finding != "ok" {
            return Err(OpenError::Corrupt { file: file.to_owned(), reason: finding });
        }
    }
    schema::migrate(&mut connection, schema::STEPS, file).map_err(failed_step)?;
    begin_log(&connection, fastrand::u64(..)).map_err(failed)
}

/// A log that was made and never begun counts as closed.
fn was_closed_in_order(connection: &Connection) -> rusqlite::Result<bool> {
    let clean = connection.query_row("SELECT clean FROM log", [], |row| row.get(0)).optional()?;
    Ok(clean.unwrap_or(true))
}

/// A log that has no life yet gets one.
fn begin_log(connection: &Connection, epoch: u64) -> rusqlite::Result<()> {
    connection
        .execute("INSERT OR IGNORE INTO log VALUES (1, ?1, 0, 0, 1, NULL)", [epoch.cast_signed()])
        .map(|_| ())
}

/// The connection that writes. A commit answers when its bytes are on the disk.
pub(crate) fn writer(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT_BYTES)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(connection)
}

/// A connection that only reads.
pub(crate) fn reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::Store;
    use crate::{Config, Retention, sample};

    #[test]
    fn a_file_that_is_no_log_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(LOG_FILE);
        fs::write(&file, "this is somebody's letter, not a database".repeat(100)).unwrap();
        let before = fs::read(&file).unwrap();
        assert_eq!(prepare(&file).unwrap_err().code(), "event_log_corrupt");
        assert_eq!(fs::read(&file).unwrap(), before);
    }

    #[test]
    fn damage_is_found_after_an_unclean_stop_and_the_file_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(LOG_FILE);
        prepare(&file).unwrap();
        let mut store = Store::open(&file, &Config::default(), &Retention::default()).unwrap();
        for number in 0..200 {
            store.append(&[sample::event(&format!("e{number}"), "t")], sample::noon()).unwrap();
        }
        drop(store);

        // The last connection has moved the WAL into the file. Pages of the middle are lost.
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2 / 4096 * 4096;
        bytes[middle..middle + 8192].fill(0xab);
        fs::write(&file, &bytes).unwrap();

        assert_eq!(prepare(&file).unwrap_err().code(), "event_log_corrupt");
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }

    #[test]
    fn a_missing_directory_is_an_outage_not_a_corruption() {
        let error = prepare(Path::new("/nonexistent/event-log.sqlite")).unwrap_err();
        assert_eq!(error.code(), "event_log_unavailable");
    }
}
