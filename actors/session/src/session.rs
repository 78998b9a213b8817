//! The actor of one client: it reads and writes the client's socket when the hub could not, brings subscriptions to the
//! live stream, and ends with the connection. Events pass it only when the socket was full.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context as TaskContext, Poll};

use actix::fut::ActorFuture;
use actix::{Actor, ActorContext, AsyncContext, Context, WrapFuture};

use crate::catch_up::{self, Resume};
use crate::close_code::CloseCode;
use crate::connection::{Connection, State};
use crate::hub::Hub;
use crate::pace::PaceTimer;
use crate::subscription::Subscription;
use crate::websocket::Websocket;

/// What one read takes at most.
const READ_BYTES: usize = 16 << 10;
/// After so many reads of one client others have their turn.
const READS_AT_ONCE: usize = 8;

thread_local! {
    /// No client needs a buffer of its own: what is read is understood at once.
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// One client. It lives on the thread that serves the client's socket. However it ends, the client is not left waiting.
pub struct SessionActor {
    pub(crate) hub: Rc<Hub>,
    pub(crate) connection: Rc<Connection>,
    pub(crate) kind: Kind,
}

/// What differs between the transports.
pub(crate) enum Kind {
    /// One subscription for the life of the stream, and what it resumes from.
    Sse { subscription: Rc<Subscription>, resume: Option<Box<str>> },
    /// Any number of subscriptions. Boxed, since most clients are of the other kind and have no use for its size.
    Websocket(Box<Websocket>),
}

impl SessionActor {
    pub(crate) fn new(hub: Rc<Hub>, connection: Rc<Connection>, kind: Kind) -> Self {
        let counters = &hub.shared.counters;
        counters.sessions.fetch_add(1, Relaxed);
        counters.opened.fetch_add(1, Relaxed);
        Self { hub, connection, kind }
    }

    pub(crate) fn start_catch_up(
        &self,
        ctx: &mut Context<Self>,
        subscription: Rc<Subscription>,
        resume: Resume,
        id: Option<String>,
    ) {
        ctx.spawn(catch_up(Rc::clone(&self.hub), subscription, resume, id).into_actor(self));
    }

    fn received(&mut self, bytes: &[u8], ctx: &mut Context<Self>) {
        if matches!(self.kind, Kind::Websocket(_)) {
            Websocket::received(self, bytes, ctx);
        }
    }
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        // Whatever else it waits for ends with this one.
        ctx.spawn(SocketIo { timer: PaceTimer::default() });
        if let Kind::Sse { subscription, resume } = &mut self.kind
            && let Some(resume) = resume.take()
        {
            let subscription = Rc::clone(subscription);
            self.start_catch_up(ctx, subscription, Resume::LastEventId(resume), None);
        }
    }
}

impl Drop for SessionActor {
    fn drop(&mut self) {
        let is_draining = self.hub.shared.is_draining();
        let code = if is_draining { CloseCode::ShuttingDown } else { CloseCode::InternalError };
        self.hub.close(&self.connection, code);
        let dropped = self.connection.is_over();
        self.hub.shared.counters.dropped.fetch_add(dropped, Relaxed);
        match &mut self.kind {
            Kind::Sse { subscription, .. } => self.hub.unsubscribe(subscription),
            Kind::Websocket(websocket) => websocket.unsubscribe_all(&self.hub),
        }
        self.hub.disconnect(&self.connection);
        self.hub.shared.session_ended();
    }
}

/// Reads and writes the socket until the connection is over, and then stops the actor.
struct SocketIo {
    timer: PaceTimer,
}

impl ActorFuture<SessionActor> for SocketIo {
    type Output = ();

    fn poll(
        mut self: Pin<&mut Self>,
        actor: &mut SessionActor,
        ctx: &mut Context<SessionActor>,
        task: &mut TaskContext<'_>,
    ) -> Poll<()> {
        let connection = Rc::clone(&actor.connection);
        connection.remember_io(task);
        if transfer(&connection, actor, ctx, task).is_pending() && connection.state() != State::Gone {
            // Afterwards, since the socket has room now if it ever has.
            if let Kind::Websocket(websocket) = &actor.kind {
                websocket.send_paced(&actor.hub, &mut self.timer, task);
            }
            return Poll::Pending;
        }
        connection.is_over();
        ctx.stop();
        Poll::Ready(())
    }
}

/// Moves what can be moved. Ready when the connection is over.
fn transfer(
    connection: &Connection,
    actor: &mut SessionActor,
    ctx: &mut Context<SessionActor>,
    task: &mut TaskContext<'_>,
) -> Poll<()> {
    for _ in 0..READS_AT_ONCE {
        let read = READ_BUFFER.with_borrow_mut(|buffer| match connection.poll_read(task, buffer) {
            Poll::Ready(Ok(count)) if count > 0 => {
                actor.received(&buffer[..count], ctx);
                Poll::Ready(true)
            }
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        });
        match read {
            Poll::Ready(true) => {}
            Poll::Ready(false) => return Poll::Ready(()),
            Poll::Pending => return write(connection, actor, task),
        }
    }
    task.waker().wake_by_ref();
    write(connection, actor, task)
}

fn write(connection: &Connection, actor: &SessionActor, task: &mut TaskContext<'_>) -> Poll<()> {
    match connection.poll_write(task) {
        Poll::Ready(Err(_)) => Poll::Ready(()),
        // The last words are written. A WebSocket client has its own to say, and a while for it.
        Poll::Ready(Ok(())) if connection.state() == State::Closed => match &actor.kind {
            Kind::Websocket(websocket) if websocket.awaits_close() => Poll::Pending,
            Kind::Websocket(_) => {
                // A socket that is dropped with something unread tells the client so before it could read why. It is
                // dropped when the client ends its side, or after a while.
                connection.end_writing();
                Poll::Pending
            }
            Kind::Sse { .. } => Poll::Ready(()),
        },
        _ => Poll::Pending,
    }
}

async fn catch_up(hub: Rc<Hub>, subscription: Rc<Subscription>, resume: Resume, id: Option<String>) {
    let result = catch_up::run(&hub, &subscription, &resume, id.as_deref()).await;
    let failed_before = hub.shared.catch_up_fails.swap(result.is_err(), Relaxed);
    if let Err(error) = result {
        // In an outage all clients that come back fail the same way: one warning says it.
        if failed_before {
            tracing::debug!(code = error.code(), %error, "another client cannot catch up");
        } else {
            tracing::warn!(code = error.code(), %error, "clients cannot catch up: the log cannot be read");
        }
        hub.close(&subscription.connection, CloseCode::StoreUnavailable);
    }
}
