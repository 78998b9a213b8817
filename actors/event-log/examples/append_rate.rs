//! How fast the log appends, against the floor: bare inserts of the same bytes in transactions of the same size
//! with the same durability, in the same run. And how fast a log of a million events is searched, and checked after an unclean
//! stop. Prints
//! Markdown.
//!
//! `cargo run --release -p freshet-event-log --example append_rate`

use std::path::Path;
use std::time::{Duration, Instant};

use freshet_event_log::{
    Config, DirectoryLock, LOG_FILE, Query, Retention, SearchError, SqliteEventLog, TablesQuery, open,
};
use freshet_feed::event::{Summary, iceberg_mutation};
use freshet_feed::filter::Glob;
use freshet_feed::port::EventLog;
use freshet_feed::{ChannelName, Commit, Event, EventFilter};
use freshet_kernel::{SupervisorSpec, start};
use jiff::{Timestamp, ToSpan};

const ROUNDS: usize = 3;
const LARGE: usize = 1_000_000;
const TABLES: usize = 200;

fn main() {
    let parent = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    println!("| body | batch | floor, events/s | log, events/s | floor ÷ log |");
    println!("|---:|---:|---:|---:|---:|");
    for body_bytes in [300, 600] {
        for (batch, count) in [(1, 500), (100, 20_000), (1000, 100_000)] {
            let (mut floors, mut logs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let events = events(count, body_bytes);
                floors.push(floor(&parent, &events, batch));
                logs.push(log(&parent, events, batch));
            }
            let (floor, log) = (median(floors), median(logs));
            println!("| {body_bytes} B | {batch} | {floor:.0} | {log:.0} | {:.1} |", floor / log);
        }
    }
    large(&parent);
}

/// Commits of many tables with random ids, as writers make them.
fn events(count: usize, body_bytes: usize) -> Vec<Event> {
    let now = Timestamp::now();
    (0..count)
        .map(|number| {
            let event_id = format!("{:08x}-{:04x}-4{:03x}-{:016x}", fastrand::u32(..), fastrand::u16(..), fastrand::u16(..4096), fastrand::u64(..));
            let snapshot_id = fastrand::i64(1..);
            let table = format!("production.reporting.table_{}", fastrand::usize(..TABLES));
            let timestamp = now - i64::try_from(count - number).unwrap_or_default().milliseconds();
            let mut body = format!(
                r#"{{"eventId":"{event_id}","eventTimestamp":"{timestamp}","tableIdentifier":"{table}","eventType":"COMMIT_SUCCESS","payload":{{"operation":"append","snapshotId":{snapshot_id},"summary":{{"added-data-files":"12","added-records":"{number}"}}"#
            );
            let manifest = format!(r#","manifestList":"s3://lake/{table}/metadata/snap-{snapshot_id}-1-{event_id}.avro""#);
            if body_bytes > 500 {
                body.push_str(&manifest);
            }
            while body.len() + 2 < body_bytes {
                body.push(' ');
            }
            body.push_str("}}");
            Event {
                event_id,
                channel: ChannelName::iceberg(),
                name: iceberg_mutation(),
                key: Some(table.clone()),
                room: None,
                timestamp,
                source_application: Some("spark-etl".to_owned()),
                commit: Some(Commit {
                    table,
                    event_type: "COMMIT_SUCCESS".to_owned(),
                    operation: Some("append".to_owned()),
                    snapshot_id: Some(snapshot_id),
                    schema_changed: Some(number % 1000 == 0),
                    summary: Summary {
                        added_records: Some(number as i64),
                        added_data_files: Some(12),
                        ..Summary::default()
                    },
                }),
                body: body.into(),
            }
        })
        .collect()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn floor(parent: &Path, events: &[Event], batch: usize) -> f64 {
    let directory = tempfile::tempdir_in(parent).expect("a directory for the floor");
    let insert = || -> rusqlite::Result<Duration> {
        let mut connection = rusqlite::Connection::open(directory.path().join("floor.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute("CREATE TABLE bodies (offset INTEGER PRIMARY KEY, body BLOB NOT NULL)", [])?;
        let start = Instant::now();
        for chunk in events.chunks(batch) {
            let transaction = connection.transaction()?;
            {
                let mut statement = transaction.prepare_cached("INSERT INTO bodies (body) VALUES (?1)")?;
                for event in chunk {
                    statement.execute([event.body.as_ref()])?;
                }
            }
            transaction.commit()?;
        }
        Ok(start.elapsed())
    };
    events.len() as f64 / insert().expect("bare inserts").as_secs_f64()
}

fn log(parent: &Path, events: Vec<Event>, batch: usize) -> f64 {
    with_log(parent, async |log| {
        let count = events.len();
        let batches: Vec<Vec<Event>> = events.chunks(batch).map(<[Event]>::to_vec).collect();
        let start = Instant::now();
        for batch in batches {
            log.append(batch).await.expect("an append");
        }
        count as f64 / start.elapsed().as_secs_f64()
    })
}

fn with_log<T>(parent: &Path, work: impl AsyncFnOnce(SqliteEventLog) -> T) -> T {
    let directory = tempfile::tempdir_in(parent).expect("a directory for the log");
    in_directory(directory.path(), work)
}

fn in_directory<T>(directory: &Path, work: impl AsyncFnOnce(SqliteEventLog) -> T) -> T {
    actix_rt::System::new().block_on(async {
        let lock = DirectoryLock::acquire(directory).expect("the lock");
        let config = Config { search_time_limit_millis: 60_000, ..Config::default() };
        let (specification, log) = open(&config, &Retention::default(), &lock).expect("a new log");
        let tree = start(SupervisorSpec::new("root").child(specification));
        let answer = work(log).await;
        tree.shutdown().await;
        answer
    })
}

/// Opens a log as after an unclean stop: the whole file is checked.
fn check(directory: &Path) {
    let file = directory.join(LOG_FILE);
    let size = std::fs::metadata(&file).map_or(0, |metadata| metadata.len()) as f64 / f64::from(1 << 30);
    let mark = || rusqlite::Connection::open(&file)?.execute("UPDATE log SET clean = 0", []);
    mark().expect("the mark of an unclean stop");
    let lock = DirectoryLock::acquire(directory).expect("the lock");
    let start = Instant::now();
    open(&Config::default(), &Retention::default(), &lock).expect("a sound log");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "\nChecked after an unclean stop: {size:.2} GiB in {seconds:.1} s, {:.0} s for a GiB.",
        seconds / size
    );
}

fn large(parent: &Path) {
    let directory = tempfile::tempdir_in(parent).expect("a directory for the log");
    in_directory(directory.path(), async |log| {
        let start = Instant::now();
        let mut bytes = 0;
        for part in 0..LARGE / 1000 {
            let events = events(1000, if part % 2 == 0 { 300 } else { 600 });
            bytes += events.iter().map(|event| event.body.len()).sum::<usize>();
            log.append(events).await.expect("an append");
        }
        let appended = start.elapsed().as_secs_f64();
        let on_disk = log.statistics().disk_bytes as f64 / bytes as f64;
        println!(
            "\n{LARGE} events of {TABLES} tables, appended in {appended:.0} s; the files take {on_disk:.1} times the bodies.\n"
        );
        println!("| search for 100 events | milliseconds | found |\n|---|---:|---:|");
        let text = |text: &str| Query { text: Some(text.to_owned()), ..Query::default() };
        let filter = |filter: EventFilter| Query { filter, ..Query::default() };
        let globs =
            |pattern: &str| EventFilter { tables: vec![Glob::new(pattern)], ..EventFilter::default() };
        for (name, query) in [
            ("everything", Query::default()),
            (
                "history of one table",
                Query { table: Some("production.reporting.table_7".to_owned()), ..Query::default() },
            ),
            ("pattern that fits one table", filter(globs("*_77"))),
            ("pattern that fits every table", filter(globs("production.*"))),
            ("pattern that fits none", filter(globs("staging.*"))),
            (
                "operation that never was",
                filter(EventFilter { operations: vec!["delete".to_owned()], ..EventFilter::default() }),
            ),
            ("schema changes", filter(EventFilter { schema_changed: Some(true), ..EventFilter::default() })),
            ("time before all", Query { to: Some(Timestamp::UNIX_EPOCH), ..Query::default() }),
            ("a word of every event", text("append ")),
            ("beginning of a word of every event", text("prod")),
            ("three letters that begin a word of every event", text("pro")),
            ("three digits that begin many words", text("123")),
            ("one letter", text("a")),
            ("two words", text("reporting table_77")),
            ("a word that never was", text("nowhere")),
        ] {
            let start = Instant::now();
            let page = log.search(Query { limit: 100, ..query }).await;
            report(name, start, page.map(|page| page.items.len()));
        }
        let start = Instant::now();
        let query =
            TablesQuery { scope: None, tables: Vec::new(), cursor: None, limit: 100, now: Timestamp::now() };
        let page = log.tables(query).await;
        report(
            "summaries of 100 tables, all commits within the day",
            start,
            page.map(|page| page.items.len()),
        );
    });
    check(directory.path());
}

fn report(name: &str, start: Instant, found: Result<usize, SearchError>) {
    let millis = start.elapsed().as_secs_f64() * 1000.0;
    match found {
        Ok(found) => println!("| {name} | {millis:.1} | {found} |"),
        Err(error) => println!("| {name} | {millis:.1} | {} |", error.code()),
    }
}
