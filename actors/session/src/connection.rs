//! One client's connection: its socket, what waits for it, and whether it is open.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix_web::rt::net::TcpStream;
use bytes::{Buf, Bytes};
use freshet_feed::{Channels, Principal};
use jiff::Timestamp;
use socket2::SockRef;
use uuid::Uuid;

use crate::close_code::CloseCode;
use crate::config::Config;
use crate::delivery::Delivery;
use crate::interest::{Interest, Transport};
use crate::notice;
use crate::outbox::{Outbox, Pushed};

/// Whether a client can still be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    /// Ended by the daemon; at most the farewell waits.
    Closed,
    /// The connection is over.
    Gone,
}

/// Shared by the hub that writes to it and the actor that controls it, on one thread.
///
/// Each client has one, so its fields are no wider than they need be.
pub(crate) struct Connection {
    pub(crate) client_id: Uuid,
    pub(crate) transport: Transport,
    connected_at_secs: i64,
    /// Whose it is.
    holder: RefCell<Rc<Principal>>,
    /// The second at which it ends with its token.
    ends_at_secs: Cell<i64>,
    /// Where it stands among the connections of its hub.
    pub(crate) index: Cell<u32>,
    /// The tick of the hub at which it was last given something.
    pub(crate) quiet_since: Cell<u32>,
    /// After so many quiet ticks it gets a heartbeat.
    pub(crate) heartbeat_ticks: u16,
    /// A heartbeat moves the id of server-sent events on for a client that filters, and may hear nothing else for days.
    pub(crate) moved_by: RefCell<Option<Rc<Interest>>>,
    state: Cell<State>,
    /// Absent until the head of the response is on the wire.
    socket: OnceCell<TcpStream>,
    outbox: RefCell<Outbox>,
    /// What remains of a write that the socket took in part.
    unwritten: RefCell<Bytes>,
    /// Wakes the task that reads and writes the socket.
    io: Cell<Option<Waker>>,
    /// Wakes a catch-up that waits for room.
    room: Cell<Option<Waker>>,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// It is written, or waits.
    Taken,
    /// It waits; this many older events do not any more.
    LeftOut(u64),
    /// It did not fit, and the session was closed for it.
    ClosedFull {
        /// Events left out before it was known that this is not enough.
        left_out: u64,
        /// Events that are not written any more.
        dropped: u64,
    },
    /// The session is over.
    Over,
}

impl Connection {
    pub(crate) fn new(transport: Transport, holder: Rc<Principal>, heartbeat_ticks: u16) -> Rc<Self> {
        Rc::new(Self {
            client_id: Uuid::new_v4(),
            transport,
            connected_at_secs: Timestamp::now().as_second(),
            ends_at_secs: Cell::new(end_of(&holder)),
            holder: RefCell::new(holder),
            index: Cell::new(0),
            quiet_since: Cell::new(0),
            heartbeat_ticks,
            moved_by: RefCell::default(),
            state: Cell::new(State::Open),
            socket: OnceCell::new(),
            outbox: RefCell::default(),
            unwritten: RefCell::default(),
            io: Cell::default(),
            room: Cell::default(),
        })
    }

    pub(crate) fn state(&self) -> State {
        self.state.get()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.get() == State::Open
    }

    pub(crate) fn holder(&self) -> Rc<Principal> {
        Rc::clone(&self.holder.borrow())
    }

    /// From now on it is theirs, and ends with their token.
    pub(crate) fn hold(&self, holder: Rc<Principal>) {
        self.ends_at_secs.set(end_of(&holder));
        self.holder.replace(holder);
    }

    /// Whether its token has ended at this second.
    pub(crate) fn has_expired(&self, now_secs: i64) -> bool {
        self.ends_at_secs.get() <= now_secs
    }

    /// To the second.
    pub(crate) fn connected_at(&self) -> Timestamp {
        Timestamp::from_second(self.connected_at_secs).unwrap_or_default()
    }

    /// Bytes that wait for the client.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.unwritten.borrow().len() + self.outbox.borrow().bytes()
    }

    /// The socket is the session's from now on.
    pub(crate) fn attach(&self, socket: TcpStream) {
        let _one_response_has_one_socket = self.socket.set(socket);
        wake(&self.io);
    }

    pub(crate) fn has_socket(&self) -> bool {
        self.socket.get().is_some()
    }

    /// Writes a delivery, or lets it wait behind what waits.
    pub(crate) fn give(&self, delivery: &Rc<Delivery>, config: &Config, channels: &Channels) -> Given {
        if !self.is_open() {
            return Given::Over;
        }
        if self.waits_for_nothing() && self.write_at_once(delivery.bytes()) {
            return Given::Taken;
        }
        let unwritten = self.unwritten.borrow().len();
        let max_bytes = config.outbox_max_bytes.saturating_sub(unwritten);
        let pushed = self.outbox.borrow_mut().push(delivery, max_bytes, channels);
        match pushed {
            Pushed::Queued => {
                wake(&self.io);
                Given::Taken
            }
            Pushed::LeftOut(events) => {
                wake(&self.io);
                Given::LeftOut(events)
            }
            Pushed::Full(left_out) => {
                let dropped = self.close(CloseCode::OutboxFull, config).unwrap_or_default();
                Given::ClosedFull { left_out, dropped }
            }
        }
    }

    /// Writes to a socket that took everything before. What it takes only in part remains unwritten. Returns whether
    /// nothing of it is to be queued.
    fn write_at_once(&self, bytes: &Bytes) -> bool {
        let Some(socket) = self.socket.get() else { return false };
        let Ok(written) = socket.try_write(bytes) else { return false };
        if written < bytes.len() {
            self.unwritten.replace(bytes.slice(written..));
            wake(&self.io);
        }
        true
    }

    /// Ends the session. What waits is dropped at once; the farewell takes its place, behind the rest of a write that
    /// was begun. Returns how many events were dropped, if it was open.
    pub(crate) fn close(&self, code: CloseCode, config: &Config) -> Option<u64> {
        let farewell = match self.transport {
            Transport::Sse => notice::close(code, config.retry()),
            Transport::Websocket => notice::websocket_close(code),
        };
        self.close_with(farewell)
    }

    /// The same with other last words.
    pub(crate) fn close_with(&self, farewell: Bytes) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        self.state.set(State::Closed);
        let dropped = self.outbox.take().clear();
        if !(self.unwritten.borrow().is_empty() && self.write_at_once(&farewell)) {
            self.outbox.borrow_mut().push_last(Rc::new(Delivery::notice(farewell)));
        }
        wake(&self.io);
        wake(&self.room);
        Some(dropped)
    }

    /// Nothing can reach the client any more. Returns how many events were dropped.
    pub(crate) fn is_over(&self) -> u64 {
        self.state.set(State::Gone);
        self.unwritten.take();
        let dropped = self.outbox.take().clear();
        wake(&self.io);
        wake(&self.room);
        dropped
    }

    pub(crate) fn waits_for_nothing(&self) -> bool {
        self.unwritten.borrow().is_empty() && self.outbox.borrow().is_empty()
    }

    /// The next bytes to write.
    pub(crate) fn take(&self) -> Option<Bytes> {
        let unwritten = self.unwritten.take();
        if !unwritten.is_empty() {
            return Some(unwritten);
        }
        let bytes = self.outbox.borrow_mut().take();
        wake(&self.room);
        bytes
    }

    /// Writes what waits, as far as the socket takes it. Ready when nothing waits.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn poll_write(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(socket) = self.socket.get() else { return Poll::Pending };
        while let Some(mut bytes) = self.take() {
            while !bytes.is_empty() {
                match socket.try_write(&bytes) {
                    Ok(written) => bytes.advance(written),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        match socket.poll_write_ready(context) {
                            Poll::Ready(Ok(())) => {}
                            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                            Poll::Pending => {
                                self.unwritten.replace(bytes);
                                return Poll::Pending;
                            }
                        }
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what the client sent; 0 when it has closed its side.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let Some(socket) = self.socket.get() else { return Poll::Pending };
        loop {
            match socket.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            match socket.poll_read_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The client sees the end, and may still send.
    pub(crate) fn end_writing(&self) {
        if let Some(socket) = self.socket.get() {
            // It fails for a connection that is broken, and reading finds that out too.
            let _ = SockRef::from(socket).shutdown(std::net::Shutdown::Write);
        }
    }

    /// For the task that reads and writes: to be woken when there is something to do.
    pub(crate) fn remember_io(&self, context: &Context<'_>) {
        remember(&self.io, context);
    }

    /// Wakes the task that reads and writes.
    pub(crate) fn wake_io(&self) {
        wake(&self.io);
    }

    /// For a catch-up: ready when so many bytes fit, or when the session is over. It leaves most of the outbox to the
    /// live events that follow.
    pub(crate) fn poll_room(&self, bytes: usize, config: &Config, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_open() || self.outbox.borrow().fits(bytes, config.outbox_max_bytes / 4) {
            return Poll::Ready(());
        }
        remember(&self.room, context);
        Poll::Pending
    }
}

/// The second at which a holder's token ends, later than any for a holder without one.
fn end_of(holder: &Principal) -> i64 {
    holder.expires_at.map_or(i64::MAX, Timestamp::as_second)
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
