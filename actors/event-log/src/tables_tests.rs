use std::path::PathBuf;
use std::time::Duration;

use freshet_feed::Event;
use freshet_feed::event::Summary;
use jiff::ToSpan;

use super::*;
use crate::sample::{changed, commit, event, noon};
use crate::store::Store;
use crate::{Retention, connection, history};

struct Log {
    _directory: tempfile::TempDir,
    file: PathBuf,
    store: Store,
    config: Config,
}

impl Log {
    fn new(config: Config) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(connection::LOG_FILE);
        connection::prepare(&file).unwrap();
        let store = Store::open(&file, &config, &Retention::default()).unwrap();
        Self { _directory: directory, file, store, config }
    }

    fn tables(&self, query: &TablesQuery) -> Result<Page<TableSummary>, SearchError> {
        let mut connection = connection::reader(&self.file).unwrap();
        history::within(&mut connection, Duration::from_secs(60), |transaction| {
            tables(transaction, &self.config, query)
        })
    }
}

fn all() -> TablesQuery {
    TablesQuery { scope: None, tables: Vec::new(), cursor: None, limit: 100, now: noon() }
}

fn adding(event: Event, records: Option<i64>, files: Option<i64>) -> Event {
    changed(event, |commit| {
        commit.summary = Summary { added_records: records, added_data_files: files, ..Summary::default() };
    })
}

#[test]
fn a_table_says_what_happened_lately() {
    let mut log = Log::new(Config::default());
    let ago = |name: &str, minutes: i64| Event {
        timestamp: noon() - minutes.minutes(),
        ..event(name, "prod.orders")
    };
    let events = [
        adding(ago("yesterday", 24 * 60), Some(1_000_000), Some(1_000_000)),
        adding(changed(ago("morning", 600), |commit| commit.schema_changed = Some(true)), Some(5), Some(2)),
        adding(ago("hour ago", 60), None, None),
        adding(ago("lately", 59), Some(7), None),
        adding(ago("from the future", -1), Some(1_000_000), Some(1_000_000)),
        changed(ago("last", 30), |commit| {
            commit.operation = Some("delete".to_owned());
            commit.snapshot_id = Some(i64::MAX);
        }),
    ];
    log.store.append(&events, noon()).unwrap();
    let page = log.tables(&all()).unwrap();
    assert_eq!(page.next, None);
    let expected = TableSummary {
        table: "prod.orders".to_owned(),
        last_commit: LastCommit {
            offset: 6,
            event_id: "last".to_owned(),
            timestamp: noon() - 30.minutes(),
            event_type: "COMMIT_SUCCESS".to_owned(),
            operation: Some("delete".to_owned()),
            snapshot_id: Some(i64::MAX),
        },
        commits_last_hour: 2,
        commits_last_day: 4,
        records_added_last_day: Added { sum: Some(12), commits_without: 2 },
        files_added_last_day: Added { sum: Some(2), commits_without: 3 },
        last_schema_change: Some(noon() - 600.minutes()),
    };
    assert_eq!(page.items, [expected]);
}

#[test]
fn only_commits_that_succeeded_are_counted() {
    let mut log = Log::new(Config::default());
    let failed = |name: &str, table: &str| {
        changed(adding(event(name, table), Some(1_000_000), Some(1_000_000)), |commit| {
            commit.event_type = "COMMIT_FAILURE".to_owned();
            commit.schema_changed = Some(true);
        })
    };
    let events = [
        adding(event("1", "t"), Some(5), Some(2)),
        failed("2", "t"),
        failed("3", "unlucky"),
        changed(event("4", "t"), |commit| commit.event_type = "TABLE_SCAN".to_owned()),
    ];
    log.store.append(&events, noon()).unwrap();
    let [table, unlucky] = &log.tables(&all()).unwrap().items[..] else { panic!("two tables") };
    assert_eq!((table.commits_last_hour, table.commits_last_day), (1, 1));
    assert_eq!(table.records_added_last_day, Added { sum: Some(5), commits_without: 0 });
    assert_eq!(table.files_added_last_day, Added { sum: Some(2), commits_without: 0 });
    assert_eq!((table.last_commit.offset, table.last_schema_change), (1, None));
    // A table without a known commit shows its last event instead.
    assert_eq!((unlucky.commits_last_day, unlucky.last_schema_change), (0, None));
    assert_eq!((unlucky.last_commit.offset, unlucky.last_commit.event_type.as_str()), (3, "COMMIT_FAILURE"));
}

#[test]
fn a_table_whose_last_commit_is_forgotten_shows_its_last_event() {
    let config = Config { retention_events: 1, deduplication_events: 1, ..Config::default() };
    let mut log = Log::new(config);
    let failed = changed(event("2", "t"), |commit| commit.event_type = "COMMIT_FAILURE".to_owned());
    log.store.append(&[event("1", "t"), failed], noon()).unwrap();
    assert_eq!(log.tables(&all()).unwrap().items[0].last_commit.offset, 1);
    log.store.maintain(noon()).unwrap();
    assert_eq!(log.tables(&all()).unwrap().items[0].last_commit.offset, 2);
}

#[test]
fn unknown_is_not_zero_and_a_sum_may_pass_64_bits() {
    let mut log = Log::new(Config::default());
    let events = [
        adding(event("1", "huge"), Some(i64::MAX), Some(0)),
        adding(event("2", "huge"), Some(i64::MAX), Some(0)),
        event("3", "silent"),
    ];
    log.store.append(&events, noon()).unwrap();
    let [huge, silent] = &log.tables(&all()).unwrap().items[..] else { panic!("two tables") };
    assert_eq!(huge.records_added_last_day.sum, Some(i128::from(i64::MAX) * 2));
    assert_eq!(huge.files_added_last_day, Added { sum: Some(0), commits_without: 0 });
    assert_eq!(silent.records_added_last_day, Added { sum: None, commits_without: 1 });
    assert_eq!(silent.last_schema_change, None);
}

#[test]
fn the_latest_schema_change_counts_whatever_comes_later() {
    let mut log = Log::new(Config::default());
    let change = |name: &str, hour: i64| Event {
        timestamp: noon() + hour.hours(),
        ..changed(event(name, "t"), |commit| commit.schema_changed = Some(true))
    };
    log.store.append(&[change("1", 2), change("2", 1)], noon()).unwrap();
    log.store.append(&[change("late", 0)], noon()).unwrap();
    log.store.append(&[commit("none", "t", 1)], noon()).unwrap();
    assert_eq!(log.tables(&all()).unwrap().items[0].last_schema_change, Some(noon() + 2.hours()));
}

#[test]
fn tables_come_in_pages_by_name_and_pattern() {
    let mut log = Log::new(Config::default());
    let events: Vec<_> = ["b.x", "a.y", "a.x", "b.y", "é"].iter().map(|name| event(name, name)).collect();
    log.store.append(&events, noon()).unwrap();
    let names = |page: &Page<TableSummary>| -> Vec<String> {
        page.items.iter().map(|summary| summary.table.clone()).collect()
    };
    let first = log.tables(&TablesQuery { limit: 3, ..all() }).unwrap();
    assert_eq!(names(&first), ["a.x", "a.y", "b.x"]);
    let second = log.tables(&TablesQuery { limit: 3, cursor: first.next.clone(), ..all() }).unwrap();
    assert_eq!(names(&second), ["b.y", "é"]);
    assert_eq!(second.next, None);
    let only_x = TablesQuery { tables: vec![Glob::new("*.x")], ..all() };
    assert_eq!(names(&log.tables(&only_x).unwrap()), ["a.x", "b.x"]);
    let foreign = log.tables(&TablesQuery { cursor: first.next, ..only_x });
    assert_eq!(foreign.unwrap_err().code(), "invalid_cursor");
    assert_eq!(log.tables(&TablesQuery { limit: 0, ..all() }).unwrap_err().code(), "invalid_query");
}

#[test]
fn a_table_is_listed_after_its_events_are_gone_until_they_are_forgotten() {
    let config = Config { retention_events: 1, deduplication_window_secs: 60, ..Config::default() };
    let mut log = Log::new(config);
    log.store.append(&[event("1", "quiet"), event("2", "busy")], noon()).unwrap();
    assert_eq!(log.tables(&all()).unwrap().items.len(), 2);
    let later = noon() + 25.hours();
    log.store.maintain(later).unwrap();
    let page = log.tables(&TablesQuery { now: later, ..all() }).unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!((page.items[0].table.as_str(), page.items[0].commits_last_day), ("busy", 0));
}
