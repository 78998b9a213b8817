//! One client's place on its worker thread: an outbox, the waker of the body that drains it, and its state.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use freshet_feed::EventFilter;

use crate::close_code::CloseCode;
use crate::config::Config;
use crate::delivery::Delivery;
use crate::notice;
use crate::outbox::{Outbox, Pushed};

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its actor reads what it missed; the hub passes it over.
    CatchingUp,
    /// The hub gives it each batch.
    Live,
    /// Ended by the daemon; at most the close notice waits.
    Closed,
    /// Its body is gone.
    Gone,
}

/// Shared by the hub that fills it, the body that drains it and the actor that controls it, all on one thread.
///
/// Each connection has one, so its fields are no wider than they need be.
pub(crate) struct Slot {
    /// What the client wants; the key of its group.
    pub(crate) filter: Rc<EventFilter>,
    /// Where it stands in its group.
    pub(crate) index: Cell<u32>,
    /// The tick of the hub at which it was last given something.
    pub(crate) quiet_since: Cell<u32>,
    /// After so many quiet ticks it gets a heartbeat.
    pub(crate) heartbeat_ticks: u16,
    state: Cell<State>,
    outbox: RefCell<Outbox>,
    body: Cell<Option<Waker>>,
    actor: Cell<Option<Waker>>,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// It waits for the client.
    Queued,
    /// It waits; this many older events do not any more.
    Coalesced(u64),
    /// It did not fit, and the session was closed for it.
    ClosedFull {
        /// Events left out before it was known that this is not enough.
        coalesced: u64,
        /// Events that are not written any more.
        dropped: u64,
    },
    /// The session is over.
    Over,
}

impl Slot {
    pub(crate) fn new(filter: Rc<EventFilter>, state: State, heartbeat_ticks: u16) -> Rc<Self> {
        Rc::new(Self {
            filter,
            index: Cell::new(0),
            quiet_since: Cell::new(0),
            heartbeat_ticks,
            state: Cell::new(state),
            outbox: RefCell::default(),
            body: Cell::default(),
            actor: Cell::default(),
        })
    }

    pub(crate) fn state(&self) -> State {
        self.state.get()
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state.get(), State::CatchingUp | State::Live)
    }

    pub(crate) fn go_live(&self) {
        if self.state.get() == State::CatchingUp {
            self.state.set(State::Live);
        }
    }

    /// Queues a delivery and wakes the body.
    pub(crate) fn give(&self, delivery: &Rc<Delivery>, config: &Config) -> Given {
        if !self.is_open() {
            return Given::Over;
        }
        let pushed = self.outbox.borrow_mut().push(delivery, config.outbox_max_bytes, config.when_full);
        match pushed {
            Pushed::Full(coalesced) => {
                let dropped = self.close(CloseCode::OutboxFull, config).unwrap_or_default();
                return Given::ClosedFull { coalesced, dropped };
            }
            Pushed::Queued | Pushed::Coalesced(_) => wake(&self.body),
        }
        if let Pushed::Coalesced(left_out) = pushed { Given::Coalesced(left_out) } else { Given::Queued }
    }

    /// Ends the session. What waits is dropped at once, since the body of a stalled socket is not polled; the close
    /// notice takes its place. Returns how many events were dropped, if it was open.
    pub(crate) fn close(&self, code: CloseCode, config: &Config) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        self.state.set(State::Closed);
        let farewell = Rc::new(Delivery::notice(notice::close(code, config.retry())));
        let mut outbox = self.outbox.borrow_mut();
        let dropped = outbox.clear();
        outbox.push(&farewell, config.outbox_max_bytes, config.when_full);
        drop(outbox);
        wake(&self.body);
        wake(&self.actor);
        Some(dropped)
    }

    /// Its body is gone: nothing can reach the client any more. Returns how many events were dropped.
    pub(crate) fn body_is_gone(&self) -> u64 {
        self.state.set(State::Gone);
        let dropped = self.outbox.borrow_mut().clear();
        self.body.take();
        wake(&self.actor);
        dropped
    }

    pub(crate) fn has_nothing_queued(&self) -> bool {
        self.outbox.borrow().is_empty()
    }

    /// For the body: the next bytes to write; nothing once the session is over.
    pub(crate) fn poll_take(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(bytes) = self.outbox.borrow_mut().take() {
            // Only a client that catches up has an actor that waits for room; waking the others would cost as much as
            // the delivery does.
            if self.state.get() == State::CatchingUp {
                wake(&self.actor);
            }
            return Poll::Ready(Some(bytes));
        }
        if !self.is_open() {
            return Poll::Ready(None);
        }
        remember(&self.body, context);
        Poll::Pending
    }

    /// For the actor that catches up: ready when so many bytes fit, or when the session is over. It leaves most of
    /// the outbox to the live events that follow.
    pub(crate) fn poll_room(&self, bytes: usize, config: &Config, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_open() || self.outbox.borrow().fits(bytes, config.outbox_max_bytes / 4) {
            return Poll::Ready(());
        }
        remember(&self.actor, context);
        Poll::Pending
    }

    /// For the actor: ready when the body is gone.
    pub(crate) fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.state.get() == State::Gone {
            return Poll::Ready(());
        }
        remember(&self.actor, context);
        Poll::Pending
    }
}

fn wake(waker: &Cell<Option<Waker>>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

fn remember(waker: &Cell<Option<Waker>>, context: &Context<'_>) {
    let known = waker.take().filter(|known| known.will_wake(context.waker()));
    waker.set(Some(known.unwrap_or_else(|| context.waker().clone())));
}
