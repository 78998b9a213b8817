//! Runs one incarnation of a child on the thread that it was given: factory, actor, mailbox, end.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, TryLockError, atomic::Ordering::Relaxed},
    task::{Context as TaskContext, Poll},
};

use actix::{ActorContext, AsyncContext, Context, dev::ContextFut, fut::ActorFuture};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    Address, Child, ExitReason, Link, Restart,
    address::{Envelope, Mailbox, taken},
    incarnation::{self, Incarnation},
    node::Node,
    stats::nanos,
    sync::lock,
    unwind,
};

pub(crate) type Factory<A> = Arc<Mutex<dyn Fn(Link<A>) -> A + Send>>;

/// All that it takes to make the actor; it can be sent to another thread.
pub(crate) struct Blueprint<A: Child> {
    pub(crate) factory: Factory<A>,
    pub(crate) address: Address<A>,
    pub(crate) mailbox: Mailbox<A>,
    pub(crate) node: Arc<Node>,
    pub(crate) incarnation: Arc<Incarnation>,
}

/// One run that has not begun.
pub(crate) struct Order<A: Child> {
    pub(crate) blueprint: Blueprint<A>,
    pub(crate) restart: Restart,
    pub(crate) up: oneshot::Sender<()>,
    pub(crate) exit: oneshot::Sender<ExitReason>,
}

/// The running actor. It ends with the reason sent through `exit`, never with a panic.
pub(crate) struct Run<A: Child> {
    blueprint: Option<Blueprint<A>>,
    actor: Option<ContextFut<A, Context<A>>>,
    stop_passed_on: bool,
    incarnation: Arc<Incarnation>,
    node: Arc<Node>,
    restart: Restart,
    up: Option<oneshot::Sender<()>>,
    exit: Option<oneshot::Sender<ExitReason>>,
}

impl<A: Child> Run<A> {
    pub(crate) fn new(order: Order<A>) -> Self {
        let Order { blueprint, restart, up, exit } = order;
        Self {
            incarnation: Arc::clone(&blueprint.incarnation),
            node: Arc::clone(&blueprint.node),
            blueprint: Some(blueprint),
            actor: None,
            stop_passed_on: false,
            restart,
            up: Some(up),
            exit: Some(exit),
        }
    }

    /// Calls the factory and puts the mailbox pump into the new context.
    fn build(&mut self, blueprint: Blueprint<A>) -> Result<(), ExitReason> {
        let Blueprint { factory, address, mailbox, node, incarnation } = blueprint;
        let link = Link::new(address, Arc::clone(&node), Arc::clone(&incarnation));
        // A former run that blocks its thread inside the factory would hold this lock for ever.
        let factory = match factory.try_lock() {
            Ok(factory) => factory,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(ExitReason::Error(
                    "the factory still runs on a thread that was given up".to_owned(),
                ));
            }
        };
        let actor = unwind::catch(|| incarnation::with_current(&incarnation, || factory(link)))
            .map_err(ExitReason::Panic)?;
        drop(factory);
        incarnation.request_observation();
        let mut context = Context::new();
        context.spawn(Pump { mailbox, node, incarnation, in_hand_since: None });
        self.actor = Some(context.into_future(actor));
        Ok(())
    }

    fn step(&mut self, cx: &mut TaskContext<'_>) -> Poll<ExitReason> {
        self.incarnation.register(cx);
        if self.incarnation.killed() {
            return Poll::Ready(self.incarnation.kill_reason());
        }
        if let Some(blueprint) = self.blueprint.take() {
            if self.incarnation.stop_requested() {
                return Poll::Ready(ExitReason::Shutdown);
            }
            if let Err(reason) = self.build(blueprint) {
                return Poll::Ready(reason);
            }
        }
        let Some(actor) = self.actor.as_mut() else {
            return Poll::Ready(ExitReason::Killed);
        };
        if self.incarnation.stop_requested() && !self.stop_passed_on {
            self.stop_passed_on = true;
            actor.ctx().stop();
        }
        self.incarnation.begin_turn();
        let incarnation = Arc::clone(&self.incarnation);
        let polled =
            unwind::catch(|| incarnation::with_current(&incarnation, || Pin::new(&mut *actor).poll(cx)));
        match polled {
            Err(message) => Poll::Ready(ExitReason::Panic(message)),
            Ok(Poll::Ready(())) if self.incarnation.killed() => Poll::Ready(self.incarnation.kill_reason()),
            Ok(Poll::Ready(())) => Poll::Ready(self.incarnation.orderly_reason()),
            Ok(Poll::Pending) => {
                if let Some(up) = self.up.take() {
                    // Nobody listens when the supervisor is gone, and then nothing is lost.
                    let _ = up.send(());
                }
                Poll::Pending
            }
        }
    }

    /// Drops the actor without running its hooks, and returns the message of a panic in its drop.
    fn discard(&mut self) -> Result<(), String> {
        let Some(mut actor) = self.actor.take() else {
            return Ok(());
        };
        // After a panic or a kill the state may be half-changed. A terminated context runs no hook when it is dropped.
        actor.ctx().terminate();
        unwind::catch(move || drop(actor))
    }
}

impl<A: Child> Future for Run<A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let Poll::Ready(mut reason) = self.step(cx) else {
            return Poll::Pending;
        };
        if let Err(message) = self.discard()
            && !matches!(reason, ExitReason::Panic(_))
        {
            reason = ExitReason::Panic(message);
        }
        if !self.restart.brings_back(&reason) {
            // Callers whose message was in hand may look before the supervisor does.
            self.node.close();
        }
        if let Some(exit) = self.exit.take() {
            let _ = exit.send(reason);
        }
        Poll::Ready(())
    }
}

impl<A: Child> Drop for Run<A> {
    fn drop(&mut self) {
        // Only when its thread's runtime ends under it; the supervisor sees the closed channel.
        let _ = self.discard();
    }
}

/// Moves messages from the kernel's mailbox to the actor. It lives in the actor's context, so `ctx.wait` pauses it.
struct Pump<A: Child> {
    mailbox: Mailbox<A>,
    node: Arc<Node>,
    incarnation: Arc<Incarnation>,
    /// When the message was taken that made the context wait.
    in_hand_since: Option<Instant>,
}

impl<A: Child> Pump<A> {
    fn next(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Envelope<A>>> {
        match lock(&self.mailbox).as_mut() {
            Some(receiver) => receiver.poll_recv(cx),
            None => Poll::Ready(None),
        }
    }

    fn count_processing(&self, since: Instant, until: Instant) {
        let spent = nanos(until.saturating_duration_since(since));
        self.node.counters.processing_nanos.fetch_add(spent, Relaxed);
    }
}

/// Asks to be polled again after the thread has run its other tasks and looked at its sockets and timers, as
/// `tokio::task::yield_now` does. Waking at once would come before those.
fn yield_to_thread(cx: &mut TaskContext<'_>) {
    let yielding = std::pin::pin!(tokio::task::yield_now());
    // The first poll of it is always pending and leaves our waker with the runtime.
    let _ = yielding.poll(cx);
}

impl<A: Child> ActorFuture<A> for Pump<A> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, actor: &mut A, ctx: &mut Context<A>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.incarnation.mark_ready();
        if let Some(since) = this.in_hand_since.take() {
            this.count_processing(since, Instant::now());
        }
        if this.incarnation.take_observation_request() {
            this.node.set_observed(actor.observe());
        }
        loop {
            if this.incarnation.killed() {
                ctx.terminate();
                return Poll::Pending;
            }
            if !this.incarnation.spend_turn() {
                yield_to_thread(cx);
                return Poll::Pending;
            }
            let Poll::Ready(Some(envelope)) = this.next(cx) else {
                return Poll::Pending;
            };
            taken(&this.node);
            let begun = Instant::now();
            let queued = nanos(begun.saturating_duration_since(envelope.queued_at));
            this.node.counters.mailbox_queued_nanos.fetch_add(queued, Relaxed);
            this.node.handled.fetch_add(1, Relaxed);
            this.node.counters.handled.fetch_add(1, Relaxed);
            envelope.parcel.deliver(actor, ctx);
            if ctx.waiting() {
                this.in_hand_since = Some(begun);
                return Poll::Pending;
            }
            this.count_processing(begun, Instant::now());
        }
    }
}
