//! The actor of one client. It only controls; no event passes through it.

use std::future::poll_fn;
use std::rc::Rc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};

use crate::catch_up;
use crate::close_code::CloseCode;
use crate::hub::Hub;
use crate::slot::Slot;

/// Brings its client to the live stream, and stays until the connection has ended. It lives on the thread that
/// serves the client's socket.
pub struct SessionActor {
    control: Control,
    requested: Option<String>,
}

/// What the actor holds of its session. However the actor ends, the client is not left waiting.
#[derive(Clone)]
struct Control {
    hub: Rc<Hub>,
    slot: Rc<Slot>,
}

impl SessionActor {
    /// `requested` is what the client resumes from.
    pub(crate) fn new(hub: Rc<Hub>, slot: Rc<Slot>, requested: Option<String>) -> Self {
        Self { control: Control { hub, slot }, requested }
    }
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let ended = run(self.control.clone(), self.requested.take());
        ctx.spawn(ended.into_actor(self).map(|(), _, ctx| ctx.stop()));
    }
}

impl Drop for SessionActor {
    fn drop(&mut self) {
        let Control { hub, slot } = &self.control;
        let code = if hub.shared.is_draining() { CloseCode::ShuttingDown } else { CloseCode::InternalError };
        hub.close(slot, code);
    }
}

async fn run(Control { hub, slot }: Control, requested: Option<String>) {
    if let Some(requested) = requested {
        // Boxed, since most clients never catch up and each keeps this future for its life.
        let caught_up = Box::pin(catch_up::run(&hub, &slot, &requested)).await;
        if let Err(error) = caught_up {
            tracing::warn!(code = error.code(), %error, "a client cannot catch up: the log cannot be read");
            hub.close(&slot, CloseCode::StoreUnavailable);
        }
    }
    poll_fn(|context| slot.poll_gone(context)).await;
}
