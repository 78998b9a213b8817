//! The versions of the file, and the way from each to the next.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::OpenError;

/// Step `n` leads from version `n` to version `n + 1`; version 0 is an empty file. A step that was released is
/// never changed: a new version is a new step at the end.
pub(crate) const STEPS: &[&str] =
    &[include_str!("sql/0001_create.sql"), include_str!("sql/0002_channels.sql")];

/// Brings the file to the version of the last step. Each step is one transaction, so an interrupted upgrade
/// leaves a whole version behind and goes on from there.
///
/// # Errors
/// [`OpenError::Newer`] for a version beyond the steps; what SQLite says otherwise.
pub(crate) fn migrate(connection: &mut Connection, steps: &[&str], file: &Path) -> Result<(), OpenError> {
    let unavailable = |source| OpenError::Unavailable { file: file.to_owned(), source };
    let found: u32 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(unavailable)?;
    let known = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(OpenError::Newer { file: file.to_owned(), found, known });
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
mod tests {
    use super::*;

    fn version(connection: &Connection) -> u32 {
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_file_of_version_1_is_upgraded_with_its_contents() {
        let file = Path::new("test");
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &STEPS[..1], file).unwrap();
        connection.execute("INSERT INTO log VALUES (1, 7, 42, 0, 1, NULL)", []).unwrap();

        let steps = [STEPS[0], "ALTER TABLE log ADD COLUMN note TEXT; UPDATE log SET note = 'upgraded';"];
        migrate(&mut connection, &steps, file).unwrap();
        migrate(&mut connection, &steps, file).unwrap();

        assert_eq!(version(&connection), 2);
        let row: (i64, String) = connection
            .query_row("SELECT last_offset, note FROM log", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(row, (42, "upgraded".to_owned()));
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_it() {
        let file = Path::new("test");
        let mut connection = Connection::open_in_memory().unwrap();
        let error =
            migrate(&mut connection, &[STEPS[0], "CREATE TABLE half (x); SELECT * FROM nowhere;"], file)
                .unwrap_err();
        assert_eq!(error.code(), "event_log_unavailable");
        assert_eq!(version(&connection), 1);
        assert!(connection.prepare("SELECT * FROM half").is_err());
    }

    #[test]
    fn a_newer_file_is_refused_and_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate(&mut connection, STEPS, Path::new("test")).unwrap_err();
        assert_eq!(error.code(), "event_log_newer");
        assert_eq!(version(&connection), 99);
    }
}
