//! Counters by class of actor, for metrics.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde::Serialize;

use crate::{ExitReason, sync::lock};

/// What happened in one class of actors since the process started.
///
/// All but `running` and `mailbox_depth` only grow, across restarts and across the end of temporary children.
/// Times are whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassStats {
    /// Children that run now.
    pub running: u64,
    /// Starts, the first of each child included.
    pub started: u64,
    /// Starts that followed a failure.
    pub restarts: u64,
    /// Ends by a caught panic.
    pub panics: u64,
    /// Ends because the child did not stop in time.
    pub killed: u64,
    /// Ends because the child made no progress.
    pub stuck: u64,
    /// Messages that wait in mailboxes now.
    pub mailbox_depth: u64,
    /// Sends that found a full mailbox and had to wait.
    pub mailbox_waits: u64,
    /// Time that senders waited for room.
    pub mailbox_wait_nanos: u64,
    /// Time that messages lay in a mailbox before they were taken.
    pub mailbox_queued_nanos: u64,
    /// Messages taken from mailboxes and handled.
    pub handled: u64,
    /// Messages handled, but reported as failed through `Link::count_failure`.
    pub failed: u64,
    /// Time from taking a message until the child could take the next: its handler and what it made the mailbox wait for.
    pub processing_nanos: u64,
}

macro_rules! counters {
    ($($name:ident),+) => {
        #[derive(Default)]
        pub(crate) struct ClassCounters { $(pub(crate) $name: AtomicU64),+ }

        impl ClassCounters {
            fn read(&self) -> ClassStats {
                ClassStats { $($name: self.$name.load(Relaxed)),+ }
            }
        }
    };
}

counters!(
    running,
    started,
    restarts,
    panics,
    killed,
    stuck,
    mailbox_depth,
    mailbox_waits,
    mailbox_wait_nanos,
    mailbox_queued_nanos,
    handled,
    failed,
    processing_nanos
);

impl ClassCounters {
    pub(crate) fn count_exit(&self, reason: &ExitReason) {
        let counter = match reason {
            ExitReason::Panic(_) => &self.panics,
            ExitReason::Killed => &self.killed,
            ExitReason::Stuck => &self.stuck,
            ExitReason::Normal | ExitReason::Shutdown | ExitReason::Error(_) => return,
        };
        counter.fetch_add(1, Relaxed);
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One map for the process: classes are few, named in the source, and must outlive the trees that use them.
static CLASSES: Mutex<BTreeMap<&'static str, Arc<ClassCounters>>> = Mutex::new(BTreeMap::new());

pub(crate) fn class(name: &'static str) -> Arc<ClassCounters> {
    Arc::clone(lock(&CLASSES).entry(name).or_default())
}

/// The statistics of every class of actors that this process has used.
pub fn classes() -> BTreeMap<&'static str, ClassStats> {
    lock(&CLASSES).iter().map(|(name, counters)| (*name, counters.read())).collect()
}
