//! How fast the events of one subscription go out, and what becomes of those that must wait. Pure: time is passed in.
//!
//! Two things hold events back: a window that is full of unacknowledged ones, and a rate. What waits is bounded by
//! the channel's policy, and each event left out by it is told to the client with the next one that is sent.

#![allow(dead_code, reason = "wired in by the session")]

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashlink::LinkedHashMap;

/// Room for so many items is kept when none waits; more is given back.
const KEPT_CAPACITY: usize = 64;

/// What a subscription asked for, and what its channel allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The most items that are sent and not acknowledged; nothing asks for no acknowledgements.
    pub(crate) window: Option<u32>,
    /// The most sends in any second, evenly spaced.
    pub(crate) max_rate_per_sec: Option<u32>,
    pub(crate) policy: Policy,
    /// The most bytes that wait. One item may always wait, whatever its size.
    pub(crate) max_bytes: usize,
}

/// What becomes of items that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Of each key only the newest waits, in the place that its offset has. Items without a key all wait.
    ///
    /// Sending goes in rounds: what waits when a round begins is sent before what comes meanwhile. Otherwise a key
    /// that changes faster than its turn comes would be put off by each change, and never be sent.
    Coalesce,
    /// Only the newest so many wait, at least 1.
    Newest { keep: usize },
    /// All wait.
    Close,
}

/// An item to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item<T> {
    /// Above that of every item before it.
    pub(crate) offset: u64,
    pub(crate) key: Option<Arc<str>>,
    /// What it counts against the limit.
    pub(crate) bytes: usize,
    pub(crate) value: T,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It waits for its turn; so many older ones do not any more.
    Waits { left_out: u64 },
    /// More waits than may: the subscription has to end.
    Overflow,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// This is to be sent now, and counts as sent. So many items were left out since the one sent before it.
    Send { item: Item<T>, left_out_before: u64 },
    /// Nothing until then; without a time, nothing until an offer or an acknowledgement.
    Wait(Option<Instant>),
}

/// An acknowledgement that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AckError {
    #[error("the acknowledged position was not sent yet")]
    Ahead,
}

impl AckError {
    /// The stable machine code.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Ahead => "ack_ahead",
        }
    }
}

/// The items of one subscription on their way out.
#[derive(Debug)]
pub(crate) struct Flow<T> {
    options: Options,
    /// What is sent next, in the order of offsets. Newer items do not replace these.
    round: VecDeque<Item<T>>,
    /// What came since the round began, in the order of offsets: a newer item of a key goes to the end.
    gathered: LinkedHashMap<Place, Item<T>, RandomState>,
    waiting_bytes: usize,
    /// Left out and not yet told.
    left_out: u64,
    /// The offsets of items that are sent and not acknowledged, when there is a window.
    in_flight: VecDeque<u64>,
    /// The newest offset that the client knows of.
    newest_told: u64,
    /// When the rate allows the next one.
    next_send: Option<Instant>,
}

/// Items with equal places replace each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Key(Arc<str>),
    Offset(u64),
}

impl<T> Flow<T> {
    /// For items after `start`, the offset at which the client was told that it subscribed.
    pub(crate) fn new(options: Options, start: u64) -> Self {
        Self {
            options,
            round: VecDeque::new(),
            gathered: LinkedHashMap::with_hasher(RandomState::new()),
            waiting_bytes: 0,
            left_out: 0,
            in_flight: VecDeque::new(),
            newest_told: start,
            next_send: None,
        }
    }

    /// Adds the newest item, in constant time. Ask for the next one afterwards: nothing may hold it back.
    pub(crate) fn offer(&mut self, item: Item<T>) -> Offered {
        let place = match (self.options.policy, &item.key) {
            (Policy::Coalesce, Some(key)) => Place::Key(Arc::clone(key)),
            _ => Place::Offset(item.offset),
        };
        let mut left_out = 0;
        self.waiting_bytes += item.bytes;
        if let Some(older) = self.gathered.insert(place, item) {
            self.waiting_bytes -= older.bytes;
            left_out += 1;
        }
        if let Policy::Newest { keep } = self.options.policy {
            while (self.waiting() > keep.max(1) || self.is_over()) && self.pop().is_some() {
                left_out += 1;
            }
        }
        self.left_out += left_out;
        if self.is_over() { Offered::Overflow } else { Offered::Waits { left_out } }
    }

    /// What is to be done now. Call it again after a send, until it waits.
    ///
    /// Sends are spaced by at least a second divided by the rate, so that in no span of a second, wherever it
    /// begins, there are more of them than the rate. That takes one time to remember, and of several updates at
    /// once the newest is shown soon instead of the first ones.
    pub(crate) fn next(&mut self, now: Instant) -> Next<T> {
        let is_window_full =
            self.options.window.is_some_and(|window| self.in_flight.len() >= window.max(1) as usize);
        if self.waiting() == 0 || is_window_full {
            return Next::Wait(None);
        }
        if let Some(allowed) = self.next_send
            && allowed > now
        {
            return Next::Wait(Some(allowed));
        }
        let Some(item) = self.pop() else { return Next::Wait(None) };
        if let Some(rate) = self.options.max_rate_per_sec {
            let spacing = Duration::from_nanos(1_000_000_000_u64.div_ceil(u64::from(rate.max(1))));
            self.next_send = Some(now + spacing);
        }
        if self.options.window.is_some() {
            self.in_flight.push_back(item.offset);
        }
        self.newest_told = self.newest_told.max(item.offset);
        Next::Send { item, left_out_before: std::mem::take(&mut self.left_out) }
    }

    /// The client has everything up to and with this offset. What it said before is no news and no error.
    ///
    /// # Errors
    /// When the client was not told of that offset yet.
    pub(crate) fn acknowledge(&mut self, offset: u64) -> Result<(), AckError> {
        if offset > self.newest_told {
            return Err(AckError::Ahead);
        }
        while self.in_flight.front().is_some_and(|sent| *sent <= offset) {
            self.in_flight.pop_front();
        }
        if self.in_flight.is_empty() && self.in_flight.capacity() > KEPT_CAPACITY {
            self.in_flight = VecDeque::new();
        }
        Ok(())
    }

    /// The client was told by another message that it stands here, and may acknowledge that.
    pub(crate) fn told(&mut self, offset: u64) {
        self.newest_told = self.newest_told.max(offset);
    }

    /// How many items are sent and not acknowledged; 0 without a window.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether so many more bytes may wait without filling more than a quarter of the room: for events that can be read
    /// later just as well.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.waiting() == 0 || self.waiting_bytes.saturating_add(bytes) <= self.options.max_bytes / 4
    }

    /// The oldest item that waits.
    pub(crate) fn oldest_waiting(&self) -> Option<u64> {
        self.round.front().or_else(|| self.gathered.front().map(|(_, item)| item)).map(|item| item.offset)
    }

    /// How many items wait.
    pub(crate) fn waiting(&self) -> usize {
        self.round.len() + self.gathered.len()
    }

    /// How many bytes wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    fn is_over(&self) -> bool {
        self.waiting_bytes > self.options.max_bytes && self.waiting() > 1
    }

    /// Takes the oldest. Each item moves into a round once, so this too takes constant time on the whole.
    fn pop(&mut self) -> Option<Item<T>> {
        if self.round.is_empty() {
            self.round.extend(self.gathered.drain().map(|(_, item)| item));
            if self.gathered.capacity() > KEPT_CAPACITY {
                self.gathered.shrink_to_fit();
            }
        }
        let item = self.round.pop_front()?;
        self.waiting_bytes -= item.bytes;
        if self.round.is_empty() && self.round.capacity() > KEPT_CAPACITY {
            self.round = VecDeque::new();
        }
        Some(item)
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
