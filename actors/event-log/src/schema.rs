//! The versions of the file, and the way from each to the next.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::OpenError;

/// Step `n` leads from version `n` to version `n + 1`; version 0 is an empty file. A step that was released is
/// never changed: a new version is a new step at the end.
pub(crate) const STEPS: &[&str] =
    &[include_str!("sql/0001_create.sql"), include_str!("sql/0002_channels.sql")];

/// The version of the file; 0 for an empty one.
///
/// # Errors
/// [`OpenError::Newer`] for a version beyond the steps; what SQLite says otherwise.
pub(crate) fn version(connection: &Connection, steps: &[&str], file: &Path) -> Result<u32, OpenError> {
    let unavailable = |source| OpenError::Unavailable { file: file.to_owned(), source };
    let found: u32 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(unavailable)?;
    let known = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(OpenError::Newer { file: file.to_owned(), found, known });
    }
    Ok(found)
}

/// Brings the file to the version of the last step. Each step is one transaction, so an interrupted upgrade
/// leaves a whole version behind and goes on from there.
///
/// # Errors
/// [`OpenError::Newer`] for a version beyond the steps; what SQLite says otherwise.
pub(crate) fn migrate(connection: &mut Connection, steps: &[&str], file: &Path) -> Result<(), OpenError> {
    let unavailable = |source| OpenError::Unavailable { file: file.to_owned(), source };
    let found = version(connection, steps, file)?;
    if (1..steps.len()).contains(&(found as usize)) {
        tracing::info!(file = %file.display(), version = found, "event log is of an older version, upgrading it");
    }
    for (version, step) in (1u32..).zip(steps).skip(found as usize) {
        let mut upgrade = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "user_version", version)?;
            transaction.commit()
        };
        upgrade().map_err(unavailable)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
