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
    use freshet_feed::event::Summary;
    use freshet_feed::port::{Logged, NewestByKey, Outcome, PageLimit};
    use freshet_feed::{ChannelName, Event, Rooms, Scope};

    use super::*;
    use crate::sample::{changed, commit, event, noon};
    use crate::store::Store;
    use crate::{Config, Query, Retention, TablesQuery, history, newest, read, tables};

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

    /// A file as version 1 left it: two commits of which the first is only remembered, and one that is held.
    fn file_of_version_1(file: &Path) {
        let mut connection = crate::connection::writer(file).unwrap();
        migrate(&mut connection, &STEPS[..1], file).unwrap();
        connection
            .execute_batch(
                r#"INSERT INTO log VALUES (1, -7, 2, 19, 1, NULL);
                INSERT INTO tables VALUES (5, 'prod.orders', 2, 2, 1772366400000000);
                INSERT INTO events VALUES
                    (1, 1772366400000000, 0, 1772366400000001, 5, 1, 41, NULL, NULL, NULL, NULL,
                     'COMMIT_SUCCESS', NULL, NULL, 'gone'),
                    (2, 1772366400000000, 789, 1772366400000002, 5, 0, 42, 1, 2, 3, 4,
                     'COMMIT_SUCCESS', 'append', 'spark', x'f81d4fae7dec11d0a76500a0c91e6bf6');
                INSERT INTO bodies VALUES (2, CAST('{"note":"held one"}' AS BLOB));
                INSERT INTO event_words (rowid, words) VALUES (2, 'prod orders spark append held one ');"#,
            )
            .unwrap();
    }

    #[test]
    fn a_data_directory_of_version_1_goes_on_where_it_stood() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(crate::LOG_FILE);
        file_of_version_1(&file);
        crate::connection::prepare(&file).unwrap();

        let held = Event {
            event_id: "f81d4fae-7dec-11d0-a765-00a0c91e6bf6".to_owned(),
            timestamp: "2026-03-01T12:00:00.000000789Z".parse().unwrap(),
            source_application: Some("spark".to_owned()),
            body: r#"{"note":"held one"}"#.into(),
            ..changed(event("", "prod.orders"), |commit| {
                commit.snapshot_id = Some(42);
                commit.schema_changed = Some(false);
                commit.summary = Summary {
                    added_records: Some(1),
                    deleted_records: Some(2),
                    added_data_files: Some(3),
                    deleted_data_files: Some(4),
                };
            })
        };
        let appended_at = "2026-03-01T12:00:00.000002Z".parse().unwrap();
        let logged = Logged { offset: 2, appended_at, event: held.clone() };
        let mut reader = crate::connection::reader(&file).unwrap();
        let transaction = reader.transaction().unwrap();
        let all = PageLimit { events: 10, bytes: 1000 };
        assert_eq!(read::after(&transaction, 0, all).unwrap(), [logged.clone()]);
        let bounds = read::bounds(&transaction).unwrap();
        assert_eq!((bounds.epoch.0, bounds.first, bounds.last), (7_u64.wrapping_neg(), 2, 2));
        let iceberg = Some(Scope::all_of(ChannelName::iceberg()));
        let search =
            Query { scope: iceberg.clone(), text: Some("held".to_owned()), limit: 1, ..Query::default() };
        let page = history::search(&transaction, &Config::default(), &search).unwrap();
        assert_eq!(page.items, [logged]);
        let list = TablesQuery { scope: iceberg, tables: vec![], cursor: None, limit: 1, now: noon() };
        let page = tables::tables(&transaction, &Config::default(), &list).unwrap();
        assert_eq!((page.items[0].commits_last_day, page.items[0].last_schema_change), (2, Some(noon())));
        let state = NewestByKey {
            channel: ChannelName::iceberg(),
            rooms: Rooms::All,
            appended_since: None,
            max_keys: 1,
        };
        assert_eq!(newest::by_key(&transaction, &state).unwrap().offsets, [2]);
        drop(transaction);

        // What was known is recognised, what is new has the next offset.
        let mut store = Store::open(&file, &Config::default(), &Retention::default()).unwrap();
        let same_commit = changed(commit("same commit", "prod.orders", 41), |commit| {
            commit.schema_changed = Some(true);
        });
        let events = [event("gone", "t"), held, same_commit, event("new", "t")];
        let Outcome::Accepted { position } = store.append(&events, noon()).unwrap()[3] else { panic!("new") };
        assert_eq!(position.offset, 3);
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
