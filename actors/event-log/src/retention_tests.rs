use std::path::PathBuf;
use std::time::Duration;

use freshet_feed::port::{Logged, NewestByKey, Outcome, PageLimit};
use freshet_feed::{Event, Rooms};
use jiff::{Timestamp, ToSpan};

use super::*;
use crate::sample::{changed, commit, event, in_room, message, noon};
use crate::store::Store;
use crate::{Config, Query, TablesQuery, connection, history, newest, read, tables};

struct Log {
    _directory: tempfile::TempDir,
    file: PathBuf,
    store: Store,
}

impl Log {
    /// A log whose channel `short` shows its events for an hour.
    fn new(config: &Config) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(connection::LOG_FILE);
        connection::prepare(&file).unwrap();
        let by_channel = vec![(short(), Duration::from_secs(3600))];
        let store = Store::open(&file, config, &Retention { by_channel }).unwrap();
        Self { _directory: directory, file, store }
    }

    fn append(&mut self, events: &[Event], now: Timestamp) -> Vec<Outcome> {
        self.store.append(events, now).unwrap()
    }

    fn maintain(&mut self, now: Timestamp) {
        while self.store.maintain(now).unwrap() {}
    }

    fn reading<T>(&self, work: impl FnOnce(&Transaction<'_>) -> T) -> T {
        work(&connection::reader(&self.file).unwrap().transaction().unwrap())
    }

    fn held(&self) -> Vec<Logged> {
        let limit = PageLimit { events: 100, bytes: usize::MAX };
        self.reading(|transaction| read::after(transaction, 0, limit).unwrap())
    }

    fn found(&self, query: Query) -> Vec<u64> {
        let query = Query { limit: 100, ..query };
        let page =
            self.reading(|transaction| history::search(transaction, &Config::default(), &query).unwrap());
        page.items.into_iter().map(|logged| logged.offset).collect()
    }

    fn tables(&self) -> Vec<(String, u64, Option<Timestamp>)> {
        let query = TablesQuery { scope: None, tables: Vec::new(), cursor: None, limit: 10, now: noon() };
        let page =
            self.reading(|transaction| tables::tables(transaction, &Config::default(), &query).unwrap());
        let row = |summary: tables::TableSummary| {
            (summary.table, summary.commits_last_day, summary.last_schema_change)
        };
        page.items.into_iter().map(row).collect()
    }

    fn count(&self, sql: &str) -> i64 {
        self.reading(|transaction| transaction.query_row(sql, [], |row| row.get(0)).unwrap())
    }
}

fn short() -> ChannelName {
    ChannelName::new("short").unwrap()
}

fn in_short(event: Event) -> Event {
    Event { channel: short(), ..event }
}

#[test]
fn an_event_older_than_its_channel_shows_leaves_nothing_but_its_place() {
    let mut log = Log::new(&Config::default());
    let secret = Event {
        source_application: Some("secretapp".to_owned()),
        body: r#"{"x":"secretword"}"#.into(),
        ..in_room("secretroom", in_short(commit("secretid", "secrettable", 1)))
    };
    log.append(&[secret, event("kept", "t")], noon());
    log.append(&[message("young", "short", Some("r"), Some("k"))], noon() + 1.seconds());

    log.maintain(noon() + 1.hours());
    assert_eq!(log.found(Query::default()), [3, 2, 1], "not a moment too early");
    log.maintain(noon() + 1.hours() + 1.microseconds());

    let held = log.held();
    assert_eq!(held.iter().map(|logged| logged.offset).collect::<Vec<_>>(), [1, 2, 3]);
    let blank = Event {
        event_id: String::new(),
        key: None,
        room: None,
        source_application: None,
        commit: None,
        body: Vec::new().into(),
        ..in_short(event("", ""))
    };
    assert_eq!((&held[0].event, held[0].appended_at), (&blank, noon()));
    assert_eq!((held[1].event.event_id.as_str(), held[2].event.event_id.as_str()), ("kept", "young"));

    assert_eq!(log.found(Query::default()), [3, 2]);
    assert_eq!(log.found(Query { text: Some("secretword".to_owned()), ..Query::default() }), [0; 0]);
    assert_eq!(log.found(Query { table: Some("secrettable".to_owned()), ..Query::default() }), [0; 0]);
    assert_eq!(log.tables().into_iter().map(|table| table.0).collect::<Vec<_>>(), ["t"]);
    let request = NewestByKey { channel: short(), rooms: Rooms::All, appended_since: None, max_keys: 10 };
    assert_eq!(log.reading(|transaction| newest::by_key(transaction, &request).unwrap()).offsets, [3]);
    let at = log.reading(|transaction| read::at(transaction, &[1, 2, 3]).unwrap());
    assert_eq!(at.iter().map(|logged| logged.offset).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(log.reading(|transaction| read::locate(transaction, "secretid").unwrap()), None);
    assert_eq!(log.store.log().held_bytes, 4, "two bodies of two bytes");
}

#[test]
fn nothing_of_a_blanked_event_is_left_in_any_row() {
    let mut log = Log::new(&Config::default());
    let secret = Event {
        key: Some("secretkey".to_owned()),
        source_application: Some("secretapp".to_owned()),
        body: r#"{"x":"secretword"}"#.into(),
        ..in_room("secretroom", in_short(commit("secretid", "secrettable", 1)))
    };
    log.append(&[secret], noon());
    log.maintain(noon() + 2.hours());
    for (table, columns) in [
        (
            "events",
            "typeof(event_id) || typeof(event_key) || typeof(room) || typeof(application) || typeof(table_id)",
        ),
        ("bodies", "body"),
        ("tables", "name"),
    ] {
        let all = log.reading(|transaction| {
            let mut statement =
                transaction.prepare(&format!("SELECT CAST({columns} AS TEXT) FROM {table}")).unwrap();
            let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            rows.collect::<Result<Vec<_>, _>>().unwrap().join("|")
        });
        let expected = if table == "events" { "null".repeat(5) } else { String::new() };
        assert_eq!(all, expected, "{table}");
    }
    assert_eq!(log.count("SELECT count(*) FROM event_words_docsize"), 0);
}

#[test]
fn a_table_forgets_what_its_channel_no_longer_shows() {
    let mut log = Log::new(&Config::default());
    let schema_change = changed(in_short(commit("1", "t", 1)), |commit| commit.schema_changed = Some(true));
    log.append(&[schema_change], noon());
    let failed = changed(in_short(event("2", "t")), |commit| commit.event_type = "COMMIT_FAILURE".to_owned());
    log.append(&[failed], noon() + 1.hours());
    assert_eq!(log.tables(), [("t".to_owned(), 1, Some(noon()))]);
    log.maintain(noon() + 90.minutes());
    assert_eq!(log.tables(), [("t".to_owned(), 0, None)]);
    log.maintain(noon() + 3.hours());
    assert_eq!(log.tables(), []);
    assert_eq!(log.count("SELECT count(*) FROM tables"), 0);
}

#[test]
fn a_blanked_event_is_new_when_it_comes_again() {
    let mut log = Log::new(&Config::default());
    let again = in_short(commit("a", "t", 1));
    log.append(std::slice::from_ref(&again), noon());
    assert_eq!(log.append(std::slice::from_ref(&again), noon() + 1.hours()), [Outcome::Duplicate]);
    log.maintain(noon() + 2.hours());
    assert!(matches!(log.append(&[again], noon() + 2.hours())[..], [Outcome::Accepted { .. }]));
    assert_eq!(log.found(Query::default()), [2]);
}

#[test]
fn blanked_events_go_with_the_oldest_and_leave_no_gap_before() {
    let mut log = Log::new(&Config { retention_days: 1, deduplication_window_secs: 60, ..Config::default() });
    let events: Vec<_> = (0..2500)
        .map(|number| {
            let event = commit(&number.to_string(), "t", number);
            if number % 2 == 0 { event } else { in_short(event) }
        })
        .collect();
    log.append(&events, noon());
    let later = noon() + 2.hours();
    let mut blanked = Vec::new();
    while log.store.maintain(later).unwrap() {
        blanked.push(log.count("SELECT count(*) FROM events WHERE event_id IS NULL"));
    }
    assert_eq!(blanked, [1000], "in bounded steps");
    assert_eq!(log.count("SELECT count(*) FROM events WHERE event_id IS NULL"), 1250);
    let held = log.held();
    assert!((1..).zip(&held).all(|(offset, logged)| logged.offset == offset));
    assert_eq!(log.store.log().held_bytes, 2 * 1250);

    log.maintain(noon() + 25.hours());
    assert_eq!((log.store.log().first, log.store.log().held_bytes), (2501, 0));
    assert_eq!(log.count("SELECT count(*) FROM events"), 0);
    assert_eq!(log.count("SELECT count(*) FROM tables"), 0);
}

#[test]
fn the_index_of_keys_holds_only_what_is_held() {
    let mut log = Log::new(&Config { retention_events: 1, ..Config::default() });
    log.append(&[message("1", "a", Some("r"), Some("k")), message("2", "a", Some("r"), Some("k"))], noon());
    assert_eq!(log.count("SELECT count(*) FROM events"), 2);
    assert_eq!(log.count("SELECT count(event_key) + count(room) FROM events"), 2);
}

#[test]
fn what_is_declared_of_the_channels_is_taken() {
    let declared = freshet_feed::channel::Config { history_max_age_secs: 7, ..Default::default() };
    let by_channel = vec![(ChannelName::iceberg(), Duration::from_secs(7))];
    assert_eq!(Retention::of(&Channels::new(&[declared])), Retention { by_channel });
    assert_eq!(Retention::of(&Channels::new(&[])), Retention::default());
}
