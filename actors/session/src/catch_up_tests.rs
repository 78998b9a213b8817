//! Whatever the order in which batches arrive, pages are read and sockets drain: each event once, in order.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use freshet_broadcaster::{Backlog, Live};
use freshet_feed::channel::WhenFull;
use freshet_feed::port::Announce;
use freshet_feed::{EventFilter, Principal};
use freshet_kernel::Nursery;
use futures_util::task::noop_waker;
use proptest::prelude::*;

use super::*;
use crate::config::Config;
use crate::hub_task::follow;
use crate::interest::sample::{channels, interest_of};
use crate::memory_log::{EPOCH, MemoryLog, event_of, logged};
use crate::sessions::Sessions;
use crate::subscription::Stage;

fn bounds(first: u64, last: u64) -> Bounds {
    Bounds { epoch: EPOCH, first, last }
}

fn at(offset: u64) -> Position {
    Position { epoch: EPOCH, offset }
}

#[test]
fn a_position_of_another_log_or_of_the_future_is_a_gap() {
    assert_eq!(start_at(at(7), bounds(1, 7)), Start::After(7));
    assert_eq!(start_at(at(8), bounds(1, 7)), Start::Gap);
    assert_eq!(start_at(at(u64::MAX), bounds(1, 7)), Start::Gap);
    let other = Position { epoch: freshet_feed::Epoch(1), offset: 7 };
    assert_eq!(start_at(other, bounds(1, 7)), Start::Gap);
}

#[test]
fn a_page_is_cut_to_what_lies_between_client_and_hub() {
    let logged = (5..=9).map(|offset| logged(offset, "t")).collect();
    let page = Batch::render(EPOCH, logged).unwrap();
    let read = |cursor, hub| read_page(cursor, hub, Some(&page));
    assert_eq!(read(4, 20), Page { lost_until: None, range: 0..5, cursor: 9 });
    assert_eq!(read(6, 8), Page { lost_until: None, range: 2..4, cursor: 8 });
    assert_eq!(read(2, 20), Page { lost_until: Some(4), range: 0..5, cursor: 9 });
    assert_eq!(read(1, 3), Page { lost_until: Some(3), range: 0..0, cursor: 3 });
    assert_eq!(read_page(2, 6, None), Page { lost_until: Some(6), range: 0..0, cursor: 6 });
}

type Running<T> = Pin<Box<dyn Future<Output = T>>>;

/// One thread with clients, moved on by hand.
struct World {
    log: Arc<MemoryLog>,
    live: Arc<Live>,
    hub: Rc<Hub>,
    following: Option<Running<()>>,
    clients: Vec<Client>,
    published: u64,
    announced: u64,
}

struct Client {
    subscription: Rc<Subscription>,
    catching_up: Option<Running<()>>,
    start: u64,
    text: String,
}

#[derive(Clone, Debug)]
enum Act {
    /// The log gets events, and the workers are told of all or of none yet.
    Publish(u64, bool),
    /// The hub's task runs one step.
    Follow,
    /// A client connects that had events up to this share of the log, in percent; it may filter.
    Connect(u64, bool),
    /// This client's actor runs one step.
    CatchUp(usize),
    /// This client's socket takes one write.
    Drain(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (1_u64..6, any::<bool>()).prop_map(|(count, told)| Act::Publish(count, told)),
        4 => Just(Act::Follow),
        1 => (0_u64..=100, any::<bool>()).prop_map(|(percent, filters)| Act::Connect(percent, filters)),
        6 => (0_usize..4).prop_map(Act::CatchUp),
        4 => (0_usize..4).prop_map(Act::Drain),
    ]
}

fn poll<T>(running: &mut Option<Running<T>>) {
    let Some(future) = running else { return };
    if future.as_mut().poll(&mut Context::from_waker(&noop_waker())).is_ready() {
        *running = None;
    }
}

impl World {
    fn new(outbox_max_bytes: usize) -> Self {
        let log = MemoryLog::new();
        // So little is kept in memory that most is read from the log.
        let config = freshet_broadcaster::Config {
            recent_max_bytes: 300,
            page_max_events: 3,
            cached_pages: 2,
            concurrent_reads: 1,
            ..Default::default()
        };
        let live = Live::new(&config);
        live.stands_at(at(0));
        let backlog = Arc::new(Backlog::new(&config, Arc::clone(&live), log.clone()));
        let config = Config { outbox_max_bytes, ..Config::default() };
        let sessions = Sessions::new(
            config,
            channels(WhenFull::Close),
            Arc::clone(&live),
            backlog,
            Nursery::new("test", 1),
        );
        let hub = Hub::new(sessions.shared, at(0));
        Self { log, live, hub, following: None, clients: Vec::new(), published: 0, announced: 0 }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Publish(count, is_told) => {
                let numbers = self.published + 1..=self.published + count;
                self.log.append_now(numbers.map(|number| event_of(number, table_of(number))).collect());
                self.published += count;
                if is_told {
                    self.announce();
                }
            }
            Act::Follow => {
                if self.following.is_none() {
                    let hub = Rc::clone(&self.hub);
                    self.following = Some(Box::pin(async move { follow(&hub).await.unwrap() }));
                }
                poll(&mut self.following);
            }
            Act::Connect(percent, filters) if self.clients.len() < 4 => {
                let filter = if filters { "even" } else { "" };
                let filter = EventFilter::from_query([("table", filter)]).unwrap();
                let interest = interest_of(filter, WhenFull::Close);
                let connection = self.hub.connect(Transport::Sse, Principal::everything());
                let subscription = self.hub.subscribe(&connection, interest, None, Stage::CatchingUp);
                // Another thread may have told the client of events that this one does not know yet.
                let start = self.announced * percent / 100;
                let resume = Resume::LastEventId(at(start).to_string().into());
                let (hub, own) = (Rc::clone(&self.hub), Rc::clone(&subscription));
                let catching_up: Running<()> =
                    Box::pin(async move { run(&hub, &own, &resume, None).await.unwrap() });
                self.clients.push(Client {
                    subscription,
                    catching_up: Some(catching_up),
                    start,
                    text: String::new(),
                });
            }
            Act::Connect(..) => {}
            Act::CatchUp(index) => {
                if let Some(client) = self.clients.get_mut(index) {
                    poll(&mut client.catching_up);
                }
            }
            Act::Drain(index) => {
                if let Some(client) = self.clients.get_mut(index) {
                    client.drain();
                }
            }
        }
    }

    fn announce(&mut self) {
        if self.announced == self.published {
            return;
        }
        let numbers = self.announced + 1..=self.published;
        let logged = numbers.map(|offset| logged(offset, table_of(offset))).collect();
        self.live.announce(EPOCH, logged);
        self.announced = self.published;
    }

    fn finish(&mut self) {
        self.announce();
        for _ in 0..10_000 {
            self.act(&Act::Follow);
            for index in 0..self.clients.len() {
                self.act(&Act::CatchUp(index));
                self.act(&Act::Drain(index));
            }
            let caught_up = self.clients.iter().all(|client| client.catching_up.is_none());
            if caught_up && self.hub.position() == at(self.published) && self.following.is_none() {
                break;
            }
        }
        for client in &mut self.clients {
            while client.drain() {}
        }
    }
}

impl Client {
    fn drain(&mut self) -> bool {
        let Some(bytes) = self.subscription.connection.take() else { return false };
        self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        true
    }

    fn offsets(&self) -> Vec<u64> {
        // A heartbeat has an id too.
        let commits = self.text.split("\n\n").filter(|block| block.contains("event: iceberg-mutation"));
        commits
            .flat_map(str::lines)
            .filter_map(|line| line.strip_prefix("id: e"))
            .map(|id| id.parse().unwrap())
            .collect()
    }
}

fn table_of(number: u64) -> &'static str {
    if number.is_multiple_of(2) { "even" } else { "odd" }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_client_gets_each_event_once_in_order(
        acts in prop::collection::vec(act(), 1..120),
        outbox_max_bytes in prop_oneof![Just(400_usize), Just(1 << 20)],
    ) {
        let mut world = World::new(outbox_max_bytes);
        for act in &acts {
            world.act(act);
        }
        world.finish();
        for client in &world.clients {
            let wants_all = client.subscription.interest.wants_all();
            let expected: Vec<u64> = (client.start + 1..=world.published)
                .filter(|number| wants_all || table_of(*number) == "even")
                .collect();
            let got = client.offsets();
            if client.text.contains("event: close") {
                prop_assert!(expected.starts_with(&got), "{got:?} begins not {expected:?}");
            } else {
                prop_assert_eq!(got, expected);
            }
            prop_assert!(!client.text.contains("event: gap"));
        }
    }
}

#[test]
fn the_generated_worlds_do_catch_up_from_log_and_memory() {
    let mut world = World::new(1 << 20);
    world.act(&Act::Publish(50, true));
    world.act(&Act::Publish(5, true));
    world.act(&Act::Connect(10, false));
    world.finish();
    assert_eq!(world.clients[0].offsets(), (6..=55).collect::<Vec<_>>());
    assert!(world.log.reads.load(std::sync::atomic::Ordering::SeqCst) > 10);
    assert_eq!(world.clients[0].subscription.stage(), Stage::Live);
}

#[test]
fn a_client_that_waits_for_its_hub_is_not_served_twice() {
    let mut world = World::new(1 << 20);
    world.act(&Act::Publish(4, true));
    world.act(&Act::Connect(100, false));
    world.act(&Act::CatchUp(0));
    assert_eq!(world.clients[0].subscription.stage(), Stage::CatchingUp, "the hub is at 0, the client at 4");
    world.act(&Act::Publish(1, true));
    world.finish();
    assert_eq!(world.clients[0].offsets(), [5]);
}

#[test]
fn events_that_leave_the_log_during_a_catch_up_are_a_gap() {
    let mut world = World::new(400);
    world.act(&Act::Publish(40, true));
    world.act(&Act::Publish(1, true));
    while world.hub.position() != at(41) {
        world.act(&Act::Follow);
    }
    world.act(&Act::Connect(0, false));
    while world.clients[0].subscription.connection.waits_for_nothing() {
        world.act(&Act::CatchUp(0));
    }
    world.log.drop_before(31);
    world.finish();
    let got = world.clients[0].offsets();
    let gap_at = got.iter().position(|offset| *offset == 31).unwrap();
    assert_eq!(got[gap_at..], (31..=41).collect::<Vec<_>>());
    assert_eq!(got[..gap_at], (1..=gap_at as u64).collect::<Vec<_>>(), "what was read before the loss");
    assert_eq!(world.clients[0].text.matches("event: gap").count(), 1);
}
