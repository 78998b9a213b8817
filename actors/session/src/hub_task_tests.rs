//! Heartbeats, drain and the end of a hub, on a simulated clock.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use freshet_broadcaster::{Backlog, Live};
use freshet_feed::channel::WhenFull;
use freshet_feed::port::Announce;
use freshet_feed::{EventFilter, Position, Principal};
use freshet_kernel::Nursery;
use futures_util::FutureExt;

use super::*;
use crate::config::Config;
use crate::connection::State;
use crate::interest::Transport;
use crate::interest::sample::{channels, interest_of};
use crate::memory_log::{EPOCH, MemoryLog, logged};
use crate::sessions::Sessions;
use crate::subscription::{Stage, Subscription};

fn at(offset: u64) -> Position {
    Position { epoch: EPOCH, offset }
}

fn hub() -> Rc<Hub> {
    hub_and_log().0
}

fn hub_and_log() -> (Rc<Hub>, Arc<MemoryLog>) {
    let config = freshet_broadcaster::Config::default();
    let live = Live::new(&config);
    live.stands_at(at(7));
    let log = MemoryLog::new();
    let backlog = Arc::new(Backlog::new(&config, Arc::clone(&live), log.clone()));
    let sessions =
        Sessions::new(Config::default(), channels(WhenFull::Close), live, backlog, Nursery::new("test", 1));
    (Hub::new(sessions.shared, at(7)), log)
}

fn client(hub: &Hub, filter: EventFilter, stage: Stage) -> Rc<Subscription> {
    hub.subscribe(
        &hub.connect(Transport::Sse, Principal::everything()),
        interest_of(filter, WhenFull::Close),
        None,
        stage,
    )
}

fn clients(hub: &Hub, count: usize) -> Vec<Rc<Subscription>> {
    (0..count).map(|_| client(hub, EventFilter::default(), Stage::Live)).collect()
}

fn taken(client: &Subscription) -> String {
    let mut text = String::new();
    while let Some(bytes) = client.connection.take() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    text
}

/// Lets the hub's task see each step of the clock.
async fn pass(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        tokio::time::advance(DRAIN_STEP.min(until - Instant::now())).await;
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }
}

async fn while_running(hub: &Rc<Hub>, script: impl Future<Output = ()>) {
    tokio::select! {
        () = run(Rc::clone(hub)) => panic!("the hub's task ended"),
        () = script => {}
    }
}

#[test]
fn sessions_close_evenly_and_all() {
    let window = Duration::from_secs(10);
    let left = |secs| left_open(1000, Duration::from_secs(secs), window);
    assert_eq!([left(0), left(1), left(5), left(9), left(10), left(11)], [1000, 900, 500, 100, 0, 0]);
    assert_eq!(left_open(5, Duration::ZERO, Duration::ZERO), 0);
}

#[tokio::test(start_paused = true)]
async fn quiet_clients_get_heartbeats_spread_over_a_fifth_of_their_time() {
    let hub = hub();
    let wants_all = client(&hub, EventFilter::default(), Stage::Live);
    let filter = EventFilter::from_query([("table", "db.*")]).unwrap();
    let slots: Vec<_> = (0..200).map(|_| client(&hub, filter.clone(), Stage::Live)).collect();
    while_running(&hub, async {
        pass(Duration::from_millis(21_500)).await;
        assert!(slots.iter().all(|slot| taken(slot).is_empty()), "none before 23 s");
        pass(Duration::from_secs(3)).await;
        let early = slots.iter().filter(|slot| !slot.connection.waits_for_nothing()).count();
        assert!((1..200).contains(&early), "{early} of 200 by 24.5 s");
        pass(Duration::from_secs(4)).await;
        for slot in &slots {
            assert_eq!(taken(slot), ":\nid: 0000000000c0ffee-7\n\n");
        }
        assert_eq!(taken(&wants_all), ":\n\n", "it has the newest event's id, which other instances know");
        assert_eq!(hub.shared.counters.heartbeats.load(Relaxed), 201);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_hears_events_needs_no_heartbeat_and_who_catches_up_learns_no_position() {
    let hub = hub();
    let hears = client(&hub, EventFilter::default(), Stage::Live);
    let catches_up = client(&hub, EventFilter::default(), Stage::CatchingUp);
    while_running(&hub, async {
        pass(Duration::from_secs(20)).await;
        let logged = vec![logged(8, "db.t")];
        hub.shared.live.announce(EPOCH, logged);
        pass(Duration::from_secs(8)).await;
        assert_eq!(taken(&hears), "id: e8\nevent: iceberg-mutation\ndata: {\"eventId\":\"e8\"}\n\n");
        assert_eq!(taken(&catches_up), ":\n\n");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_moves_a_filtering_client_to_the_newest_events_id() {
    let hub = hub();
    let filter = EventFilter::from_query([("table", "elsewhere")]).unwrap();
    let slot = client(&hub, filter, Stage::Live);
    while_running(&hub, async {
        let logged = vec![logged(8, "db.t")];
        hub.shared.live.announce(EPOCH, logged);
        pass(Duration::from_secs(28)).await;
        assert_eq!(taken(&slot), ":\nid: e8\n\n");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_log_that_hangs_holds_up_neither_heartbeats_nor_the_drain() {
    let (hub, log) = hub_and_log();
    let slot = client(&hub, EventFilter::default(), Stage::Live);
    log.readable.send_replace(false);
    while_running(&hub, async {
        // It is not in memory, so that the hub reads it from the log.
        hub.shared.live.stands_at(at(8));
        pass(Duration::from_secs(29)).await;
        assert_eq!(log.reads.load(Relaxed), 1);
        assert_eq!(taken(&slot), ":\n\n");
        hub.shared.draining.send_replace(Some(Duration::from_secs(1)));
        pass(Duration::from_secs(2)).await;
        assert!(!slot.is_open());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_closes_evenly() {
    let hub = hub();
    let slots = clients(&hub, 100);
    let open = || slots.iter().filter(|slot| slot.is_open()).count();
    while_running(&hub, async {
        pass(Duration::from_millis(10)).await;
        hub.shared.draining.send_replace(Some(Duration::from_secs(10)));
        pass(Duration::from_secs(1)).await;
        assert!((88..=92).contains(&open()), "{} open after a tenth", open());
        pass(Duration::from_secs(4)).await;
        assert!((48..=52).contains(&open()), "{} open at half time", open());
        pass(Duration::from_secs(6)).await;
        assert_eq!(open(), 0);
        assert_eq!(hub.shared.counters.closed(CloseCode::ShuttingDown), 100);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn when_a_hub_ends_its_clients_are_told_to_come_back() {
    let hub = hub();
    let slots = clients(&hub, 2);
    let mut task = Box::pin(run(Rc::clone(&hub)));
    assert!(task.as_mut().now_or_never().is_none());
    drop(task);
    for slot in &slots {
        assert!(taken(slot).contains("\"reason\":\"internal_error\",\"reconnect\":true"));
        assert_eq!(slot.connection.state(), State::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unregistered_client_gets_nothing_and_the_others_everything() {
    let hub = hub();
    let slots = clients(&hub, 3);
    hub.unsubscribe(&slots[0]);
    hub.unsubscribe(&slots[0]);
    while_running(&hub, async {
        let logged = vec![logged(8, "db.t")];
        hub.shared.live.announce(EPOCH, logged);
        pass(Duration::from_secs(1)).await;
        let heard: Vec<bool> = slots.iter().map(|slot| !taken(slot).is_empty()).collect();
        assert_eq!(heard, [false, true, true]);
    })
    .await;
    hub.unsubscribe(&slots[2]);
    hub.unsubscribe(&slots[1]);
    assert!(slots.iter().all(|slot| slot.stage() == Stage::Ended));
    let connections: Vec<_> = slots.iter().map(|slot| Rc::clone(&slot.connection)).collect();
    for index in [0, 0, 2, 1] {
        hub.disconnect(&connections[index]);
    }
    assert!(hub.connections().is_empty());
}
