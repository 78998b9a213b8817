use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn options(policy: Policy) -> Options {
    Options { window: None, max_rate_per_sec: None, policy, max_bytes: 1_000 }
}

fn flow(options: Options) -> Flow<()> {
    Flow::new(options, 0)
}

fn item(offset: u64, key: &str) -> Item<()> {
    Item { offset, key: (!key.is_empty()).then(|| key.into()), bytes: 10, value: () }
}

/// Offers items with these keys, at offsets that follow each other.
fn offer(flow: &mut Flow<()>, first_offset: u64, keys: &[&str]) -> Vec<Offered> {
    let items = keys.iter().zip(first_offset..).map(|(key, offset)| item(offset, key));
    items.map(|item| flow.offer(item)).collect()
}

/// What goes out now: offsets, each with how many were left out before it.
fn sent(flow: &mut Flow<()>, now: Instant) -> Vec<(u64, u64)> {
    let mut sent = Vec::new();
    while let Next::Send { item, left_out_before } = flow.next(now) {
        sent.push((item.offset, left_out_before));
    }
    sent
}

#[test]
fn a_client_that_asks_for_nothing_gets_everything_at_once() {
    let now = Instant::now();
    let mut flow = flow(options(Policy::Close));
    for offset in 1..=100 {
        offer(&mut flow, offset, &["a"]);
        assert_eq!(sent(&mut flow, now), [(offset, 0)]);
    }
    assert_eq!(flow.next(now), Next::Wait(None));
    assert_eq!((flow.in_flight(), flow.waiting(), flow.waiting_bytes()), (0, 0, 0));
}

#[test]
fn a_window_holds_events_back_until_they_are_acknowledged() {
    let now = Instant::now();
    let mut flow = flow(Options { window: Some(2), ..options(Policy::Close) });
    offer(&mut flow, 1, &["a", "b", "c", "d", "e"]);
    assert_eq!(sent(&mut flow, now), [(1, 0), (2, 0)]);
    assert_eq!((flow.in_flight(), flow.waiting(), flow.waiting_bytes()), (2, 3, 30));
    assert_eq!(flow.next(now + SECOND), Next::Wait(None), "only an acknowledgement helps");
    flow.acknowledge(1).unwrap();
    assert_eq!(sent(&mut flow, now), [(3, 0)]);
    flow.acknowledge(3).unwrap();
    assert_eq!(flow.in_flight(), 0, "an acknowledgement covers all before it");
    assert_eq!(sent(&mut flow, now), [(4, 0), (5, 0)]);
}

#[test]
fn acknowledgements_may_repeat_and_may_not_run_ahead() {
    let now = Instant::now();
    let mut flow = Flow::new(Options { window: Some(9), ..options(Policy::Close) }, 10);
    flow.acknowledge(10).expect("the client was told that it subscribed at 10");
    assert_eq!(flow.acknowledge(11), Err(AckError::Ahead));
    offer(&mut flow, 11, &["a", "b", "c"]);
    assert_eq!(flow.acknowledge(11), Err(AckError::Ahead), "it waits, and was not sent");
    sent(&mut flow, now);
    flow.acknowledge(12).unwrap();
    for older in [12, 11, 0] {
        flow.acknowledge(older).unwrap();
    }
    assert_eq!(flow.in_flight(), 1);
    assert_eq!(flow.acknowledge(14), Err(AckError::Ahead));
    assert_eq!(AckError::Ahead.code(), "ack_ahead");
    flow.told(14);
    flow.acknowledge(14).expect("another message told the client so");
    assert_eq!(flow.in_flight(), 0);
}

#[test]
fn while_the_window_is_full_the_newest_of_each_key_waits_in_the_order_of_offsets() {
    let now = Instant::now();
    let mut flow = flow(Options { window: Some(1), ..options(Policy::Coalesce) });
    offer(&mut flow, 1, &["first"]);
    sent(&mut flow, now);
    let offered = offer(&mut flow, 2, &["a", "b", "a", "", "b", "a", ""]);
    let left_out = [0, 0, 1, 0, 1, 1, 0];
    assert_eq!(offered, left_out.map(|left_out| Offered::Waits { left_out }));
    let mut all = Vec::new();
    let mut newest = 1;
    for _ in 0..4 {
        flow.acknowledge(newest).unwrap();
        let next = sent(&mut flow, now);
        newest = next[0].0;
        all.extend(next);
    }
    assert_eq!(all, [(5, 3), (6, 0), (7, 0), (8, 0)], "what was left out is told once, with the next");
}

#[test]
fn a_key_that_changes_all_the_time_is_sent_all_the_same() {
    let start = Instant::now();
    let mut flow = flow(Options { max_rate_per_sec: Some(1), ..options(Policy::Coalesce) });
    let mut hot = Vec::new();
    let mut offset = 0;
    for tenth in 0..600_u32 {
        let now = start + SECOND / 10 * tenth;
        // Twenty others change in turn, two a second: more than the client takes.
        let other = format!("cold-{}", tenth / 5 % 20);
        for key in if tenth % 5 == 0 { vec![other.as_str(), "hot"] } else { vec!["hot"] } {
            offset += 1;
            assert!(matches!(flow.offer(item(offset, key)), Offered::Waits { .. }));
        }
        if let Next::Send { item, .. } = flow.next(now)
            && item.key.as_deref() == Some("hot")
        {
            hot.push(tenth);
        }
    }
    assert!(hot.len() >= 3, "sent at {hot:?} only");
}

#[test]
fn keys_that_are_too_many_overflow() {
    let mut flow = flow(Options { window: Some(1), max_bytes: 30, ..options(Policy::Coalesce) });
    let offered = offer(&mut flow, 1, &["a", "b", "c", "a", "b", "c", "d"]);
    assert_eq!(offered[5], Offered::Waits { left_out: 1 });
    assert_eq!(offered[6], Offered::Overflow);
}

#[test]
fn without_a_policy_what_waits_too_long_overflows() {
    let mut flow = flow(Options { window: Some(1), max_bytes: 30, ..options(Policy::Close) });
    let offered = offer(&mut flow, 1, &["a", "a", "a", "a"]);
    assert_eq!(offered[2], Offered::Waits { left_out: 0 });
    assert_eq!(offered[3], Offered::Overflow);
}

#[test]
fn only_the_newest_are_kept_where_the_policy_says_so() {
    let now = Instant::now();
    let mut flow = flow(Options { window: Some(1), ..options(Policy::Newest { keep: 2 }) });
    offer(&mut flow, 1, &["a"]);
    sent(&mut flow, now);
    let offered = offer(&mut flow, 2, &["a", "b", "a", "a"]);
    assert_eq!(offered, [0, 0, 1, 1].map(|left_out| Offered::Waits { left_out }));
    flow.acknowledge(1).unwrap();
    assert_eq!(sent(&mut flow, now), [(4, 2)]);
    flow.acknowledge(4).unwrap();
    assert_eq!(sent(&mut flow, now), [(5, 0)]);
}

#[test]
fn the_newest_that_are_kept_are_bounded_in_bytes_too() {
    let now = Instant::now();
    let mut flow = flow(Options { max_bytes: 25, ..options(Policy::Newest { keep: 1000 }) });
    let offered = offer(&mut flow, 1, &["", "", "", ""]);
    assert_eq!(offered, [0, 0, 1, 1].map(|left_out| Offered::Waits { left_out }));
    let large = Item { bytes: 5_000, ..item(5, "") };
    assert_eq!(flow.offer(large), Offered::Waits { left_out: 2 }, "one may always wait");
    assert_eq!(sent(&mut flow, now), [(5, 4)]);
}

#[test]
fn one_item_may_wait_whatever_its_size() {
    for policy in [Policy::Close, Policy::Coalesce, Policy::Newest { keep: 0 }] {
        let mut flow = flow(options(policy));
        let large = Item { bytes: 1_001, ..item(1, "a") };
        assert_eq!(flow.offer(large), Offered::Waits { left_out: 0 });
    }
}

#[test]
fn a_rate_shows_the_newest_of_each_key_when_its_turn_comes() {
    let start = Instant::now();
    let mut flow = flow(Options { max_rate_per_sec: Some(4), ..options(Policy::Coalesce) });
    offer(&mut flow, 1, &["a", "b", "a"]);
    assert_eq!(sent(&mut flow, start), [(2, 1)]);
    let quarter = SECOND / 4;
    assert_eq!(flow.next(start), Next::Wait(Some(start + quarter)));
    offer(&mut flow, 4, &["b"]);
    assert_eq!(sent(&mut flow, start + quarter), [(3, 0)]);
    assert_eq!(sent(&mut flow, start + 2 * quarter), [(4, 0)]);
    assert_eq!(flow.next(start + 2 * quarter), Next::Wait(None), "nothing waits");
    // A pause saves nothing up.
    offer(&mut flow, 5, &["a", "b", "c"]);
    assert_eq!(sent(&mut flow, start + 9 * SECOND), [(5, 0)]);
    assert_eq!(flow.next(start + 9 * SECOND), Next::Wait(Some(start + 9 * SECOND + quarter)));
}

#[test]
fn a_burst_that_is_over_holds_no_memory() {
    let now = Instant::now();
    let unbounded = Options { window: Some(65_536), max_bytes: usize::MAX, ..options(Policy::Coalesce) };
    let mut flow = flow(unbounded);
    for offset in 1..=10_000 {
        flow.offer(item(offset, ""));
    }
    sent(&mut flow, now);
    flow.acknowledge(10_000).unwrap();
    for capacity in [flow.round.capacity(), flow.gathered.capacity(), flow.in_flight.capacity()] {
        assert!(capacity <= KEPT_CAPACITY, "{capacity}");
    }
}

/// What may happen, in any order.
#[derive(Clone, Debug)]
enum Step {
    Offer {
        key: Option<u8>,
        bytes: usize,
    },
    Pass(Duration),
    Send {
        at_most: usize,
    },
    /// Acknowledges so many of those in flight.
    Acknowledge(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (prop::option::of(0..4_u8), 1..50_usize).prop_map(|(key, bytes)| Step::Offer { key, bytes }),
        2 => (0..400_u64).prop_map(|millis| Step::Pass(Duration::from_millis(millis))),
        3 => (1..5_usize).prop_map(|at_most| Step::Send { at_most }),
        2 => (1..4_usize).prop_map(Step::Acknowledge),
    ];
    prop::collection::vec(step, 0..150)
}

fn any_options() -> impl Strategy<Value = Options> {
    let policy = prop_oneof![
        Just(Policy::Coalesce),
        Just(Policy::Close),
        (1..6_usize).prop_map(|keep| Policy::Newest { keep }),
    ];
    (prop::option::of(1..5_u32), prop::option::of(1..12_u32), policy, 200..2_000_usize).prop_map(
        |(window, max_rate_per_sec, policy, max_bytes)| Options {
            window,
            max_rate_per_sec,
            policy,
            max_bytes,
        },
    )
}

/// A flow beside what a client and a clock see of it.
struct Watched {
    flow: Flow<()>,
    options: Options,
    now: Instant,
    offered: Vec<Item<()>>,
    sent: Vec<(u64, Instant)>,
    told_left_out: u64,
    acknowledged: u64,
}

impl Watched {
    fn unacknowledged(&self) -> Vec<u64> {
        self.sent.iter().map(|(offset, _)| *offset).filter(|offset| *offset > self.acknowledged).collect()
    }

    /// Sends one, if it may.
    fn send(&mut self) -> Result<Option<Instant>, TestCaseError> {
        match self.flow.next(self.now) {
            Next::Wait(until) => {
                prop_assert!(until.is_none_or(|until| until > self.now));
                return Ok(until);
            }
            Next::Send { item, left_out_before } => {
                let newest = self.sent.last().map_or(0, |(offset, _)| *offset);
                prop_assert!(item.offset > newest, "in the order of offsets");
                self.told_left_out += left_out_before;
                let known = self.sent.len() as u64 + 1 + self.told_left_out;
                prop_assert!(known <= self.offered.len() as u64, "nothing is told twice");
                self.sent.push((item.offset, self.now));
            }
        }
        let unacknowledged = self.unacknowledged().len();
        if let Some(window) = self.options.window {
            prop_assert!(unacknowledged <= window as usize);
            prop_assert_eq!(self.flow.in_flight(), unacknowledged);
        }
        Ok(None)
    }

    fn step(&mut self, step: &Step) -> Result<Option<Offered>, TestCaseError> {
        match step {
            Step::Offer { key, bytes } => {
                let offset = self.offered.len() as u64 + 1;
                let key = key.map(|key| key.to_string().into());
                let item = Item { offset, key, bytes: *bytes, value: () };
                self.offered.push(item.clone());
                let offered = self.flow.offer(item);
                let is_over = self.flow.waiting_bytes() > self.options.max_bytes && self.flow.waiting() > 1;
                prop_assert_eq!(offered == Offered::Overflow, is_over);
                if let Policy::Newest { keep } = self.options.policy {
                    prop_assert!(!is_over && self.flow.waiting() <= keep);
                }
                return Ok(Some(offered));
            }
            Step::Pass(time) => self.now += *time,
            Step::Send { at_most } => {
                for _ in 0..*at_most {
                    self.send()?;
                }
            }
            Step::Acknowledge(count) => {
                if let Some(offset) = self.unacknowledged().into_iter().take(*count).next_back() {
                    prop_assert_eq!(self.flow.acknowledge(offset), Ok(()));
                    self.acknowledged = offset;
                }
            }
        }
        Ok(None)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn whatever_happens_a_client_misses_only_what_it_is_told_of(options in any_options(), steps in steps()) {
        let mut watched = Watched {
            flow: flow(options),
            options,
            now: Instant::now(),
            offered: Vec::new(),
            sent: Vec::new(),
            told_left_out: 0,
            acknowledged: 0,
        };
        for step in &steps {
            if watched.step(step)? == Some(Offered::Overflow) {
                return Ok(());
            }
        }
        // It becomes quiet, and the client acknowledges everything.
        while watched.flow.waiting() > 0 {
            watched.step(&Step::Acknowledge(usize::MAX))?;
            if let Some(until) = watched.send()? {
                watched.now = until;
            }
        }
        prop_assert_eq!(watched.flow.waiting_bytes(), 0);
        let sent: Vec<u64> = watched.sent.iter().map(|(offset, _)| *offset).collect();
        prop_assert_eq!(sent.len() as u64 + watched.told_left_out, watched.offered.len() as u64);
        prop_assert_eq!(sent.last().copied().unwrap_or(0), watched.offered.len() as u64, "the newest is sent");
        match options.policy {
            Policy::Close => prop_assert_eq!(watched.told_left_out, 0),
            Policy::Newest { .. } => {}
            Policy::Coalesce => {
                let mut newest = HashMap::new();
                for item in &watched.offered {
                    match &item.key {
                        Some(key) => _ = newest.insert(key.clone(), item.offset),
                        None => prop_assert!(sent.contains(&item.offset), "without a key all are sent"),
                    }
                }
                for (key, offset) in newest {
                    prop_assert!(sent.contains(&offset), "the newest of {key} is sent");
                }
            }
        }
        if let Some(rate) = options.max_rate_per_sec {
            for span in watched.sent.windows(rate as usize + 1) {
                let [(_, first), .., (_, last)] = span else { unreachable!("a rate is at least 1") };
                prop_assert!(*last - *first >= SECOND, "more than {rate} within a second");
            }
        }
    }
}
