//! The actor of one client. It only controls; no event passes through it.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Poll, ready};

use actix::fut::ActorFuture;
use actix::{Actor, ActorContext, AsyncContext, Context, WrapFuture};

use crate::catch_up;
use crate::close_code::CloseCode;
use crate::hub::Hub;
use crate::slot::Slot;

/// Brings its client to the live stream, and stays until the connection has ended. It lives on the thread that
/// serves the client's socket. However it ends, the client is not left waiting.
pub struct SessionActor {
    hub: Rc<Hub>,
    slot: Rc<Slot>,
    requested: Option<Box<str>>,
}

impl SessionActor {
    /// `requested` is what the client resumes from.
    pub(crate) fn new(hub: Rc<Hub>, slot: Rc<Slot>, requested: Option<Box<str>>) -> Self {
        Self { hub, slot, requested }
    }
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        // A catch-up ends with the connection, whatever it waits for.
        ctx.spawn(UntilGone);
        if let Some(requested) = self.requested.take() {
            ctx.spawn(catch_up(Rc::clone(&self.hub), Rc::clone(&self.slot), requested).into_actor(self));
        }
    }
}

impl Drop for SessionActor {
    fn drop(&mut self) {
        let is_draining = self.hub.shared.is_draining();
        self.hub
            .close(&self.slot, if is_draining { CloseCode::ShuttingDown } else { CloseCode::InternalError });
    }
}

/// Stops the actor when the connection has ended. It holds nothing, since each client keeps one for its life.
struct UntilGone;

impl ActorFuture<SessionActor> for UntilGone {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut SessionActor,
        ctx: &mut Context<SessionActor>,
        task: &mut std::task::Context<'_>,
    ) -> Poll<()> {
        ready!(actor.slot.poll_gone(task));
        ctx.stop();
        Poll::Ready(())
    }
}

async fn catch_up(hub: Rc<Hub>, slot: Rc<Slot>, requested: Box<str>) {
    let result = catch_up::run(&hub, &slot, &requested).await;
    let failed_before = hub.shared.catch_up_fails.swap(result.is_err(), Relaxed);
    if let Err(error) = result {
        // In an outage all clients that come back fail the same way: one warning says it.
        if failed_before {
            tracing::debug!(code = error.code(), %error, "another client cannot catch up");
        } else {
            tracing::warn!(code = error.code(), %error, "clients cannot catch up: the log cannot be read");
        }
        hub.close(&slot, CloseCode::StoreUnavailable);
    }
}
