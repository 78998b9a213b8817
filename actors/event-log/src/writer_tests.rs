use freshet_feed::port::{EventLog, PageLimit};
use freshet_kernel::{NodeState, SupervisorSpec, Tree};

use super::*;
use crate::sample::{commit, event};
use crate::{DirectoryLock, SqliteEventLog};

#[derive(Message)]
#[rtype(result = "()")]
struct LimitPages(Option<i64>);

impl Handler<LimitPages> for Writer {
    type Result = ();

    fn handle(&mut self, LimitPages(more): LimitPages, _: &mut Context<Self>) {
        self.store.as_ref().unwrap().limit_pages(more);
    }
}

/// What the timer does.
#[derive(Message)]
#[rtype(result = "()")]
struct Maintain;

impl Handler<Maintain> for Writer {
    type Result = ();

    fn handle(&mut self, _: Maintain, ctx: &mut Context<Self>) {
        self.maintain(ctx);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Panic;

impl Handler<Panic> for Writer {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut Context<Self>) {
        panic!("as the test wants it");
    }
}

struct Running {
    log: SqliteEventLog,
    address: freshet_kernel::Address<Writer>,
    tree: Tree,
    _lock: DirectoryLock,
}

/// Runs a log in a tree; the test stops it or leaves it to the end of its system.
fn run(directory: &std::path::Path, config: &Config) -> Running {
    let lock = DirectoryLock::acquire(directory).unwrap();
    let (specification, log) = crate::open(config, &Retention::default(), &lock).unwrap();
    let address = specification.address();
    let tree = freshet_kernel::start(
        SupervisorSpec::new("root").intensity(5, Duration::from_secs(5)).child(specification),
    );
    Running { log, address, tree, _lock: lock }
}

/// The code of the writer's outage, once its supervisor has noticed that it is up.
async fn code(tree: &Tree) -> Option<&'static str> {
    loop {
        match tree.snapshot().children[0].state {
            NodeState::Degraded { code, .. } => return Some(code),
            NodeState::Starting => tokio::task::yield_now().await,
            _ => return None,
        }
    }
}

async fn ids(log: &SqliteEventLog) -> Vec<String> {
    let held = log.read_after(0, PageLimit { events: 1000, bytes: usize::MAX }).await.unwrap();
    held.into_iter().map(|logged| logged.event.event_id).collect()
}

#[test]
fn a_full_disk_is_a_state_in_the_tree_and_ends_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    actix_rt::System::new().block_on(async {
        let Running { log, address, tree, _lock } = run(directory.path(), &Config::default());
        log.append(vec![event("before", "t")]).await.unwrap();
        let large = vec![Event { body: vec![b'x'; 50_000].into(), ..commit("large", "t", 1) }];

        address.send(LimitPages(Some(2))).await.unwrap();
        let error = log.append(large.clone()).await.unwrap_err();
        assert_eq!(error.code(), "store_unavailable");
        address.send(Maintain).await.unwrap();
        assert_eq!(code(&tree).await, Some("store_unavailable"));
        assert_eq!(ids(&log).await, ["before"]);
        let statistics = log.statistics();
        assert_eq!((statistics.appended, statistics.failed_appends, statistics.held_events), (1, 1, 1));

        // There is room again, and nothing is appended: maintenance finds it out.
        address.send(LimitPages(None)).await.unwrap();
        address.send(Maintain).await.unwrap();
        assert_eq!(code(&tree).await, None);
        log.append(large).await.unwrap();
        assert_eq!(ids(&log).await, ["before", "large"]);
        assert_eq!(tree.snapshot().children[0].restarts, 0);
        tree.shutdown().await;
    });
}

#[test]
fn a_file_that_goes_away_is_an_outage_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    actix_rt::System::new().block_on(async {
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        let (specification, log) = crate::open(&Config::default(), &Retention::default(), &lock).unwrap();
        let address = specification.address();
        // The directory is out of reach before the writer has opened its file.
        let away = directory.path().with_extension("away");
        std::fs::rename(directory.path(), &away).unwrap();
        let tree = freshet_kernel::start(SupervisorSpec::new("root").child(specification));
        let error = log.append(vec![event("a", "t")]).await.unwrap_err();
        assert_eq!(error.code(), "store_unavailable");
        assert_eq!(log.bounds().await.unwrap_err().code(), "store_unavailable");
        assert_eq!(code(&tree).await, Some("store_unavailable"));

        std::fs::rename(&away, directory.path()).unwrap();
        address.send(Maintain).await.unwrap();
        assert_eq!(code(&tree).await, None);
        log.append(vec![event("a", "t")]).await.unwrap();
        assert_eq!(log.bounds().await.unwrap().last, 1);
        tree.shutdown().await;
        assert_eq!(log.append(vec![event("b", "t")]).await.unwrap_err().code(), "stopping");
    });
}

#[test]
fn a_panic_loses_nothing_and_the_log_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    actix_rt::System::new().block_on(async {
        let Running { log, address, tree, _lock } = run(directory.path(), &Config::default());
        log.append(vec![event("a", "t")]).await.unwrap();
        assert!(address.send(Panic).await.is_err());
        log.append(vec![event("b", "t"), event("a", "t")]).await.unwrap();
        assert_eq!(ids(&log).await, ["a", "b"]);
        assert_eq!(tree.snapshot().children[0].restarts, 1);
        let statistics = log.statistics();
        assert_eq!((statistics.appended, statistics.duplicates), (2, 1));
        tree.shutdown().await;
    });
}

#[test]
fn after_an_orderly_stop_the_next_start_finds_a_clean_file_with_all_events() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(crate::LOG_FILE);
    let clean = || -> bool {
        let connection = crate::connection::reader(&file).unwrap();
        connection.query_row("SELECT clean FROM log", [], |row| row.get(0)).unwrap()
    };
    actix_rt::System::new().block_on(async {
        let Running { log, tree, _lock, .. } = run(directory.path(), &Config::default());
        log.append(vec![event("a", "t")]).await.unwrap();
        assert!(!clean());
        tree.shutdown().await;
        assert!(clean());
    });
    actix_rt::System::new().block_on(async {
        let Running { log, tree, _lock, .. } = run(directory.path(), &Config::default());
        assert_eq!(ids(&log).await, ["a"]);
        log.append(vec![event("b", "t")]).await.unwrap();
        assert_eq!(log.locate("b".to_owned()).await, Ok(Some(2)));
        tree.shutdown().await;
    });
}

#[test]
fn more_readers_than_connections_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    actix_rt::System::new().block_on(async {
        let config = Config { readers: 2, ..Config::default() };
        let Running { log, tree, _lock, .. } = run(directory.path(), &config);
        log.append((0..50).map(|number| event(&number.to_string(), "t")).collect()).await.unwrap();
        let searches = (0..20).map(|_| log.search(crate::Query { limit: 10, ..crate::Query::default() }));
        for page in futures_util::future::join_all(searches).await {
            assert_eq!(page.unwrap().items.len(), 10);
        }
        let query =
            crate::TablesQuery { scope: None, tables: vec![], cursor: None, limit: 1, now: Timestamp::now() };
        assert_eq!(log.tables(query).await.unwrap().items[0].last_commit.offset, 50);
        tree.shutdown().await;
    });
}

#[test]
fn a_projection_is_durable_counted_and_searched() {
    let directory = tempfile::tempdir().unwrap();
    actix_rt::System::new().block_on(async {
        let Running { log, tree, _lock, .. } = run(directory.path(), &Config::default());
        let shared = |offset: u64| Logged {
            offset,
            appended_at: Timestamp::now(),
            event: event(&format!("e{offset}"), "t"),
        };
        assert_eq!(log.project(Epoch(9), vec![shared(4), shared(5)]).await, Ok(2));
        assert_eq!(log.project(Epoch(9), vec![shared(5), shared(6)]).await, Ok(1));
        let bounds = log.bounds().await.unwrap();
        assert_eq!((bounds.epoch, bounds.first, bounds.last), (Epoch(9), 4, 6));
        let page = log.search(crate::Query { limit: 10, ..crate::Query::default() }).await.unwrap();
        assert_eq!(page.items.len(), 3);
        let statistics = log.statistics();
        assert_eq!((statistics.appended, statistics.held_events, statistics.last_offset), (3, 3, 6));
        tree.shutdown().await;
        assert_eq!(log.project(Epoch(9), vec![shared(7)]).await.unwrap_err().code(), "stopping");
    });
    actix_rt::System::new().block_on(async {
        let Running { log, tree, _lock, .. } = run(directory.path(), &Config::default());
        assert_eq!(ids(&log).await, ["e4", "e5", "e6"]);
        tree.shutdown().await;
    });
}
