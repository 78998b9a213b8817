//! What sources and worker threads can rely on.

#![allow(clippy::unwrap_used, reason = "the support of tests fails as tests do")]

#[path = "support/memory_log.rs"]
mod memory_log;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use freshet_broadcaster::{Backlog, Broadcaster, BroadcasterHandle, Config, Live};
use freshet_feed::Position;
use freshet_feed::port::{Announce, EventLog, Outcome, Publisher, StoreError};
use freshet_kernel::{ChildSpec, SupervisorSpec, Tree, task};
use memory_log::{EPOCH, Failure, MemoryLog, event, logged};

struct Room {
    log: Arc<MemoryLog>,
    live: Arc<Live>,
    backlog: Backlog,
    handle: BroadcasterHandle,
    tree: Tree,
}

fn start(config: Config) -> Room {
    start_on(config, MemoryLog::new())
}

fn start_on(config: Config, log: Arc<MemoryLog>) -> Room {
    start_as(Broadcaster::spec, config, log)
}

/// A room whose log others append to as well.
fn start_followed() -> Room {
    start_as(Broadcaster::spec_followed, Config::default(), MemoryLog::new())
}

type Specification = fn(Config, Arc<dyn EventLog>, Arc<Live>) -> ChildSpec<Broadcaster>;

fn start_as(specification: Specification, config: Config, log: Arc<MemoryLog>) -> Room {
    let live = Live::new(&config);
    let spec = specification(config.clone(), log.clone(), Arc::clone(&live));
    let handle = BroadcasterHandle::new(spec.address());
    let tree = freshet_kernel::start(SupervisorSpec::new("root").child(spec));
    let backlog = Backlog::new(&config, Arc::clone(&live), log.clone());
    Room { log, live, backlog, handle, tree }
}

fn accepted(offset: u64) -> Outcome {
    Outcome::Accepted { position: Position { epoch: EPOCH, offset } }
}

impl Room {
    async fn announced(&self, offset: u64) {
        let is_there =
            |position: &Option<Position>| position.is_some_and(|position| position.offset >= offset);
        self.live.watch().wait_for(is_there).await.unwrap();
    }

    async fn ids_after(&self, mut cursor: u64) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(batch) = self.backlog.after(cursor).await.unwrap() {
            for rendered in &batch.events()[batch.range(cursor, u64::MAX)] {
                ids.push(rendered.event.event_id.clone());
            }
            cursor = batch.last();
        }
        ids
    }
}

#[actix_rt::test]
async fn each_publisher_gets_the_outcomes_of_its_own_events() {
    let room = start(Config::default());
    assert_eq!(room.handle.publish(vec![event(1), event(2)]).await, Ok(vec![accepted(1), accepted(2)]));
    assert_eq!(
        room.handle.publish(vec![event(2), event(3)]).await,
        Ok(vec![Outcome::Duplicate, accepted(3)])
    );
    assert_eq!(room.handle.publish(vec![]).await, Ok(vec![]));
    room.announced(3).await;
    assert_eq!(room.ids_after(0).await, ["e1", "e2", "e3"]);
    assert_eq!(room.live.counters().published.load(Relaxed), 3);
    assert_eq!(room.live.counters().duplicates.load(Relaxed), 1);
    assert_eq!(room.log.reads.load(SeqCst), 1, "only the end of the log was looked for");
}

#[actix_rt::test]
async fn what_comes_during_an_append_shares_the_next_one() {
    let room = start(Config::default());
    room.handle.publish(vec![event(1)]).await.unwrap();
    room.log.open.send_replace(false);
    let publishers: Vec<_> = (2..=9)
        .map(|number| {
            let handle = room.handle.clone();
            task::spawn("publisher", async move { handle.publish(vec![event(number)]).await })
        })
        .collect();
    while room.log.appends.load(SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    // The others are gathered when the mailbox has been seen by the actor.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    room.log.open.send_replace(true);
    for (publisher, number) in publishers.into_iter().zip(2..) {
        assert_eq!(publisher.await.unwrap(), Ok(vec![accepted(number)]));
    }
    assert_eq!(room.log.appends.load(SeqCst), 3, "one, one that was held up, and one for all the others");
}

#[actix_rt::test]
async fn over_the_bound_the_mailbox_waits() {
    let room = start(Config { gather_max_events: 2, ..Config::default() });
    room.handle.publish(vec![event(1)]).await.unwrap();
    room.log.open.send_replace(false);
    let publishers: Vec<_> = (2..=8)
        .map(|number| {
            let handle = room.handle.clone();
            task::spawn("publisher", async move { handle.publish(vec![event(number)]).await })
        })
        .collect();
    while room.log.appends.load(SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    room.log.open.send_replace(true);
    for (publisher, number) in publishers.into_iter().zip(2..) {
        assert_eq!(publisher.await.unwrap(), Ok(vec![accepted(number)]));
    }
    let sizes = room.log.append_sizes.lock().unwrap().clone();
    assert_eq!(sizes.iter().sum::<usize>(), 8);
    assert!(sizes.iter().all(|size| *size <= 2), "{sizes:?}");
    assert!(sizes.contains(&2), "{sizes:?}");
    room.announced(8).await;
    assert_eq!(room.ids_after(0).await.len(), 8);
}

#[actix_rt::test]
async fn a_failed_append_is_answered_and_heals() {
    let room = start(Config::default());
    room.handle.publish(vec![event(1)]).await.unwrap();
    room.log.fail(Some(Failure::Before));
    let error = room.handle.publish(vec![event(2)]).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable");
    let tree = serde_json::to_string(&room.tree.snapshot()).unwrap();
    assert!(tree.contains("store_unavailable"), "{tree}");
    room.log.fail(None);
    assert_eq!(room.handle.publish(vec![event(2)]).await, Ok(vec![accepted(2)]));
    let tree = serde_json::to_string(&room.tree.snapshot()).unwrap();
    assert!(!tree.contains("store_unavailable"), "{tree}");
}

#[actix_rt::test]
async fn an_event_that_became_durable_by_a_failed_append_is_delivered() {
    let room = start(Config::default());
    room.handle.publish(vec![event(1)]).await.unwrap();
    room.log.fail(Some(Failure::After));
    room.handle.publish(vec![event(2)]).await.unwrap_err();
    room.log.fail(None);
    assert_eq!(room.handle.publish(vec![event(2)]).await, Ok(vec![Outcome::Duplicate]));
    room.announced(2).await;
    assert_eq!(room.ids_after(1).await, ["e2"]);
    room.handle.publish(vec![event(3)]).await.unwrap();
    room.announced(3).await;
    assert_eq!(room.ids_after(0).await, ["e1", "e2", "e3"]);
}

#[actix_rt::test]
async fn a_panic_during_an_append_is_an_outage_for_publishers_and_no_stop() {
    let room = start(Config::default());
    room.handle.publish(vec![event(1)]).await.unwrap();
    room.log.fail(Some(Failure::Panic));
    let error = room.handle.publish(vec![event(2)]).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable");
    assert_eq!(room.handle.publish(vec![event(3)]).await, Ok(vec![accepted(3)]));
}

#[actix_rt::test]
async fn publishers_of_a_stopped_tree_learn_that_it_stops() {
    let room = start(Config::default());
    room.handle.publish(vec![event(1)]).await.unwrap();
    room.tree.shutdown().await;
    assert_eq!(room.handle.publish(vec![event(2)]).await, Err(StoreError::Stopping));
}

#[actix_rt::test]
async fn what_a_lost_append_makes_durable_late_is_announced_without_another_event() {
    let room = start(Config::default());
    room.handle.publish(vec![event(1)]).await.unwrap();
    room.log.fail(Some(Failure::Panic));
    room.handle.publish(vec![event(2)]).await.unwrap_err();
    let announced = tokio::time::timeout(Duration::from_secs(5), room.announced(2)).await;
    assert!(announced.is_ok(), "still at {:?}", room.live.position());
    assert_eq!(room.ids_after(1).await, ["e2"]);
}

#[actix_rt::test]
async fn what_is_appended_to_a_followed_log_is_announced_by_its_follower_alone() {
    let room = start_followed();
    assert_eq!(room.handle.publish(vec![event(1), event(2)]).await, Ok(vec![accepted(1), accepted(2)]));
    assert_eq!(room.live.position(), None);
    assert_eq!(room.live.counters().published.load(Relaxed), 2);

    room.live.stands_at(Position { epoch: EPOCH, offset: 0 });
    room.live.announce(EPOCH, vec![logged(1, "db.t")]);
    // Neither another append nor the one that failed before it moves the stream on.
    room.log.fail(Some(Failure::After));
    room.handle.publish(vec![event(3)]).await.unwrap_err();
    assert!(serde_json::to_string(&room.tree.snapshot()).unwrap().contains("store_unavailable"));
    room.log.fail(None);
    assert_eq!(
        room.handle.publish(vec![event(3), event(4)]).await,
        Ok(vec![Outcome::Duplicate, accepted(4)])
    );
    room.tree.shutdown().await;
    assert_eq!(room.live.position(), Some(Position { epoch: EPOCH, offset: 1 }));
    assert_eq!(room.live.counters().frames.load(Relaxed), 1);
}

#[actix_rt::test]
async fn what_was_logged_before_the_start_can_be_read() {
    let log = MemoryLog::new();
    log.append_now((1..=600).map(event).collect());
    let room = start_on(Config::default(), log);
    room.announced(600).await;
    room.handle.publish(vec![event(601)]).await.unwrap();
    room.announced(601).await;
    assert_eq!(room.ids_after(0).await, (1..=601).map(|number| format!("e{number}")).collect::<Vec<_>>());
}

#[actix_rt::test]
async fn a_log_that_cannot_be_read_at_the_start_is_an_outage() {
    let log = MemoryLog::new();
    log.fail(Some(Failure::Before));
    let room = start_on(Config::default(), log);
    assert!(matches!(room.handle.publish(vec![event(1)]).await, Err(StoreError::Unavailable(_))));
    assert_eq!(room.live.position(), None);
    room.log.fail(None);
    assert_eq!(room.handle.publish(vec![event(1)]).await, Ok(vec![accepted(1)]));
}

#[actix_rt::test]
async fn clients_at_the_same_place_share_pages() {
    let log = MemoryLog::new();
    log.append_now((1..=1000).map(event).collect());
    let room = start_on(Config { concurrent_reads: 1, ..Config::default() }, log);
    room.announced(1000).await;
    let readers = (0..50).map(|_| room.backlog.after(10));
    let pages = futures_util::future::join_all(readers).await;
    assert!(pages.iter().all(|page| page.as_ref().unwrap().as_ref().unwrap().first() == 11));
    assert_eq!(room.log.reads.load(SeqCst), 1);
    let within = room.backlog.after(100).await.unwrap().unwrap();
    assert_eq!(within.range(100, u64::MAX), 90..256);
    assert_eq!(room.log.reads.load(SeqCst), 1);
}

#[test]
fn a_log_that_hangs_shows_as_an_outage_until_it_answers() {
    let system = actix_rt::System::with_tokio_rt(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
    });
    system.block_on(async {
        let room = start(Config::default());
        let is_slow = || serde_json::to_string(&room.tree.snapshot()).unwrap().contains("store_slow");
        room.handle.publish(vec![event(1)]).await.unwrap();
        room.log.open.send_replace(false);
        let handle = room.handle.clone();
        let publisher = task::spawn("publisher", async move { handle.publish(vec![event(2)]).await });
        tokio::time::sleep(Duration::from_millis(9_900)).await;
        assert!(!is_slow());
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(is_slow());
        room.log.open.send_replace(true);
        assert_eq!(publisher.await.unwrap(), Ok(vec![accepted(2)]));
        assert!(!is_slow());
    });
}

#[test]
fn events_faster_than_a_tick_are_delivered_together_and_a_lone_one_at_once() {
    let system = actix_rt::System::with_tokio_rt(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
    });
    system.block_on(async {
        let room = start(Config { tick_millis: 100, ..Config::default() });
        let started = tokio::time::Instant::now();
        room.handle.publish(vec![event(1)]).await.unwrap();
        room.announced(1).await;
        assert_eq!(started.elapsed().as_millis(), 0);
        for number in 2..=5 {
            room.handle.publish(vec![event(number)]).await.unwrap();
        }
        room.announced(5).await;
        assert_eq!(room.live.counters().batches.load(Relaxed), 2);
        assert_eq!(room.live.counters().frames.load(Relaxed), 5);
        assert_eq!(started.elapsed().as_millis(), 100);
    });
}
