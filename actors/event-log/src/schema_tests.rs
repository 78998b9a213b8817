use freshet_feed::event::Summary;
use freshet_feed::port::{Logged, NewestByKey, Outcome, PageLimit};
use freshet_feed::{ChannelName, Event, Rooms, Scope};

use super::*;
use crate::sample::{changed, commit, event, noon};
use crate::store::Store;
use crate::{Config, Query, Retention, TablesQuery, history, newest, read, tables};

fn version_of(connection: &Connection) -> u32 {
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

    assert_eq!(version_of(&connection), 2);
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
    assert_eq!(read::after(&transaction, 0, all).unwrap(), std::slice::from_ref(&logged));
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
    let state =
        NewestByKey { channel: ChannelName::iceberg(), rooms: Rooms::All, appended_since: None, max_keys: 1 };
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
fn damage_is_found_before_an_upgrade_and_the_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(crate::LOG_FILE);
    file_of_version_1(&file);
    let connection = crate::connection::writer(&file).unwrap();
    for offset in 3..200 {
        connection.execute("INSERT INTO bodies VALUES (?1, zeroblob(1000))", [offset]).unwrap();
    }
    connection.execute("UPDATE log SET clean = 0", []).unwrap();
    drop(connection);

    // The last connection has moved the WAL into the file. Pages of the end, which hold bodies, are lost.
    let mut bytes = std::fs::read(&file).unwrap();
    let place = (bytes.len() / 4096 - 10) * 4096;
    bytes[place..place + 8192].fill(0xab);
    std::fs::write(&file, &bytes).unwrap();

    assert_eq!(crate::connection::prepare(&file).unwrap_err().code(), "event_log_corrupt");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_step_that_fails_leaves_the_version_before_it() {
    let file = Path::new("test");
    let mut connection = Connection::open_in_memory().unwrap();
    let error = migrate(&mut connection, &[STEPS[0], "CREATE TABLE half (x); SELECT * FROM nowhere;"], file)
        .unwrap_err();
    assert_eq!(error.code(), "event_log_unavailable");
    assert_eq!(version_of(&connection), 1);
    assert!(connection.prepare("SELECT * FROM half").is_err());
}

#[test]
fn a_newer_file_is_refused_and_left_alone() {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let error = migrate(&mut connection, STEPS, Path::new("test")).unwrap_err();
    assert_eq!(error.code(), "event_log_newer");
    assert_eq!(version_of(&connection), 99);
}
