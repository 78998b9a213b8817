//! A place in the tree: what stays when its child is restarted, and what a snapshot shows.

use std::sync::{
    Arc, Mutex,
    atomic::{
        AtomicBool, AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    ExitReason, Nursery,
    incarnation::Incarnation,
    stats::{self, ClassCounters},
    sync::lock,
};

/// The class under which supervisors are counted.
pub(crate) const SUPERVISOR_CLASS: &str = "supervisor";

#[derive(Clone)]
pub(crate) enum Phase {
    /// Not started yet, or waiting for its turn.
    Starting,
    Running,
    Backoff {
        attempt: u32,
        due: Instant,
    },
    Stopping,
    Stopped,
}

pub(crate) struct Status {
    pub(crate) phase: Phase,
    pub(crate) degraded: Option<(&'static str, String, Instant)>,
    pub(crate) up_since: Option<Instant>,
    /// Since when it has been up and not degraded.
    pub(crate) healthy_since: Option<Instant>,
    pub(crate) last_exit: Option<(ExitReason, Instant)>,
    pub(crate) observed: Option<(serde_json::Value, Instant)>,
    pub(crate) current: Option<Arc<Incarnation>>,
}

pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) class: &'static str,
    pub(crate) counters: Arc<ClassCounters>,
    /// 0 for a supervisor, which has no mailbox.
    pub(crate) mailbox_capacity: usize,
    pub(crate) mailbox_depth: AtomicUsize,
    pub(crate) waits: AtomicU64,
    pub(crate) wait_nanos: AtomicU64,
    pub(crate) handled: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// Runs that were given up while they still blocked their thread.
    pub(crate) lost_threads: AtomicU64,
    /// The child will not come back.
    closed: AtomicBool,
    /// Its last run was killed because it did not stop in time.
    hung: AtomicBool,
    pub(crate) status: Mutex<Status>,
    pub(crate) observed: Notify,
    pub(crate) children: Vec<Arc<Node>>,
    pub(crate) nurseries: Vec<Nursery>,
}

impl Node {
    pub(crate) fn new(
        id: String,
        class: &'static str,
        mailbox_capacity: usize,
        children: Vec<Arc<Node>>,
        nurseries: Vec<Nursery>,
    ) -> Self {
        Self {
            id,
            class,
            counters: stats::class(class),
            mailbox_capacity,
            mailbox_depth: AtomicUsize::new(0),
            waits: AtomicU64::new(0),
            wait_nanos: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            lost_threads: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            hung: AtomicBool::new(false),
            status: Mutex::new(Status {
                phase: Phase::Starting,
                degraded: None,
                up_since: None,
                healthy_since: None,
                last_exit: None,
                observed: None,
                current: None,
            }),
            observed: Notify::new(),
            children,
            nurseries,
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, SeqCst);
    }

    pub(crate) fn closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    pub(crate) fn mark_hung(&self) {
        self.hung.store(true, SeqCst);
    }

    pub(crate) fn has_hung(&self) -> bool {
        self.hung.load(SeqCst)
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        lock(&self.status).phase = phase;
    }

    pub(crate) fn is_current(&self, incarnation: &Arc<Incarnation>) -> bool {
        let status = lock(&self.status);
        status.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, incarnation))
    }

    pub(crate) fn begin(&self, incarnation: Option<Arc<Incarnation>>, is_restart: bool) {
        self.hung.store(false, SeqCst);
        self.counters.started.fetch_add(1, Relaxed);
        self.counters.running.fetch_add(1, Relaxed);
        if is_restart {
            self.counters.restarts.fetch_add(1, Relaxed);
            self.restarts.fetch_add(1, Relaxed);
        }
        let mut status = lock(&self.status);
        status.phase = Phase::Starting;
        status.current = incarnation;
    }

    pub(crate) fn up(&self) {
        let now = Instant::now();
        let mut status = lock(&self.status);
        status.phase = Phase::Running;
        status.up_since = Some(now);
        // A child may have declared an outage in `started`, before it counts as up.
        status.healthy_since = status.degraded.is_none().then_some(now);
    }

    /// Books the end of the present run. Gives how long it had been healthy.
    pub(crate) fn end(&self, reason: &ExitReason) -> std::time::Duration {
        self.counters.running.fetch_sub(1, Relaxed);
        self.counters.count_exit(reason);
        let now = Instant::now();
        let mut status = lock(&self.status);
        let healthy =
            status.healthy_since.take().map(|since| now.saturating_duration_since(since)).unwrap_or_default();
        status.phase = Phase::Stopped;
        status.degraded = None;
        status.up_since = None;
        status.current = None;
        status.last_exit = Some((reason.clone(), now));
        healthy
    }

    pub(crate) fn set_degraded(&self, code: &'static str, reason: String) {
        let mut status = lock(&self.status);
        let since = match &status.degraded {
            Some((_, _, since)) => *since,
            None => Instant::now(),
        };
        status.degraded = Some((code, reason, since));
        status.healthy_since = None;
    }

    pub(crate) fn set_healthy(&self) {
        let mut status = lock(&self.status);
        if status.degraded.take().is_some() && status.up_since.is_some() {
            status.healthy_since = Some(Instant::now());
        }
    }

    pub(crate) fn is_degraded(&self) -> bool {
        lock(&self.status).degraded.is_some()
    }

    pub(crate) fn set_observed(&self, value: serde_json::Value) {
        lock(&self.status).observed = Some((value, Instant::now()));
        self.observed.notify_waiters();
    }

    /// Asks the child for a fresh observation, if it runs.
    pub(crate) fn request_observation(&self) -> bool {
        let status = lock(&self.status);
        match &status.current {
            Some(incarnation) => {
                incarnation.request_observation();
                incarnation.wake();
                true
            }
            None => false,
        }
    }
}
