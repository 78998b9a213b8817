use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use freshet_feed::channel::{Config as Channel, Format, Read};
use freshet_feed::filter::Glob;
use freshet_feed::port::NewestByKey;
use freshet_feed::{Channels, Event, EventFilter, Principal};
use jiff::ToSpan;
use proptest::prelude::*;
use rusqlite::params_from_iter;

use super::*;
use crate::sample::{changed, commit, event, in_room, message, noon};
use crate::search::{self, Tables};
use crate::store::Store;
use crate::{
    Added, Config, Page, Query, Retention, SearchError, TableSummary, TablesQuery, connection, history,
    newest, tables,
};

struct Log {
    _directory: tempfile::TempDir,
    file: PathBuf,
    store: Store,
}

impl Log {
    fn with(events: &[Event]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(connection::LOG_FILE);
        connection::prepare(&file).unwrap();
        let mut store = Store::open(&file, &Config::default(), &Retention::default()).unwrap();
        store.append(events, noon()).unwrap();
        Self { _directory: directory, file, store }
    }

    fn search(&self, query: &Query) -> Result<(Vec<String>, Option<String>), SearchError> {
        let mut connection = connection::reader(&self.file).unwrap();
        let page = history::within(&mut connection, Duration::from_secs(60), |transaction| {
            history::search(transaction, &Config::default(), query)
        })?;
        Ok((page.items.into_iter().map(|logged| logged.event.event_id).collect(), page.next))
    }

    fn ids(&self, query: Query) -> Vec<String> {
        self.search(&Query { limit: 100, ..query }).unwrap().0
    }

    fn tables(&self, query: &TablesQuery) -> Result<Page<TableSummary>, SearchError> {
        let mut connection = connection::reader(&self.file).unwrap();
        history::within(&mut connection, Duration::from_secs(60), |transaction| {
            tables::tables(transaction, &Config::default(), query)
        })
    }
}

/// What somebody may read of the channels `iceberg` and `commits`, whose rooms are tenants, and of `stock`, whose rooms
/// are open.
fn scope(tenant: &str, channels: &[&str], rooms: &[&str]) -> Option<Scope> {
    let channel = |name: &str, format: Format, rooms_are_tenants: bool| Channel {
        name: name.to_owned(),
        format,
        room: "/tenant".to_owned(),
        rooms_are_tenants,
        read: Read::Authenticated,
        ..Channel::default()
    };
    let declared = Channels::new(&[
        channel("iceberg", Format::Iceberg, true),
        channel("commits", Format::Iceberg, true),
        channel("stock", Format::Json, false),
    ]);
    let principal = Principal {
        subject: Some("ada".into()),
        tenant: Some(tenant.into()),
        is_administrator: tenant.is_empty(),
        ..Principal::default()
    };
    Some(declared.scope(&principal, channels.iter().copied(), rooms.iter().copied()).unwrap())
}

/// Two tenants that do the same to tables of the same name, and what belongs to nobody.
fn two_tenants() -> Log {
    Log::with(&[
        in_room("north", event("north 1", "prod.orders")),
        in_room("south", event("south 1", "prod.orders")),
        in_room("south", event("south 2", "south.secrets")),
        event("nobody's", "prod.orders"),
        in_room("north", event("north 2", "prod.orders")),
        message("north 3", "stock", Some("north"), Some("a")),
    ])
}

#[test]
fn another_tenants_events_are_not_found_in_whatever_way_is_searched() {
    let log = two_tenants();
    let north = || Query { scope: scope("north", &["iceberg"], &[]), ..Query::default() };
    let own = ["north 2", "north 1"];
    assert_eq!(log.ids(north()), own);
    assert_eq!(log.ids(Query { text: Some("append".to_owned()), ..north() }), own);
    assert_eq!(log.ids(Query { text: Some("south".to_owned()), ..north() }), [""; 0]);
    assert_eq!(log.ids(Query { table: Some("prod.orders".to_owned()), ..north() }), own);
    assert_eq!(log.ids(Query { table: Some("south.secrets".to_owned()), ..north() }), [""; 0]);
    let filter = EventFilter { tables: vec![Glob::new("*")], ..EventFilter::default() };
    assert_eq!(log.ids(Query { filter, ..north() }), own);
    let filter = EventFilter { operations: vec!["append".to_owned()], ..EventFilter::default() };
    assert_eq!(log.ids(Query { filter, from: Some(noon()), ..north() }), own);
    let nobody = Query { scope: scope("west", &["iceberg", "commits"], &[]), ..Query::default() };
    assert_eq!(log.ids(nobody), [""; 0]);
}

#[test]
fn a_search_holds_what_its_channels_and_rooms_hold() {
    let log = two_tenants();
    for (channels, rooms, expected) in [
        (&["iceberg"][..], &[][..], vec!["north 2", "nobody's", "south 2", "south 1", "north 1"]),
        (&["iceberg", "stock"], &["north"], vec!["north 3", "north 2", "north 1"]),
        (&["iceberg"], &["north", "south"], vec!["north 2", "south 2", "south 1", "north 1"]),
        (&["stock"], &[], vec!["north 3"]),
        (&["commits"], &[], vec![]),
        (&["iceberg"], &["north' OR '1' = '1"], vec![]),
    ] {
        let query = Query { scope: scope("", channels, rooms), ..Query::default() };
        assert_eq!(log.ids(query), expected, "{channels:?} {rooms:?}");
    }
    assert_eq!(log.ids(Query::default()).len(), 6);
}

#[test]
fn pages_of_one_tenant_do_not_go_on_into_anothers() {
    let mut log = two_tenants();
    let north = Query { scope: scope("north", &["iceberg"], &[]), limit: 1, ..Query::default() };
    let south = Query { scope: scope("south", &["iceberg"], &[]), ..north.clone() };
    let (first, next) = log.search(&north).unwrap();
    assert_eq!(first, ["north 2"]);
    let foreign = Query { cursor: next.clone(), ..south };
    assert_eq!(log.search(&foreign).unwrap_err(), SearchError::InvalidCursor);
    log.store.append(&[in_room("south", event("south 3", "prod.orders"))], noon()).unwrap();
    assert_eq!(log.search(&Query { cursor: next, ..north }).unwrap(), (vec!["north 1".to_owned()], None));
}

#[test]
fn the_tables_of_a_tenant_count_its_own_commits_only() {
    let adding =
        |event: Event, records: i64| changed(event, |commit| commit.summary.added_records = Some(records));
    let schema_change = changed(event("south 3", "prod.orders"), |commit| commit.schema_changed = Some(true));
    let log = Log::with(&[
        in_room("north", adding(commit("north 1", "prod.orders", 1), 5)),
        in_room("south", adding(commit("south 1", "prod.orders", 2), 70)),
        in_room("south", commit("south 2", "south.secrets", 3)),
        in_room("south", schema_change),
        Event {
            channel: freshet_feed::ChannelName::new("commits").unwrap(),
            ..in_room("north", commit("north 2", "prod.orders", 1))
        },
        message("message", "stock", Some("north"), Some("prod.orders")),
    ]);
    let of = |tenant: &str, channels: &[&str], rooms: &[&str]| TablesQuery {
        scope: scope(tenant, channels, rooms),
        tables: Vec::new(),
        cursor: None,
        limit: 10,
        now: noon(),
    };
    let items = log.tables(&of("north", &["iceberg"], &[])).unwrap().items;
    let [orders] = &items[..] else { panic!("one table: {items:?}") };
    assert_eq!((orders.table.as_str(), orders.last_commit.event_id.as_str()), ("prod.orders", "north 1"));
    assert_eq!((orders.commits_last_hour, orders.commits_last_day), (1, 1));
    assert_eq!(orders.records_added_last_day, Added { sum: Some(5), commits_without: 0 });
    assert_eq!(orders.last_schema_change, None);

    // Who reads several rooms or channels sees one table with all of them.
    let items = log.tables(&of("", &["iceberg"], &[])).unwrap().items;
    let [orders, secrets] = &items[..] else { panic!("two tables: {items:?}") };
    assert_eq!((orders.commits_last_day, orders.last_commit.event_id.as_str()), (3, "south 3"));
    assert_eq!(orders.records_added_last_day, Added { sum: Some(75), commits_without: 1 });
    assert_eq!(orders.last_schema_change, Some(noon()));
    assert_eq!(secrets.table, "south.secrets");
    let both_channels = log.tables(&of("north", &["iceberg", "commits"], &[])).unwrap().items;
    assert_eq!((both_channels[0].commits_last_day, both_channels[0].last_commit.offset), (2, 5));
    assert_eq!(log.tables(&of("", &["stock"], &[])).unwrap().items, []);
    assert_eq!(log.tables(&of("west", &["iceberg"], &[])).unwrap().items, []);
}

#[test]
fn table_pages_of_one_tenant_do_not_go_on_into_anothers() {
    let events: Vec<_> = ["a", "b", "c"]
        .iter()
        .flat_map(|table| {
            ["north", "south"]
                .map(|room| in_room(room, event(&format!("{room} {table}"), &format!("{room}.{table}"))))
        })
        .collect();
    let log = Log::with(&events);
    let mut query = TablesQuery {
        scope: scope("south", &["iceberg"], &[]),
        tables: Vec::new(),
        cursor: None,
        limit: 2,
        now: noon(),
    };
    let first = log.tables(&query).unwrap();
    let north =
        TablesQuery { scope: scope("north", &["iceberg"], &[]), cursor: first.next.clone(), ..query.clone() };
    assert_eq!(log.tables(&north).unwrap_err(), SearchError::InvalidCursor);
    query.cursor = first.next;
    let second = log.tables(&query).unwrap();
    let names: Vec<_> =
        first.items.iter().chain(&second.items).map(|summary| summary.table.as_str()).collect();
    assert_eq!((names, second.next), (vec!["south.a", "south.b", "south.c"], None));
}

#[test]
fn the_same_commit_of_two_tenants_is_two() {
    let log = Log::with(&[
        in_room("north", commit("by north", "prod.orders", 7)),
        in_room("south", commit("by south", "prod.orders", 7)),
        in_room(
            "south",
            Event { timestamp: noon() + 1.seconds(), ..commit("by south again", "prod.orders", 7) },
        ),
    ]);
    assert_eq!(log.ids(Query::default()), ["by south", "by north"]);
}

#[test]
fn every_scope_makes_a_search_another_one() {
    let scopes = [
        None,
        scope("", &["iceberg"], &[]),
        scope("", &["iceberg", "stock"], &[]),
        scope("", &["iceberg"], &["north"]),
        scope("", &["iceberg"], &["north", "south"]),
        scope("", &["iceberg"], &["stock"]),
    ];
    let mut identities: Vec<_> = scopes.iter().map(|scope| identity(scope.as_ref())).collect();
    identities.sort();
    identities.dedup();
    assert_eq!(identities.len(), scopes.len());
}

#[test]
fn a_narrow_scope_is_read_from_an_index_and_nothing_is_sorted() {
    let log = two_tenants();
    let connection = connection::reader(&log.file).unwrap();
    for (channels, rooms, driver) in [
        (
            &["iceberg"][..],
            &["north"][..],
            "USING INDEX events_by_room (channel_id=? AND room=? AND rowid>? AND rowid<?)",
        ),
        (
            &["iceberg"],
            &["north", "south"],
            "USING INDEX events_by_channel (channel_id=? AND rowid>? AND rowid<?)",
        ),
        (&["iceberg"], &[], "USING INDEX events_by_channel (channel_id=? AND rowid>? AND rowid<?)"),
        (&["iceberg", "stock"], &["north"], "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ] {
        let readable = Readable::of(&connection, scope("", channels, rooms).as_ref()).unwrap();
        let statement = search::statement(&Query::default(), &readable, &Tables::All, 9).unwrap();
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql)).unwrap();
        let steps = plan.query_map(params_from_iter(statement.parameters), |row| row.get(3)).unwrap();
        let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
        assert!(steps.iter().any(|step| step.contains(driver)), "{driver}: {steps:#?}");
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:#?}");
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let channel = proptest::sample::select(vec!["iceberg", "commits", "stock"]);
    let short = || proptest::option::of("[ab]{0,1}");
    (channel, short(), short(), "[tu]").prop_map(|(channel, room, key, table)| {
        let plain = message("", channel, room.as_deref(), key.as_deref());
        let commit = (channel != "stock").then(|| event("", &table).commit).flatten();
        Event { commit, ..plain }
    })
}

fn any_scope() -> impl Strategy<Value = Option<Scope>> {
    let channels = proptest::sample::subsequence(vec!["iceberg", "commits", "stock"], 1..=3);
    let rooms = proptest::sample::subsequence(vec!["a", "b", "c"], 0..=3);
    (channels, rooms).prop_map(|(channels, rooms)| scope("", &channels, &rooms))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn history_tables_and_states_hold_what_the_scope_holds(
        events in proptest::collection::vec(any_event(), 1..40),
        scopes in proptest::collection::vec(any_scope(), 20),
        in_table in any::<bool>(),
    ) {
        let numbered = events.into_iter().enumerate();
        let events: Vec<_> =
            numbered.map(|(number, event)| Event { event_id: number.to_string(), ..event }).collect();
        let log = Log::with(&events);
        let mut connection = connection::reader(&log.file).unwrap();
        for scope in scopes {
            let held = |event: &&Event| scope.as_ref().unwrap().holds(event);
            let table = in_table.then(|| "t".to_owned());
            let wanted = |event: &&Event| held(event) && (!in_table || event.table() == Some("t"));
            let expected: Vec<_> = events.iter().rev().filter(wanted).map(|event| event.event_id.clone()).collect();
            prop_assert_eq!(log.ids(Query { scope: scope.clone(), table, ..Query::default() }), expected);

            let query = TablesQuery { scope: scope.clone(), tables: vec![], cursor: None, limit: 9, now: noon() };
            let listed = log.tables(&query).unwrap().items.into_iter();
            let listed: Vec<_> = listed.map(|summary| (summary.table, summary.commits_last_day)).collect();
            let mut counted: BTreeMap<String, u64> = BTreeMap::new();
            for table in events.iter().filter(held).filter_map(Event::table) {
                *counted.entry(table.to_owned()).or_default() += 1;
            }
            prop_assert_eq!(listed, counted.into_iter().collect::<Vec<_>>());

            for (channel, rooms) in scope.as_ref().unwrap().channels() {
                let request = NewestByKey {
                    channel: channel.clone(),
                    rooms: rooms.clone(),
                    appended_since: None,
                    max_keys: 9,
                };
                let state = newest::by_key(&connection.transaction().unwrap(), &request).unwrap();
                let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
                for (offset, event) in (1..).zip(&events) {
                    if let Some(key) = &event.key
                        && event.channel == *channel
                        && rooms.hold(event.room.as_deref())
                    {
                        newest.insert(key, offset);
                    }
                }
                let mut offsets: Vec<_> = newest.into_values().collect();
                offsets.sort_unstable();
                prop_assert_eq!(state.offsets, offsets);
            }
        }
    }
}
