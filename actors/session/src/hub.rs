//! The clients of one worker thread, grouped by what they want.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use freshet_broadcaster::Batch;
use freshet_feed::{EventFilter, Position};
use tokio::sync::Notify;

use crate::close_code::CloseCode;
use crate::delivery::Delivery;
use crate::notice;
use crate::sessions::Shared;
use crate::slot::{Given, Slot, State};

/// Clients that want the same, and so share the same bytes.
type Group = Vec<Rc<Slot>>;

/// Gives each batch to the clients of its thread, and remembers how far it came. Nothing here waits; what does
/// is in [`hub_task`](crate::hub_task).
pub(crate) struct Hub {
    pub(crate) shared: Arc<Shared>,
    groups: RefCell<HashMap<Rc<EventFilter>, Group>>,
    /// The newest event that was given to the live clients of this thread.
    position: Cell<Position>,
    /// The id of the event at the position, while it is known and an `id` line can carry it.
    newest_id: RefCell<Option<Rc<str>>>,
    /// Wakes clients that are ahead of this thread.
    pub(crate) advanced: Notify,
    tick: Cell<u32>,
}

impl Hub {
    pub(crate) fn new(shared: Arc<Shared>, position: Position) -> Rc<Self> {
        let held = position.offset.checked_sub(1).and_then(|before| shared.live.after(before));
        let newest_id = held.and_then(|batch| id_at(&batch, position.offset));
        Rc::new(Self {
            shared,
            groups: RefCell::default(),
            position: Cell::new(position),
            newest_id: RefCell::new(newest_id),
            advanced: Notify::new(),
            tick: Cell::new(0),
        })
    }

    pub(crate) fn position(&self) -> Position {
        self.position.get()
    }

    /// From where a client resumes that has everything up to the position: the event's id, since other instances
    /// know it too; the position, which only this instance knows, while no event's id is known.
    pub(crate) fn newest_id(&self) -> Rc<str> {
        let known = self.newest_id.borrow().clone();
        known.unwrap_or_else(|| self.position().to_string().into())
    }

    /// Takes a client in. When it is live, its first event is the one after [`position`](Self::position).
    pub(crate) fn register(&self, filter: EventFilter, state: State) -> Rc<Slot> {
        let mut groups = self.groups.borrow_mut();
        let filter =
            groups.get_key_value(&filter).map_or_else(|| Rc::new(filter), |(known, _)| Rc::clone(known));
        let heartbeat_secs = self.shared.config.heartbeat_secs;
        let tenth = heartbeat_secs / 10;
        let heartbeat_ticks = fastrand::u64(heartbeat_secs - tenth..=heartbeat_secs + tenth).max(1);
        let heartbeat_ticks = u16::try_from(heartbeat_ticks).unwrap_or(u16::MAX);
        let slot = Slot::new(Rc::clone(&filter), state, heartbeat_ticks);
        let group = groups.entry(filter).or_default();
        slot.index.set(index_of(group.len()));
        slot.quiet_since.set(self.tick.get());
        group.push(Rc::clone(&slot));
        slot
    }

    /// Lets a client go.
    pub(crate) fn unregister(&self, slot: &Slot) {
        let mut groups = self.groups.borrow_mut();
        let Some(group) = groups.get_mut(&slot.filter) else { return };
        let index = slot.index.get() as usize;
        if !group.get(index).is_some_and(|found| std::ptr::eq(Rc::as_ptr(found), slot)) {
            return;
        }
        group.swap_remove(index);
        if let Some(moved) = group.get(index) {
            moved.index.set(slot.index.get());
        }
        if group.is_empty() {
            groups.remove(&slot.filter);
        }
    }

    /// Gives the events of a batch that are new to this thread to its live clients.
    pub(crate) fn deliver(&self, batch: &Arc<Batch>) {
        let position = self.position.get();
        if batch.last() <= position.offset {
            return;
        }
        if batch.first() > position.offset + 1 {
            self.tell_gap(Position { offset: batch.first() - 1, ..position });
        }
        let range = batch.range(position.offset, u64::MAX);
        for (filter, group) in &*self.groups.borrow() {
            if let Some(delivery) =
                Delivery::select(batch, range.clone(), filter, self.shared.config.when_full)
            {
                self.give(group, delivery);
            }
        }
        self.advance_to(batch.last(), id_at(batch, batch.last()));
    }

    /// Events up to `before_oldest` can be read no more, and these clients never saw them.
    pub(crate) fn tell_gap(&self, before_oldest: Position) {
        let requested = self.position.get();
        let newest = self.shared.live.position().unwrap_or(before_oldest);
        let mut told = 0;
        let delivery = Rc::new(Delivery::notice(notice::gap(&requested.to_string(), before_oldest, newest)));
        for slot in self.groups.borrow().values().flatten() {
            if slot.state() == State::Live {
                self.give_one(slot, &delivery);
                told += 1;
            }
        }
        self.shared.counters.gaps.fetch_add(told, Relaxed);
        self.advance_to(before_oldest.offset, None);
    }

    fn advance_to(&self, offset: u64, id: Option<Rc<str>>) {
        self.position.set(Position { offset, ..self.position.get() });
        self.newest_id.replace(id);
        self.advanced.notify_waiters();
    }

    fn give(&self, group: &Group, delivery: Delivery) {
        let bytes = delivery.bytes().len() as u64;
        let events = delivery.event_count() as u64;
        let delivery = Rc::new(delivery);
        let mut given = 0;
        for slot in group {
            if slot.state() == State::Live && self.give_one(slot, &delivery) {
                given += 1;
            }
        }
        let counters = &self.shared.counters;
        counters.events.fetch_add(events * given, Relaxed);
        counters.bytes.fetch_add(bytes * given, Relaxed);
    }

    /// Gives one client a delivery and counts what became of it. Returns whether it waits for the client.
    pub(crate) fn give_one(&self, slot: &Slot, delivery: &Rc<Delivery>) -> bool {
        slot.quiet_since.set(self.tick.get());
        match slot.give(delivery, &self.shared.config) {
            Given::Queued => true,
            Given::Coalesced(left_out) => {
                self.shared.counters.coalesced.fetch_add(left_out, Relaxed);
                true
            }
            Given::ClosedFull { coalesced, dropped } => {
                self.shared.counters.coalesced.fetch_add(coalesced, Relaxed);
                self.shared.counters.dropped.fetch_add(dropped, Relaxed);
                self.shared.counters.count_closed(CloseCode::OutboxFull);
                false
            }
            Given::Over => false,
        }
    }

    /// Ends a session, if it is open, and counts it.
    pub(crate) fn close(&self, slot: &Slot, code: CloseCode) {
        if let Some(dropped) = slot.close(code, &self.shared.config) {
            self.shared.counters.dropped.fetch_add(dropped, Relaxed);
            self.shared.counters.count_closed(code);
        }
    }

    /// All clients of this thread.
    pub(crate) fn slots(&self) -> Vec<Rc<Slot>> {
        self.groups.borrow().values().flatten().cloned().collect()
    }

    /// One second is over: clients that heard nothing for their heartbeat time get one. It carries an id for those
    /// that filter only: the last event that the others had is the newest.
    pub(crate) fn tick(&self) {
        let tick = self.tick.get() + 1;
        self.tick.set(tick);
        let with_id = Rc::new(Delivery::notice(notice::heartbeat(Some(&self.newest_id()))));
        let plain = Rc::new(Delivery::notice(notice::heartbeat(None)));
        let mut given = 0;
        for slot in self.groups.borrow().values().flatten() {
            if tick - slot.quiet_since.get() < u32::from(slot.heartbeat_ticks) || !slot.has_nothing_queued() {
                continue;
            }
            let moves_id = slot.state() == State::Live && !slot.filter.is_all();
            let heartbeat = if moves_id { &with_id } else { &plain };
            given += u64::from(self.give_one(slot, heartbeat));
        }
        self.shared.counters.heartbeats.fetch_add(given, Relaxed);
    }
}

/// The id of the batch's event at this offset, if an `id` line can carry it.
fn id_at(batch: &Batch, offset: u64) -> Option<Rc<str>> {
    let rendered = batch.events().iter().rfind(|rendered| rendered.offset == offset)?;
    let id = rendered.event.event_id.as_str();
    (!id.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0'))).then(|| id.into())
}

/// A process has fewer open files than a `u32` counts.
fn index_of(clients: usize) -> u32 {
    u32::try_from(clients).unwrap_or(u32::MAX)
}
