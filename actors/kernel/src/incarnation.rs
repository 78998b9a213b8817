//! One run of a child, from its factory to its end: the flags through which its supervisor and its own thread talk.

use std::{
    cell::RefCell,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use futures_util::task::AtomicWaker;

use crate::{ExitReason, sync::lock};

/// Messages that a child handles before it lets the other tasks of its thread run.
pub(crate) const MESSAGES_PER_TURN: u32 = 32;

#[derive(Default)]
pub(crate) struct Incarnation {
    waker: AtomicWaker,
    stop: AtomicBool,
    killed: AtomicBool,
    kill_reason: Mutex<Option<ExitReason>>,
    /// What the child itself gave as its reason, through its link.
    own_reason: Mutex<Option<ExitReason>>,
    observe: AtomicBool,
    /// How often the child was ready for its next message. It stands still while the child is paused or blocked.
    ready_count: AtomicU64,
    excuses: AtomicUsize,
    turn: AtomicU32,
}

impl Incarnation {
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn register(&self, cx: &std::task::Context<'_>) {
        self.waker.register(cx.waker());
    }

    pub(crate) fn request_stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake();
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// From now on this incarnation takes no message and says nothing more; it is dropped at its next poll.
    pub(crate) fn kill(&self, reason: ExitReason) {
        lock(&self.kill_reason).get_or_insert(reason);
        self.killed.store(true, SeqCst);
        self.wake();
    }

    pub(crate) fn killed(&self) -> bool {
        self.killed.load(SeqCst)
    }

    pub(crate) fn kill_reason(&self) -> ExitReason {
        lock(&self.kill_reason).clone().unwrap_or(ExitReason::Killed)
    }

    pub(crate) fn set_own_reason(&self, reason: ExitReason) {
        *lock(&self.own_reason) = Some(reason);
    }

    /// Why a child that stopped in order did so.
    pub(crate) fn orderly_reason(&self) -> ExitReason {
        match lock(&self.own_reason).take() {
            Some(reason) => reason,
            None if self.stop_requested() => ExitReason::Shutdown,
            None => ExitReason::Normal,
        }
    }

    /// Takes effect at the next poll; the caller wakes the run if that is to be soon.
    pub(crate) fn request_observation(&self) {
        self.observe.store(true, SeqCst);
    }

    pub(crate) fn take_observation_request(&self) -> bool {
        self.observe.swap(false, SeqCst)
    }

    pub(crate) fn begin_turn(&self) {
        self.turn.store(MESSAGES_PER_TURN, Relaxed);
    }

    /// Takes one message from this turn's allowance. False when the turn is over.
    pub(crate) fn spend_turn(&self) -> bool {
        let left = self.turn.load(Relaxed);
        if left == 0 {
            return false;
        }
        self.turn.store(left - 1, Relaxed);
        true
    }

    pub(crate) fn mark_ready(&self) {
        self.ready_count.fetch_add(1, SeqCst);
    }

    pub(crate) fn ready_count(&self) -> u64 {
        self.ready_count.load(SeqCst)
    }

    pub(crate) fn excused(&self) -> bool {
        self.excuses.load(SeqCst) > 0
    }

    pub(crate) fn excuse(self: &Arc<Self>) -> Excuse {
        self.excuses.fetch_add(1, SeqCst);
        Excuse(Arc::clone(self))
    }
}

/// While it lives, its incarnation cannot be found stuck.
pub(crate) struct Excuse(Arc<Incarnation>);

impl Drop for Excuse {
    fn drop(&mut self) {
        self.0.excuses.fetch_sub(1, SeqCst);
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Incarnation>>> = const { RefCell::new(None) };
}

/// Marks `incarnation` as the one that runs on this thread while `step` runs.
pub(crate) fn with_current<T>(incarnation: &Arc<Incarnation>, step: impl FnOnce() -> T) -> T {
    let _restore = Restore(CURRENT.replace(Some(Arc::clone(incarnation))));
    step()
}

/// Puts back what ran on this thread before, also when the step panics.
struct Restore(Option<Arc<Incarnation>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// An excuse for the child that runs on this thread, if one does.
pub(crate) fn excuse_current() -> Option<Excuse> {
    CURRENT.with_borrow(|current| current.as_ref().map(Incarnation::excuse))
}
