//! The connections of one worker thread, and their subscriptions, grouped by what they want.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use freshet_broadcaster::Batch;
use freshet_feed::{ChannelName, Position, Principal, Rooms, Scope};
use tokio::sync::Notify;

use crate::close_code::CloseCode;
use crate::connection::{Connection, Given, State};
use crate::delivery::Delivery;
use crate::frames;
use crate::interest::{Interest, Transport};
use crate::notice;
use crate::pace::{self, Pace};
use crate::protocol::answer::{Answer, Missing};
use crate::renewal::RenewalRefused;
use crate::sessions::Shared;
use crate::subscription::{Stage, Subscription};

/// Subscriptions that want the same, and so share the same bytes.
type Group = Vec<Rc<Subscription>>;

/// A connection that was closed may take so many ticks to end by itself.
const LINGER_TICKS: u32 = 5;

/// Gives each batch to the clients of its thread, and remembers how far it came. Nothing here waits; what does
/// is in [`hub_task`](crate::hub_task).
pub(crate) struct Hub {
    pub(crate) shared: Arc<Shared>,
    groups: RefCell<HashMap<Rc<Interest>, Group>>,
    connections: RefCell<Vec<Rc<Connection>>>,
    /// The newest event that was given to the live clients of this thread.
    position: Cell<Position>,
    /// The event at the position, while it is known and an `id` line can carry its id.
    newest: RefCell<Option<Newest>>,
    /// Wakes clients that are ahead of this thread.
    pub(crate) advanced: Notify,
    tick: Cell<u32>,
    /// Whoever came last: most clients of a daemon without authentication are the same.
    last_holder: RefCell<Rc<Principal>>,
}

impl Hub {
    pub(crate) fn new(shared: Arc<Shared>, position: Position) -> Rc<Self> {
        let held = position.offset.checked_sub(1).and_then(|before| shared.live.after(before));
        let newest = held.and_then(|batch| newest_at(&batch, position.offset));
        Rc::new(Self {
            shared,
            groups: RefCell::default(),
            connections: RefCell::default(),
            position: Cell::new(position),
            newest: RefCell::new(newest),
            advanced: Notify::new(),
            tick: Cell::new(0),
            last_holder: RefCell::default(),
        })
    }

    pub(crate) fn position(&self) -> Position {
        self.position.get()
    }

    /// From where a client resumes that has everything up to the position: the event's id, since instances with logs of
    /// their own know it too; the position while no event's id is known, or where the event is not the client's to know.
    pub(crate) fn id_for(&self, scope: &Scope) -> Rc<str> {
        let newest = self.newest.borrow();
        let known = newest.as_ref().filter(|newest| newest.belongs_to(scope));
        known.map_or_else(|| self.position().to_string().into(), |newest| Rc::clone(&newest.id))
    }

    /// Takes a client in.
    pub(crate) fn connect(&self, transport: Transport, principal: Principal) -> Rc<Connection> {
        let heartbeat_secs = self.shared.config.heartbeat_secs;
        let tenth = heartbeat_secs / 10;
        let heartbeat_ticks = fastrand::u64(heartbeat_secs - tenth..=heartbeat_secs + tenth).max(1);
        let heartbeat_ticks = u16::try_from(heartbeat_ticks).unwrap_or(u16::MAX);
        let connection = Connection::new(transport, self.holder(principal), heartbeat_ticks);
        let mut connections = self.connections.borrow_mut();
        connection.index.set(index_of(connections.len()));
        connection.quiet_since.set(self.tick.get());
        connections.push(Rc::clone(&connection));
        connection
    }

    fn holder(&self, principal: Principal) -> Rc<Principal> {
        let mut last = self.last_holder.borrow_mut();
        if **last != principal {
            *last = Rc::new(principal);
        }
        Rc::clone(&last)
    }

    /// Lets a session go on with another token of its holder, when that allows all that the session follows.
    pub(crate) fn renew(&self, connection: &Connection, principal: Principal) -> Result<(), RenewalRefused> {
        let mut allows_all = true;
        self.each_subscription(|subscription| {
            if std::ptr::eq(Rc::as_ptr(&subscription.connection), connection) {
                allows_all &= self.allows(&principal, &subscription.interest);
            }
        });
        if !allows_all {
            return Err(RenewalRefused::allows_less());
        }
        connection.hold(self.holder(principal));
        Ok(())
    }

    fn allows(&self, principal: &Principal, interest: &Interest) -> bool {
        interest.scope.channels().iter().all(|(channel, rooms)| {
            let named: &[Box<str>] = match rooms {
                Rooms::All => &[],
                Rooms::Only(names) => names,
            };
            let names = named.iter().map(|room| &**room);
            let scope = self.shared.channels.scope(principal, [channel.as_str()], names);
            scope.is_ok_and(|scope| scope.rooms_of(channel) == Some(rooms))
        })
    }

    /// Looks at what the clients of this thread follow.
    pub(crate) fn each_subscription(&self, mut look: impl FnMut(&Subscription)) {
        for group in self.groups.borrow().values() {
            group.iter().filter(|subscription| subscription.is_open()).for_each(|found| look(found));
        }
    }

    /// Lets a client go, whose subscriptions are gone.
    pub(crate) fn disconnect(&self, connection: &Rc<Connection>) {
        let mut connections = self.connections.borrow_mut();
        let index = connection.index.get() as usize;
        if !connections.get(index).is_some_and(|found| Rc::ptr_eq(found, connection)) {
            return;
        }
        connections.swap_remove(index);
        if let Some(moved) = connections.get(index) {
            moved.index.set(connection.index.get());
        }
    }

    /// Takes a subscription in. When it is live, its first event is the one after [`position`](Self::position).
    pub(crate) fn subscribe(
        &self,
        connection: &Rc<Connection>,
        interest: Interest,
        pace: Option<Box<Pace>>,
        stage: Stage,
    ) -> Rc<Subscription> {
        let mut groups = self.groups.borrow_mut();
        let interest =
            groups.get_key_value(&interest).map_or_else(|| Rc::new(interest), |(known, _)| Rc::clone(known));
        let subscription = Subscription::new(Rc::clone(connection), Rc::clone(&interest), pace, stage);
        let group = groups.entry(interest).or_default();
        subscription.index.set(index_of(group.len()));
        if stage == Stage::Live {
            subscription.move_id();
        }
        group.push(Rc::clone(&subscription));
        subscription
    }

    /// Lets a subscription go.
    pub(crate) fn unsubscribe(&self, subscription: &Subscription) {
        subscription.end();
        let mut groups = self.groups.borrow_mut();
        let Some(group) = groups.get_mut(&subscription.interest) else { return };
        let index = subscription.index.get() as usize;
        if !group.get(index).is_some_and(|found| std::ptr::eq(Rc::as_ptr(found), subscription)) {
            return;
        }
        group.swap_remove(index);
        if let Some(moved) = group.get(index) {
            moved.index.set(subscription.index.get());
        }
        if group.is_empty() {
            groups.remove(&subscription.interest);
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
        for (interest, group) in &*self.groups.borrow() {
            if let Some(delivery) = Delivery::select(batch, range.clone(), interest) {
                self.give(group, delivery);
            }
        }
        self.advance_to(Position { offset: batch.last(), ..position }, newest_at(batch, batch.last()));
    }

    /// Events up to `before_oldest` can be read no more, and these clients never saw them. In another epoch these are
    /// all the events of the log that was.
    pub(crate) fn tell_gap(&self, before_oldest: Position) {
        let requested = self.position.get().to_string();
        let newest = self.shared.live.position().unwrap_or(before_oldest);
        let mut told = 0;
        for (interest, group) in &*self.groups.borrow() {
            let bytes = gap_for(interest, &requested, before_oldest, newest);
            let delivery = Rc::new(Delivery::notice(bytes));
            for subscription in group.iter().filter(|subscription| subscription.stage() == Stage::Live) {
                self.give_one(&subscription.connection, &delivery);
                told += 1;
            }
        }
        self.shared.counters.gaps.fetch_add(told, Relaxed);
        self.advance_to(before_oldest, None);
    }

    fn advance_to(&self, position: Position, newest: Option<Newest>) {
        self.position.set(position);
        self.newest.replace(newest);
        self.advanced.notify_waiters();
    }

    fn give(&self, group: &Group, delivery: Delivery) {
        let bytes = delivery.bytes().len() as u64;
        let events = delivery.event_count() as u64;
        let delivery = Rc::new(delivery);
        let mut given = 0;
        for subscription in group.iter().filter(|subscription| subscription.stage() == Stage::Live) {
            given += u64::from(self.give_events(subscription, &delivery));
        }
        let counters = &self.shared.counters;
        counters.events.fetch_add(events * given, Relaxed);
        counters.bytes.fetch_add(bytes * given, Relaxed);
    }

    /// Gives a subscription events, at its own pace if it has one.
    pub(crate) fn give_events(&self, subscription: &Subscription, delivery: &Rc<Delivery>) -> bool {
        match &subscription.pace {
            None => self.give_one(&subscription.connection, delivery),
            Some(pace) => {
                subscription.connection.is_open() && pace::offer(self, subscription, pace, delivery)
            }
        }
    }

    /// Gives one client a delivery and counts what became of it. Returns whether it is written, or waits for the
    /// client.
    pub(crate) fn give_one(&self, connection: &Connection, delivery: &Rc<Delivery>) -> bool {
        // One that is closed lingers for a while, whatever comes meanwhile.
        if connection.is_open() {
            connection.quiet_since.set(self.tick.get());
        }
        match connection.give(delivery, &self.shared.config, &self.shared.channels) {
            Given::Taken => true,
            Given::LeftOut(events) => {
                self.shared.counters.coalesced.fetch_add(events, Relaxed);
                true
            }
            Given::ClosedFull { left_out, dropped } => {
                connection.quiet_since.set(self.tick.get());
                self.shared.counters.coalesced.fetch_add(left_out, Relaxed);
                self.shared.counters.dropped.fetch_add(dropped, Relaxed);
                self.shared.counters.count_closed(CloseCode::OutboxFull);
                false
            }
            Given::Over => false,
        }
    }

    /// Says something to one client.
    pub(crate) fn say(&self, connection: &Connection, bytes: bytes::Bytes) -> bool {
        self.give_one(connection, &Rc::new(Delivery::notice(bytes)))
    }

    /// Ends a session, if it is open, and counts it.
    pub(crate) fn close(&self, connection: &Connection, code: CloseCode) {
        if let Some(dropped) = connection.close(code, &self.shared.config) {
            connection.quiet_since.set(self.tick.get());
            self.shared.counters.dropped.fetch_add(dropped, Relaxed);
            self.shared.counters.count_closed(code);
        }
    }

    /// All clients of this thread.
    pub(crate) fn connections(&self) -> Vec<Rc<Connection>> {
        self.connections.borrow().clone()
    }

    /// One second is over: clients that heard nothing for their heartbeat time get one, those whose token has ended are
    /// closed, and those that were closed and linger are cut off. A heartbeat of server-sent events carries an id for
    /// those that filter: the last event that the others had is the newest.
    pub(crate) fn tick(&self, now_secs: i64) {
        let tick = self.tick.get() + 1;
        self.tick.set(tick);
        let ping = Rc::new(Delivery::notice(frames::ping()));
        let newest = self.newest.borrow();
        let at = |id: &str| Rc::new(Delivery::notice(notice::heartbeat(Some(id))));
        let with_position = at(&self.position().to_string());
        let with_id = newest.as_ref().map(|newest| (newest, at(&newest.id)));
        let plain = Rc::new(Delivery::notice(notice::heartbeat(None)));
        let mut given = 0;
        for connection in &*self.connections.borrow() {
            if connection.has_expired(now_secs) {
                self.close(connection, CloseCode::TokenExpired);
            }
            let quiet_ticks = tick - connection.quiet_since.get();
            if connection.state() == State::Closed && quiet_ticks >= LINGER_TICKS {
                let dropped = connection.is_over();
                self.shared.counters.dropped.fetch_add(dropped, Relaxed);
            }
            if quiet_ticks < u32::from(connection.heartbeat_ticks) || !connection.waits_for_nothing() {
                continue;
            }
            let heartbeat = match connection.transport {
                Transport::Websocket => &ping,
                Transport::Sse => match (&*connection.moved_by.borrow(), &with_id) {
                    (None, _) => &plain,
                    (Some(interest), Some((newest, with_id))) if newest.belongs_to(&interest.scope) => {
                        with_id
                    }
                    (Some(_), _) => &with_position,
                },
            };
            given += u64::from(self.give_one(connection, heartbeat));
        }
        self.shared.counters.heartbeats.fetch_add(given, Relaxed);
    }
}

/// What is told of events that are gone.
pub(crate) fn gap_for(
    interest: &Interest,
    requested: &str,
    before_oldest: Position,
    newest: Position,
) -> bytes::Bytes {
    let oldest = Position { offset: before_oldest.offset + 1, ..before_oldest };
    match (interest.transport, interest.scope.channels().first()) {
        (Transport::Websocket, Some((channel, _))) => {
            Answer::Gap { channel, missing: Missing { requested, oldest, newest } }.frame()
        }
        _ => notice::gap(requested, before_oldest, newest),
    }
}

/// What clients may be told of the newest event.
struct Newest {
    id: Rc<str>,
    channel: ChannelName,
    room: Option<Box<str>>,
}

impl Newest {
    fn belongs_to(&self, scope: &Scope) -> bool {
        scope.holds_room(&self.channel, self.room.as_deref())
    }
}

/// The batch's event at this offset, if an `id` line can carry its id.
fn newest_at(batch: &Batch, offset: u64) -> Option<Newest> {
    let rendered = batch.events().iter().rfind(|rendered| rendered.offset == offset)?;
    let event = &rendered.event;
    let id = event.event_id.as_str();
    (!id.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0'))).then(|| Newest {
        id: id.into(),
        channel: event.channel.clone(),
        room: event.room.as_deref().map(Box::from),
    })
}

/// A process has fewer open files than a `u32` counts.
fn index_of(clients: usize) -> u32 {
    u32::try_from(clients).unwrap_or(u32::MAX)
}
