//! A correct log in memory, for tests: deduplicates by channel and event id, drops the oldest on demand, fails on demand.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its part, and it fails as tests do")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use freshet_feed::event::Summary;
use freshet_feed::port::{Bounds, EventLog, KeyedState, Logged, NewestByKey, Outcome, PageLimit, StoreError};
use freshet_feed::{ChannelName, Commit, Epoch, Event, Position};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

pub const EPOCH: Epoch = Epoch(0x00c0_ffee);

pub struct MemoryLog {
    state: Mutex<State>,
    /// Appends wait while it is false.
    pub open: watch::Sender<bool>,
    /// Reads wait while it is false.
    pub readable: watch::Sender<bool>,
    /// How many appends of events were asked for.
    pub appends: AtomicUsize,
    /// How many events each of those had.
    pub append_sizes: Mutex<Vec<usize>>,
    /// How many pages were read.
    pub reads: AtomicUsize,
}

#[derive(Default)]
struct State {
    first: u64,
    events: Vec<Event>,
    fails: Option<Failure>,
    /// An append whose caller was lost, and which is done all the same before the next one.
    in_flight: Vec<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing is written.
    Before,
    /// The events are durable, and still the caller is told that they are not.
    After,
    /// The next append ends its caller by a panic; its events become durable with the next append, not before.
    Panic,
}

impl MemoryLog {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State { first: 1, ..State::default() }),
            open: watch::Sender::new(true),
            readable: watch::Sender::new(true),
            appends: AtomicUsize::new(0),
            append_sizes: Mutex::default(),
            reads: AtomicUsize::new(0),
        })
    }

    pub fn fail(&self, failure: Option<Failure>) {
        self.state().fails = failure;
    }

    /// Drops events until `first` is the oldest.
    pub fn drop_before(&self, first: u64) {
        let mut state = self.state();
        let gone = usize::try_from(first - state.first).unwrap();
        state.events.drain(..gone);
        state.first = first;
    }

    pub fn append_now(&self, events: Vec<Event>) -> Vec<Outcome> {
        let mut state = self.state();
        for event in std::mem::take(&mut state.in_flight) {
            state.append(event);
        }
        events.into_iter().map(|event| state.append(event)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn last(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.fails {
            None => Ok(()),
            Some(_) => Err(StoreError::Unavailable("the test says so".to_owned())),
        }
    }

    fn logged(&self, offset: u64) -> Logged {
        let event = self.events[(offset - self.first) as usize].clone();
        Logged { offset, appended_at: event.timestamp, event }
    }

    fn append(&mut self, event: Event) -> Outcome {
        let is_same = |known: &Event| known.event_id == event.event_id && known.channel == event.channel;
        if self.events.iter().any(is_same) {
            return Outcome::Duplicate;
        }
        self.events.push(event);
        Outcome::Accepted { position: Position { epoch: EPOCH, offset: self.last() } }
    }
}

impl EventLog for MemoryLog {
    fn append(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Outcome>, StoreError>> {
        async move {
            if !events.is_empty() {
                self.appends.fetch_add(1, SeqCst);
                self.append_sizes.lock().unwrap().push(events.len());
            }
            self.open.subscribe().wait_for(|open| *open).await.unwrap();
            let fails = self.state().fails;
            if fails == Some(Failure::Panic) {
                let mut state = self.state();
                state.fails = None;
                state.in_flight = events;
                drop(state);
                panic!("the test says so");
            }
            if fails == Some(Failure::After) {
                self.append_now(events.clone());
            }
            self.state().check()?;
            Ok(self.append_now(events))
        }
        .boxed()
    }

    fn read_after(&self, offset: u64, limit: PageLimit) -> BoxFuture<'_, Result<Vec<Logged>, StoreError>> {
        async move {
            self.reads.fetch_add(1, SeqCst);
            self.readable.subscribe().wait_for(|readable| *readable).await.unwrap();
            // A real log answers later; let others in between.
            tokio::task::yield_now().await;
            let state = self.state();
            state.check()?;
            let start = (offset + 1).max(state.first);
            let mut bytes = 0;
            Ok((start..=state.last())
                .map(|offset| state.logged(offset))
                .take(limit.events)
                .take_while(|logged| {
                    let is_first = bytes == 0;
                    bytes += logged.event.body.len();
                    is_first || bytes <= limit.bytes
                })
                .collect())
        }
        .boxed()
    }

    fn locate(&self, event_id: String) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        async move {
            let state = self.state();
            state.check()?;
            let index = state.events.iter().rposition(|event| event.event_id == event_id);
            Ok(index.map(|index| state.first + index as u64))
        }
        .boxed()
    }

    fn bounds(&self) -> BoxFuture<'_, Result<Bounds, StoreError>> {
        async move {
            let state = self.state();
            state.check()?;
            Ok(Bounds { epoch: EPOCH, first: state.first, last: state.last() })
        }
        .boxed()
    }

    fn newest_by_key(&self, request: NewestByKey) -> BoxFuture<'_, Result<KeyedState, StoreError>> {
        async move {
            let state = self.state();
            state.check()?;
            let mut newest = HashMap::new();
            for (event, offset) in state.events.iter().zip(state.first..) {
                let is_since = request.appended_since.is_none_or(|since| event.timestamp >= since);
                if event.channel == request.channel
                    && request.rooms.hold(event.room.as_deref())
                    && is_since
                    && let Some(key) = &event.key
                {
                    newest.insert(key.clone(), offset);
                }
            }
            let mut offsets: Vec<u64> = newest.into_values().collect();
            offsets.sort_unstable();
            let is_cut = offsets.len() > request.max_keys;
            offsets.truncate(request.max_keys);
            Ok(KeyedState { through: state.last(), offsets, is_cut })
        }
        .boxed()
    }

    fn read_at(&self, offsets: Vec<u64>) -> BoxFuture<'_, Result<Vec<Logged>, StoreError>> {
        async move {
            let state = self.state();
            state.check()?;
            let held = offsets.into_iter().filter(|offset| (state.first..=state.last()).contains(offset));
            Ok(held.map(|offset| state.logged(offset)).collect())
        }
        .boxed()
    }
}

/// An event whose body is `{"eventId":"e<number>"}`.
pub fn event(number: u64) -> Event {
    event_of(number, "db.t")
}

pub fn event_of(number: u64, table: &str) -> Event {
    Event {
        event_id: format!("e{number}"),
        channel: ChannelName::iceberg(),
        name: "iceberg-mutation".into(),
        key: Some(table.to_owned()),
        room: None,
        timestamp: "2023-10-27T10:25:40.123Z".parse().unwrap(),
        source_application: None,
        commit: Some(Commit {
            table: table.to_owned(),
            event_type: "COMMIT_SUCCESS".to_owned(),
            operation: Some("append".to_owned()),
            snapshot_id: None,
            schema_changed: None,
            summary: Summary::default(),
        }),
        body: Bytes::from(format!("{{\"eventId\":\"e{number}\"}}")),
    }
}

/// The same event at the offset of its number.
pub fn logged(offset: u64, table: &str) -> Logged {
    let event = event_of(offset, table);
    Logged { offset, appended_at: event.timestamp, event }
}
