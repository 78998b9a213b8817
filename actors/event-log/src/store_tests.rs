use std::path::PathBuf;

use freshet_feed::event::Summary;
use freshet_feed::port::PageLimit;
use jiff::ToSpan;

use super::*;
use crate::read;
use crate::sample::{changed, commit, event, noon};

const ALL: PageLimit = PageLimit { events: 10_000, bytes: usize::MAX };

struct Place {
    directory: tempfile::TempDir,
    config: Config,
}

impl Place {
    fn new(config: Config) -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap(), config };
        connection::prepare(&place.file()).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join(connection::LOG_FILE)
    }

    fn open(&self) -> Store {
        Store::open(&self.file(), &self.config, &Retention::default()).unwrap()
    }

    fn ids(&self) -> Vec<String> {
        let connection = connection::reader(&self.file()).unwrap();
        let held = read::after(&connection, 0, ALL).unwrap();
        held.into_iter().map(|logged| logged.event.event_id).collect()
    }
}

fn accepted(outcomes: &[Outcome]) -> Vec<bool> {
    outcomes.iter().map(|outcome| matches!(outcome, Outcome::Accepted { .. })).collect()
}

fn added_records(added_records: Option<i64>) -> Summary {
    Summary { added_records, ..Summary::default() }
}

/// Runs maintenance until nothing is left to do.
fn maintain(store: &mut Store, now: Timestamp) {
    while store.maintain(now).unwrap() {}
}

#[test]
fn the_same_commit_by_two_ways_is_one() {
    let place = Place::new(Config::default());
    let mut store = place.open();
    let by_broker = commit("stomp-1", "prod.orders", 7);
    let by_http = Event { timestamp: noon() + 2.seconds(), ..commit("http-1", "prod.orders", 7) };
    assert_eq!(accepted(&store.append(std::slice::from_ref(&by_broker), noon()).unwrap()), [true]);
    assert_eq!(accepted(&store.append(&[by_http.clone(), by_broker], noon()).unwrap()), [false, false]);
    // Also after a restart.
    drop(store);
    assert_eq!(accepted(&place.open().append(&[by_http], noon()).unwrap()), [false]);
    assert_eq!(place.ids(), ["stomp-1"]);
}

#[test]
fn what_one_way_does_not_report_does_not_make_two_commits() {
    // Spark's listener says nothing of the schema, PyIceberg says that it is as it was.
    let full =
        changed(commit("pyiceberg", "prod.orders", 7), |commit| commit.summary = added_records(Some(5)));
    let sparse = changed(Event { event_id: "spark".to_owned(), ..full.clone() }, |commit| {
        commit.schema_changed = None;
        commit.operation = None;
        commit.summary = added_records(None);
    });
    let schema = changed(Event { event_id: "schema".to_owned(), ..full.clone() }, |commit| {
        commit.schema_changed = Some(true);
    });
    for (one, other, is_new) in [(&full, &sparse, false), (&sparse, &full, false), (&sparse, &schema, true)] {
        let place = Place::new(Config::default());
        let outcomes = place.open().append(&[one.clone(), other.clone()], noon()).unwrap();
        assert_eq!(accepted(&outcomes), [true, is_new], "{} and {}", one.event_id, other.event_id);
    }
}

#[test]
fn what_only_looks_like_the_same_commit_is_kept() {
    let place = Place::new(Config::default());
    let mut store = place.open();
    let first = changed(commit("first", "prod.orders", 7), |commit| commit.summary = added_records(Some(5)));
    let named = |event_id: &str| Event { event_id: event_id.to_owned(), ..first.clone() };
    let changed_schema = |event_id| changed(named(event_id), |commit| commit.schema_changed = Some(true));
    let others = [
        first.clone(),
        changed(named("table"), |commit| commit.table = "prod.items".to_owned()),
        changed(named("snapshot"), |commit| commit.snapshot_id = Some(8)),
        changed(named("type"), |commit| commit.event_type = "COMMIT_FAILURE".to_owned()),
        changed(named("operation"), |commit| commit.operation = Some("delete".to_owned())),
        changed(named("counts"), |commit| commit.summary = added_records(Some(6))),
        Event { timestamp: noon() + 1.hours(), ..named("rollback") },
        changed_schema("column added"),
        Event { timestamp: noon() + 1.seconds(), ..changed_schema("another column added") },
    ];
    assert_eq!(accepted(&store.append(&others, noon()).unwrap()), [true; 9]);
    let again = changed_schema("column added, by another way");
    assert_eq!(accepted(&store.append(&[again], noon()).unwrap()), [false]);
}

#[test]
fn events_without_a_snapshot_are_told_apart_by_id_alone() {
    let place = Place::new(Config::default());
    let outcomes = place.open().append(&[event("a", "t"), event("b", "t"), event("a", "u")], noon()).unwrap();
    assert_eq!(accepted(&outcomes), [true, true, false]);
    // The duplicate left no table behind.
    let tables: i64 =
        place.open().connection.query_row("SELECT count(*) FROM tables", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn an_event_is_recognised_after_it_is_gone_until_the_window_ends() {
    let place = Place::new(Config {
        deduplication_window_secs: 3600,
        same_commit_within_secs: 3600,
        retention_events: 1,
        ..Config::default()
    });
    let mut store = place.open();
    store.append(&[commit("old", "t", 1), event("new", "t")], noon()).unwrap();
    assert_eq!(place.ids(), ["new"]);
    drop(store);

    let mut store = place.open();
    let again = [commit("old", "t", 1), commit("same commit", "t", 1)];
    assert_eq!(accepted(&store.append(&again, noon() + 1.hours()).unwrap()), [false, false]);

    let later = noon() + 1.hours() + 1.microseconds();
    assert_eq!(accepted(&store.append(&again, later).unwrap()), [true, false]);
    assert_eq!(store.log().last, 3);
}

#[test]
fn an_event_is_recognised_as_long_as_it_is_held() {
    let place = Place::new(Config { deduplication_window_secs: 1, ..Config::default() });
    let mut store = place.open();
    store.append(&[commit("old", "t", 1)], noon()).unwrap();
    let later = noon() + 1.hours();
    maintain(&mut store, later);
    assert_eq!(accepted(&store.append(&[event("old", "t")], later).unwrap()), [false]);
    // The commit is not: its window has ended.
    assert_eq!(accepted(&store.append(&[commit("other", "t", 1)], later).unwrap()), [true]);
}

#[test]
fn what_is_forgotten_leaves_nothing_behind_but_the_last_offset() {
    let place = Place::new(Config { retention_days: 1, deduplication_window_secs: 60, ..Config::default() });
    let mut store = place.open();
    for batch in 0..30 {
        let events: Vec<_> = (0..100)
            .map(|number| commit(&format!("{batch}-{number}"), &format!("t{number}"), batch))
            .collect();
        store.append(&events, noon()).unwrap();
    }
    let later = noon() + 49.hours();
    maintain(&mut store, later);
    let log = store.log();
    assert_eq!((log.first, log.last, log.held_events(), log.held_bytes), (3001, 3000, 0, 0));
    for table in ["events", "bodies", "tables", "event_words_docsize"] {
        let count: i64 = store
            .connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, 0, "{table}");
    }
    let epoch = log.epoch;
    drop(store);

    let mut store = place.open();
    let outcomes = store.append(&[commit("0-0", "t0", 0)], later).unwrap();
    assert_eq!(outcomes, [Outcome::Accepted { position: Position { epoch, offset: 3001 } }]);
}

#[test]
fn beyond_a_count_the_oldest_are_forgotten_within_the_window_but_not_what_is_held() {
    let config = Config { retention_events: 2, deduplication_events: 4, ..Config::default() };
    let place = Place::new(config);
    let mut store = place.open();
    let events: Vec<_> = (0..6).map(|number| commit(&number.to_string(), "t", number)).collect();
    store.append(&events, noon()).unwrap();
    maintain(&mut store, noon());
    let outcomes = accepted(&store.append(&events[1..], noon()).unwrap());
    assert_eq!(outcomes, [true, false, false, false, false]);

    // With a bound below what is held, all that is held is still recognised, and nothing else is.
    drop(store);
    let config = Config { retention_events: 6, deduplication_events: 1, ..Config::default() };
    let place = Place { config, ..place };
    let mut store = place.open();
    let held = place.ids();
    maintain(&mut store, noon());
    let rows: usize =
        store.connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    assert_eq!((place.ids(), rows), (held.clone(), held.len()));
}

#[test]
fn no_append_prepares_a_statement_anew() {
    let place = Place::new(Config::default());
    let mut store = place.open();
    for number in 0..10 {
        let typed = changed(commit(&number.to_string(), "t", number), |commit| {
            commit.event_type = format!("TYPE_{number}");
        });
        store.append(&[typed], noon()).unwrap();
    }
    let statement = store.connection.prepare_cached(KNOWN_COMMIT).unwrap();
    assert_eq!(statement.get_status(rusqlite::StatementStatus::Run), 10);
    assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
}

#[test]
fn maintenance_goes_in_bounded_steps() {
    let place = Place::new(Config { retention_days: 1, ..Config::default() });
    let mut store = place.open();
    let events: Vec<_> = (0..2500).map(|number| event(&number.to_string(), "t")).collect();
    store.append(&events, noon()).unwrap();
    let later = noon() + 25.hours();
    let mut held = Vec::new();
    while store.maintain(later).unwrap() {
        held.push(store.log().held_events());
    }
    assert_eq!(held, [1500, 500]);
    assert_eq!(store.log().held_events(), 0);
}

#[test]
fn the_oldest_go_first_by_count_and_by_bytes() {
    let place = Place::new(Config { retention_events: 3, ..Config::default() });
    let mut store = place.open();
    for number in 0..10 {
        store.append(&[event(&number.to_string(), "t")], noon()).unwrap();
    }
    assert_eq!(place.ids(), ["7", "8", "9"]);
    let bounds = read::bounds(&connection::reader(&place.file()).unwrap()).unwrap();
    assert_eq!((bounds.first, bounds.last), (8, 10));

    let place = Place::new(Config { retention_bytes: 100, ..Config::default() });
    let mut store = place.open();
    let sized = |name: &str, bytes: usize| Event { body: vec![b' '; bytes].into(), ..event(name, "t") };
    store.append(&[sized("a", 40), sized("b", 40), sized("c", 40)], noon()).unwrap();
    assert_eq!((place.ids(), store.log().held_bytes), (vec!["b".to_owned(), "c".to_owned()], 80));
    // The newest event is held even when it alone is too much.
    store.append(&[sized("large", 400)], noon()).unwrap();
    assert_eq!((place.ids(), store.log().held_bytes), (vec!["large".to_owned()], 400));
}

#[test]
fn a_lowered_limit_catches_up_beside_the_appends() {
    let place = Place::new(Config::default());
    let events: Vec<_> = (0..500).map(|number| event(&number.to_string(), "t")).collect();
    place.open().append(&events, noon()).unwrap();
    let place = Place { config: Config { retention_events: 10, ..Config::default() }, ..place };
    let mut store = place.open();
    let mut held = Vec::new();
    for number in 500..510 {
        store.append(&[event(&number.to_string(), "t")], noon()).unwrap();
        held.push(store.log().held_events());
    }
    assert_eq!(held[0], 501 - 66);
    assert_eq!(held[9], 10);
}

#[test]
fn freed_room_is_used_again() {
    let place =
        Place::new(Config { retention_events: 200, deduplication_window_secs: 1, ..Config::default() });
    let mut store = place.open();
    let mut pages = Vec::new();
    let mut number = 0;
    for day in 0..20 {
        let now = noon() + (day * 25).hours();
        let events: Vec<_> = (0..200)
            .map(|_| {
                number += 1;
                Event {
                    body: format!("\"{number}{}\"", " word".repeat(100)).into(),
                    ..event(&number.to_string(), "t")
                }
            })
            .collect();
        store.append(&events, now).unwrap();
        maintain(&mut store, now);
        pages.push(store.connection.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0)).unwrap());
    }
    assert!(pages[19] <= pages[4], "the file must not grow for ever: {pages:?}");
}

#[test]
fn a_clock_that_was_wrong_for_a_while_does_not_stop_the_forgetting() {
    let config = Config { retention_events: 1, deduplication_window_secs: 60, ..Config::default() };
    let place = Place::new(config);
    let mut store = place.open();
    store.append(&[event("from the future", "t")], noon() + 10_000.hours()).unwrap();
    store.append(&[commit("a", "t", 1)], noon()).unwrap();
    let seconds_back = noon() - 5.seconds();
    assert_eq!(accepted(&store.append(&[commit("b", "t", 1)], seconds_back).unwrap()), [false]);
    store.append(&[event("c", "t")], noon()).unwrap();
    maintain(&mut store, noon() + 25.hours());
    let rows: i64 = store.connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn a_full_disk_is_an_outage_that_ends_by_itself() {
    let place = Place::new(Config::default());
    let mut store = place.open();
    store.append(&[event("before", "t")], noon()).unwrap();
    let events: Vec<_> = (0..200)
        .map(|number| Event { body: vec![b'x'; 600].into(), ..commit(&format!("e{number}"), "t", number) })
        .collect();

    store.limit_pages(Some(3));
    let error = store.append(&events, noon()).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull));
    assert!(keeps_connection(&error));
    assert!(store.probe().is_err());
    // Nothing is half written.
    assert_eq!(place.ids(), ["before"]);
    assert_eq!(store.log().last, 1);

    store.limit_pages(None);
    store.probe().unwrap();
    assert_eq!(accepted(&store.append(&events, noon()).unwrap()), [true; 200]);
    assert_eq!((place.ids().len(), store.log().last), (201, 201));
}

#[test]
fn a_kill_in_the_middle_leaves_whole_batches() {
    let place = Place::new(Config::default());
    let mut store = place.open();
    store.append(&[commit("a", "t", 1), commit("b", "t", 2)], noon()).unwrap();
    // The files as they are while a batch is being written, and after its commit without a checkpoint.
    store.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.connection.execute("INSERT INTO bodies VALUES (3, zeroblob(100000))", []).unwrap();
    let copy = tempfile::tempdir().unwrap();
    for suffix in ["", "-wal"] {
        let name = format!("{}{suffix}", connection::LOG_FILE);
        std::fs::copy(place.directory.path().join(&name), copy.path().join(&name)).unwrap();
    }
    let killed = Place { directory: copy, config: Config::default() };

    connection::prepare(&killed.file()).unwrap();
    let mut store = killed.open();
    assert_eq!(killed.ids(), ["a", "b"]);
    let outcomes = store.append(&[commit("b", "t", 2), commit("c", "t", 3)], noon()).unwrap();
    assert_eq!(accepted(&outcomes), [false, true]);
    assert_eq!(store.log().last, 3);
}

#[test]
fn an_orderly_stop_is_remembered_and_the_epoch_stays() {
    let place = Place::new(Config::default());
    let clean = || -> bool {
        connection::reader(&place.file())
            .unwrap()
            .query_row("SELECT clean FROM log", [], |row| row.get(0))
            .unwrap()
    };
    let store = place.open();
    let epoch = store.log().epoch;
    assert!(!clean());
    store.close().unwrap();
    assert!(clean());
    drop(place.open());
    assert!(!clean());
    connection::prepare(&place.file()).unwrap();
    assert_eq!(place.open().log().epoch, epoch);
    assert_ne!(Place::new(Config::default()).open().log().epoch, epoch);
}

#[test]
fn a_time_keeps_its_nanoseconds() {
    let place = Place::new(Config::default());
    let exact: Timestamp = "2026-03-01T12:00:00.123456789Z".parse().unwrap();
    let events = [exact, Timestamp::MIN, Timestamp::MAX]
        .map(|timestamp| Event { timestamp, ..commit(&timestamp.to_string(), "t", i64::MIN) });
    place.open().append(&events, noon()).unwrap();
    let held = read::after(&connection::reader(&place.file()).unwrap(), 0, ALL).unwrap();
    assert_eq!(held.into_iter().map(|logged| logged.event).collect::<Vec<_>>(), events);
}
