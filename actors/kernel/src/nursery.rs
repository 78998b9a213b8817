//! Many short-lived actors of one class, each on the thread that starts it.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, dev::ContextFut};
use tokio::sync::{Notify, futures::OwnedNotified};

use crate::{
    ExitReason,
    snapshot::NurseryState,
    stats::{self, ClassCounters},
    unwind,
};

/// The nursery holds as many actors as it may, or is closed because its supervisor stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the nursery is full ({limit} actors)")]
pub struct NurseryFull {
    /// How many actors it may hold: 0 while it is closed.
    pub limit: usize,
}

/// How long temporary actors may take to stop with the supervisor that shows their nursery.
const STOP_WITHIN: Duration = Duration::from_secs(5);

struct Shared {
    class: &'static str,
    limit: usize,
    count: AtomicUsize,
    /// From the stop of its supervisor to the supervisor's next start: nobody gets in.
    closed: AtomicBool,
    counters: Arc<ClassCounters>,
    /// Asks those that live to stop; the second time they are dropped where they stand.
    stop: Arc<Notify>,
    empty: Notify,
}

/// Starts temporary actors, bounds how many live at once over all threads, and catches their panics.
///
/// They are plain actix actors and are talked to through actix's `Addr`. One ends as in actix: when it stops itself,
/// or when its last address is dropped and it has nothing left to do. None is restarted.
#[derive(Clone)]
pub struct Nursery {
    shared: Arc<Shared>,
}

impl Nursery {
    /// A nursery for at most `limit` actors of `class`.
    pub fn new(class: &'static str, limit: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                class,
                limit,
                count: AtomicUsize::new(0),
                closed: AtomicBool::new(false),
                counters: stats::class(class),
                stop: Arc::new(Notify::new()),
                empty: Notify::new(),
            }),
        }
    }

    /// Starts an actor on the current thread. `factory` runs soon after, in the actor's own task; when it panics the
    /// address is closed.
    ///
    /// # Errors
    /// [`NurseryFull`] when the limit is reached, or while the supervisor that shows it is stopped; `factory` was not
    /// called then.
    ///
    /// # Panics
    /// Outside an actix system.
    pub fn start<A>(&self, factory: impl FnOnce() -> A + 'static) -> Result<Addr<A>, NurseryFull>
    where
        A: Actor<Context = Context<A>>,
    {
        // Before the place is taken: whoever gets in just before the nursery closes hears that it is emptied.
        let stop = Box::pin(Arc::clone(&self.shared.stop).notified_owned());
        let place = Place::take(&self.shared)?;
        let context = Context::new();
        let address = context.address();
        let temporary_actor =
            TemporaryActor { stage: Stage::Ordered(context, Some(factory)), stop, stop_heard: false, place };
        // It catches its own panics. Each of thousands of clients has one, and this way it lies in its task and not in
        // a box beside it.
        #[expect(
            clippy::disallowed_methods,
            reason = "a second catch would cost every client an allocation"
        )]
        drop(actix_rt::spawn(temporary_actor));
        Ok(address)
    }

    /// How many actors live now.
    pub fn count(&self) -> usize {
        self.shared.count.load(SeqCst)
    }

    /// How many may live at once.
    pub fn limit(&self) -> usize {
        self.shared.limit
    }

    pub(crate) fn state(&self) -> NurseryState {
        NurseryState { class: self.shared.class, count: self.count(), limit: self.shared.limit }
    }

    /// Lets actors in, again if it was closed.
    pub(crate) fn open(&self) {
        self.shared.closed.store(false, SeqCst);
    }

    /// Closes it, asks all that live to stop, waits [`STOP_WITHIN`], and drops those that are left.
    pub(crate) async fn stop_all(&self) {
        self.shared.closed.store(true, SeqCst);
        for last_word in [false, true] {
            self.shared.stop.notify_waiters();
            if tokio::time::timeout(STOP_WITHIN, self.emptied()).await.is_ok() {
                return;
            }
            tracing::error!(
                class = self.shared.class,
                count = self.count(),
                last_word,
                "temporary actors did not stop in time"
            );
        }
    }

    async fn emptied(&self) {
        loop {
            let changed = self.shared.empty.notified();
            if self.count() == 0 {
                return;
            }
            changed.await;
        }
    }
}

/// A counted place in the nursery, given back when it is dropped.
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Result<Self, NurseryFull> {
        let limit = shared.limit;
        shared
            .count
            .fetch_update(SeqCst, SeqCst, |count| (count < limit).then_some(count + 1))
            .map_err(|_| NurseryFull { limit })?;
        shared.counters.running.fetch_add(1, Relaxed);
        let place = Self(Arc::clone(shared));
        // After it was counted: `stop_all` closes first and counts then, so one of the two sees the other.
        if shared.closed.load(SeqCst) {
            return Err(NurseryFull { limit: 0 });
        }
        shared.counters.started.fetch_add(1, Relaxed);
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, SeqCst) == 1 {
            self.0.empty.notify_waiters();
        }
        self.0.counters.running.fetch_sub(1, Relaxed);
    }
}

enum Stage<A: Actor<Context = Context<A>>, F> {
    Ordered(Context<A>, Option<F>),
    Alive(ContextFut<A, Context<A>>),
    Gone,
}

struct TemporaryActor<A: Actor<Context = Context<A>>, F> {
    stage: Stage<A, F>,
    stop: Pin<Box<OwnedNotified>>,
    stop_heard: bool,
    place: Place,
}

// The factory is moved out before it is called and never pinned.
impl<A: Actor<Context = Context<A>>, F> Unpin for TemporaryActor<A, F> {}

impl<A: Actor<Context = Context<A>>, F: FnOnce() -> A> TemporaryActor<A, F> {
    fn step(&mut self, cx: &mut TaskContext<'_>) -> Result<Poll<()>, String> {
        if let Stage::Ordered(..) = self.stage
            && let Stage::Ordered(context, Some(factory)) = std::mem::replace(&mut self.stage, Stage::Gone)
        {
            self.stage = Stage::Alive(context.into_future(unwind::catch(factory)?));
        }
        if self.stop.as_mut().poll(cx).is_ready() {
            if std::mem::replace(&mut self.stop_heard, true) {
                return Ok(Poll::Ready(()));
            }
            if let Stage::Alive(actor) = &mut self.stage {
                actor.ctx().stop();
            }
            self.stop = Box::pin(Arc::clone(&self.place.0.stop).notified_owned());
            // Another poll registers for the second call, which drops the actor.
            cx.waker().wake_by_ref();
        }
        match &mut self.stage {
            Stage::Alive(actor) => unwind::catch(|| Pin::new(actor).poll(cx)),
            Stage::Ordered(..) | Stage::Gone => Ok(Poll::Ready(())),
        }
    }
}

impl<A: Actor<Context = Context<A>>, F> TemporaryActor<A, F> {
    /// Drops the actor without its hooks and catches a panic in its drop.
    fn discard(&mut self) -> Result<(), String> {
        let mut stage = std::mem::replace(&mut self.stage, Stage::Gone);
        if let Stage::Alive(actor) = &mut stage {
            actor.ctx().terminate();
        }
        unwind::catch(move || drop(stage))
    }

    fn report(&self, message: String) {
        let shared = &self.place.0;
        shared.counters.count_exit(&ExitReason::Panic(String::new()));
        tracing::warn!(class = shared.class, panic = %message, "temporary actor panicked");
    }
}

impl<A: Actor<Context = Context<A>>, F: FnOnce() -> A> Future for TemporaryActor<A, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let ended = match self.step(cx) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => Ok(()),
            Err(message) => Err(message),
        };
        if let Err(message) = ended.and(self.discard()) {
            self.report(message);
        }
        Poll::Ready(())
    }
}

impl<A: Actor<Context = Context<A>>, F> Drop for TemporaryActor<A, F> {
    fn drop(&mut self) {
        if let Err(message) = self.discard() {
            self.report(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Session;

    impl Actor for Session {
        type Context = Context<Self>;
    }

    #[test]
    fn what_the_nursery_adds_to_an_actors_memory_is_small() {
        let whole = size_of::<TemporaryActor<Session, fn() -> Session>>() + size_of::<OwnedNotified>();
        let own = whole - size_of::<ContextFut<Session, Context<Session>>>();
        assert!(own <= 256, "{own} bytes for each temporary actor beyond actix's context");
    }
}
