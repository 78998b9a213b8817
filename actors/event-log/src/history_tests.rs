use std::path::PathBuf;

use freshet_feed::{Event, EventFilter};
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;

use super::*;
use crate::sample::{changed, commit, event, noon};
use crate::store::Store;
use crate::{Retention, connection};

const LIMIT: Duration = Duration::from_secs(60);

struct Log {
    _directory: tempfile::TempDir,
    file: PathBuf,
    config: Config,
}

impl Log {
    fn with(events: &[Event], config: Config) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(connection::LOG_FILE);
        connection::prepare(&file).unwrap();
        Store::open(&file, &config, &Retention::default()).unwrap().append(events, noon()).unwrap();
        Self { _directory: directory, file, config }
    }

    fn search(&self, query: &Query) -> Result<Page<Logged>, SearchError> {
        let mut connection = connection::reader(&self.file).unwrap();
        within(&mut connection, LIMIT, |transaction| search(transaction, &self.config, query))
    }

    fn ids(&self, query: &Query) -> Vec<String> {
        let page = self.search(&Query { limit: 1000, ..query.clone() }).unwrap();
        page.items.into_iter().map(|logged| logged.event.event_id).collect()
    }
}

fn text(text: &str) -> Query {
    Query { text: Some(text.to_owned()), ..Query::default() }
}

fn tables(patterns: &[&str]) -> Query {
    let tables = patterns.iter().map(|pattern| Glob::new(*pattern)).collect();
    Query { filter: EventFilter { tables, ..EventFilter::default() }, ..Query::default() }
}

#[test]
fn an_analyst_finds_a_commit_by_what_it_says() {
    let events = [
        Event {
            source_application: Some("spark-etl".to_owned()),
            body: r#"{"eventId":"one","payload":{"snapshotId":8734628364872364872,"manifestList":"s3://lake/snap-12-ab.avro"}}"#.into(),
            ..commit("one", "prod.daily_user_activity", 8_734_628_364_872_364_872)
        },
        changed(commit("two", "prod.daily_sales", 2), |commit| commit.operation = Some("delete".to_owned())),
        Event { body: r#"{"note":"Änderung in Köln"}"#.into(), ..commit("three", "staging.t", 3) },
    ];
    let log = Log::with(&events, Config::default());
    for (typed, expected) in [
        ("daily", vec!["two", "one"]),
        ("dai", vec!["two", "one"]),
        ("da", vec![]),
        ("prod.daily_use", vec!["one"]),
        ("user spark", vec!["one"]),
        ("spar user", vec![]),
        ("8734628364872364872", vec!["one"]),
        ("s3://lake/snap-12", vec!["one"]),
        ("DELETE", vec!["two"]),
        ("köln ÄNDERUNG", vec!["three"]),
        ("two", vec!["two"]),
        ("nothing", vec![]),
        ("\" OR 1 -- *", vec![]),
        ("…", vec!["three", "two", "one"]),
    ] {
        assert_eq!(log.ids(&text(typed)), expected, "{typed}");
    }
}

#[test]
fn time_and_table_narrow_a_search() {
    let at = |name: &str, hours: i64| Event { timestamp: noon() + hours.hours(), ..event(name, "a.b") };
    let events = [at("one", 1), at("two", 2), event("other", "a.bc"), at("three", 3), event("star", "a.*")];
    let log = Log::with(&events, Config::default());
    let two_o_clock = Some(noon() + 2.hours());
    assert_eq!(log.ids(&Query { from: two_o_clock, ..Query::default() }), ["three", "two"]);
    assert_eq!(log.ids(&Query { to: two_o_clock, ..Query::default() }), ["star", "other", "one"]);
    let nearly = Some(noon() + 2.hours() + 1.nanoseconds());
    assert_eq!(log.ids(&Query { from: nearly, ..Query::default() }), ["three"]);
    let history = |table: &str| Query { table: Some(table.to_owned()), ..Query::default() };
    assert_eq!(log.ids(&history("a.b")), ["three", "two", "one"]);
    assert_eq!(log.ids(&history("a.*")), ["star"]);
    assert_eq!(log.ids(&history("a")), Vec::<String>::new());
    assert_eq!(log.ids(&Query { filter: tables(&["*c"]).filter, ..history("a.b") }), Vec::<String>::new());
}

#[test]
fn pages_join_without_a_gap_while_the_log_grows() {
    let names: Vec<String> = (0..25).map(|number| format!("e{number}")).collect();
    let events: Vec<_> = names.iter().map(|name| event(name, "t")).collect();
    let log = Log::with(&events, Config::default());
    let mut query = Query { limit: 10, ..text("append") };
    let mut found = Vec::new();
    loop {
        let page = log.search(&query).unwrap();
        found.extend(page.items.into_iter().map(|logged| logged.event.event_id));
        let Some(next) = page.next else { break };
        let late = event(&format!("late {}", found.len()), "t");
        Store::open(&log.file, &log.config, &Retention::default()).unwrap().append(&[late], noon()).unwrap();
        query.cursor = Some(next);
    }
    let newest_first: Vec<_> = names.into_iter().rev().collect();
    assert_eq!(found, newest_first);
}

#[test]
fn a_page_is_bounded_in_bytes_but_never_empty() {
    let sized = |name: &str| Event { body: vec![b' '; 600].into(), ..event(name, "t") };
    let events = [sized("a"), sized("b"), sized("c")];
    let log = Log::with(&events, Config { search_page_bytes: 100, ..Config::default() });
    let page = log.search(&Query { limit: 10, ..Query::default() }).unwrap();
    assert_eq!(page.items.len(), 1);
    let page = log.search(&Query { limit: 10, cursor: page.next, ..Query::default() }).unwrap();
    assert_eq!(page.items[0].event.event_id, "b");
}

#[test]
fn a_foreign_cursor_and_an_impossible_page_have_their_codes() {
    let log = Log::with(&[event("a", "t"), event("b", "t")], Config::default());
    let first = Query { limit: 1, ..Query::default() };
    let cursor = log.search(&first).unwrap().next;
    assert!(cursor.is_some());
    let other_log = Log::with(&[event("a", "t"), event("b", "t")], Config::default());
    let with_cursor = |query: Query| Query { cursor: cursor.clone(), ..query };
    let code = |log: &Log, query: Query| log.search(&query).unwrap_err().code();
    assert_eq!(code(&other_log, with_cursor(first.clone())), "invalid_cursor");
    assert_eq!(code(&log, with_cursor(Query { limit: 1, ..text("a") })), "invalid_cursor");
    assert_eq!(code(&log, Query { cursor: Some("x".to_owned()), ..first.clone() }), "invalid_cursor");
    assert_eq!(code(&log, Query { limit: 0, ..first.clone() }), "invalid_query");
    assert_eq!(code(&log, Query { limit: 1001, ..first.clone() }), "invalid_query");
    assert_eq!(code(&log, Query { limit: 1, ..text(&"x".repeat(2000)) }), "invalid_query");
    assert_eq!(log.search(&with_cursor(first)).unwrap().items.len(), 1);
}

#[test]
fn a_search_that_takes_too_long_is_ended_and_the_connection_goes_on() {
    let events: Vec<_> = (0..5000).map(|number| event(&number.to_string(), "t")).collect();
    let log = Log::with(&events, Config::default());
    let query = Query {
        limit: 1,
        filter: EventFilter { operations: vec!["never".to_owned()], ..EventFilter::default() },
        ..Query::default()
    };
    let mut connection = connection::reader(&log.file).unwrap();
    let error =
        within(&mut connection, Duration::ZERO, |transaction| search(transaction, &log.config, &query));
    assert_eq!(error.unwrap_err().code(), "search_too_broad");
    let page = within(&mut connection, LIMIT, |transaction| search(transaction, &log.config, &query));
    assert_eq!(page.unwrap().items, []);
}

#[test]
fn events_that_are_no_longer_held_are_not_found() {
    let events: Vec<_> = (0..10).map(|number| event(&format!("e{number}"), "t")).collect();
    let log = Log::with(&events, Config { retention_events: 2, ..Config::default() });
    let history = Query { table: Some("t".to_owned()), ..Query::default() };
    for query in [Query::default(), text("append"), tables(&["t"]), tables(&["*"]), history] {
        assert_eq!(log.ids(&query), ["e9", "e8"]);
    }
}

#[test]
fn no_search_sorts_and_none_reads_bodies_that_do_not_fit() {
    let log = Log::with(&[event("a", "t"), event("b", "u")], Config::default());
    let connection = connection::reader(&log.file).unwrap();
    let narrowed = Query {
        filter: EventFilter {
            operations: vec!["append".to_owned(), "delete".to_owned()],
            applications: vec!["spark".to_owned()],
            schema_changed: Some(true),
            ..EventFilter::default()
        },
        from: Some(noon()),
        to: Some(noon()),
        ..Query::default()
    };
    let with_text = Query { text: Some("two words".to_owned()), ..narrowed.clone() };
    for (query, driver) in [
        (Query::default(), "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (narrowed, "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (with_text, "SCAN event_words VIRTUAL TABLE INDEX"),
    ] {
        for (tables, driver) in [
            (Tables::All, driver),
            (Tables::Only(vec![1, 2]), driver),
            (
                Tables::Only(vec![1]),
                if query.text.is_none() { "events_by_table (table_id=? AND " } else { driver },
            ),
        ] {
            let statement = search::statement(&query, &Readable::All, &tables, 9).unwrap();
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql)).unwrap();
            let steps = plan.query_map(params_from_iter(statement.parameters), |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            let place = |part: &str| steps.iter().position(|step| step.contains(part));
            assert!(place(driver).is_some(), "{driver}: {steps:#?}");
            assert!(place(driver) < place("SEARCH bodies"), "{steps:#?}");
            assert_eq!(place("TEMP B-TREE"), None, "{steps:#?}");
        }
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    (
        "[ab\\.\\*\\?\\[é\u{0}A]{1,5}",
        proptest::option::of("[ab]{0,2}"),
        proptest::option::of("[ab]{0,2}"),
        proptest::option::of(any::<bool>()),
    )
        .prop_map(|(table, operation, source_application, schema_changed)| Event {
            source_application,
            body: r#"["x"]"#.into(),
            ..changed(event("", &table), |commit| {
                commit.operation = operation;
                commit.schema_changed = schema_changed;
            })
        })
}

fn any_filter() -> impl Strategy<Value = EventFilter> {
    (
        proptest::collection::vec("[ab\\.\\*\\?\\[\\]é\u{0}A]{0,5}", 0..3),
        proptest::collection::vec("[ab]{0,2}", 0..3),
        proptest::collection::vec("[ab]{0,2}", 0..3),
        proptest::option::of(any::<bool>()),
    )
        .prop_map(|(tables, operations, applications, schema_changed)| EventFilter {
            tables: tables.into_iter().map(Glob::new).collect(),
            operations,
            applications,
            schema_changed,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_history_finds_what_the_live_feed_shows(
        events in proptest::collection::vec(any_event(), 1..40),
        filters in proptest::collection::vec(any_filter(), 20),
    ) {
        let numbered = events.into_iter().enumerate();
        let events: Vec<_> =
            numbered.map(|(number, event)| Event { event_id: number.to_string(), ..event }).collect();
        let log = Log::with(&events, Config::default());
        for filter in filters {
            let expected: Vec<_> = events
                .iter()
                .rev()
                .filter(|event| filter.matches(event))
                .map(|event| event.event_id.clone())
                .collect();
            let with_text = Query { filter: filter.clone(), ..text("x") };
            prop_assert_eq!(log.ids(&Query { filter, ..Query::default() }), expected.clone());
            prop_assert_eq!(log.ids(&with_text), expected);
        }
    }

    #[test]
    fn no_text_is_a_syntax_error(typed in "\\PC{0,60}") {
        let log = Log::with(&[event("a", "t")], Config::default());
        let query = Query { limit: 1, ..text(&typed) };
        prop_assert_eq!(log.search(&query).err(), None);
        let since = Query { from: Some(Timestamp::MIN), ..query };
        prop_assert_eq!(log.search(&since).err(), None);
    }
}
