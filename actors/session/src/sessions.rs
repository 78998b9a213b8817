//! What all worker threads share, and the hub of each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freshet_broadcaster::{Backlog, Live};
use freshet_feed::{Channels, Position};
use freshet_kernel::{Nursery, task};
use tokio::sync::{Notify, watch};

use crate::administration::Desk;
use crate::config::Config;
use crate::counters::Counters;
use crate::hub::Hub;
use crate::hub_task;
use crate::renewal::Renewer;

/// How long after the window of a drain connections may take to end.
const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// How long a client waits for the log to be read when the daemon starts.
const LOG_READ_WITHIN: Duration = Duration::from_secs(5);

thread_local! {
    /// The hubs of this thread, one for each [`Sessions`] of the process.
    static HUBS: RefCell<HashMap<u64, Rc<Hub>>> = RefCell::default();
}

/// The client sessions of the daemon. Clones are the same.
#[derive(Clone)]
pub struct Sessions {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    id: u64,
    pub(crate) config: Config,
    pub(crate) channels: Channels,
    pub(crate) live: Arc<Live>,
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) nursery: Nursery,
    pub(crate) counters: Counters,
    pub(crate) desk: Desk,
    /// Judges new tokens of open sessions; absent without authentication.
    pub(crate) renewer: OnceLock<Arc<dyn Renewer>>,
    /// The window of the drain, once it has begun.
    pub(crate) draining: watch::Sender<Option<Duration>>,
    ended: Notify,
    refuses_new: AtomicBool,
    /// Whether the last catch-up that ended could not read the log.
    pub(crate) catch_up_fails: AtomicBool,
}

impl Sessions {
    /// `nursery` holds the sessions' actors: its limit is the limit of sessions, so give it
    /// [`Config::max_sessions`].
    #[must_use]
    pub fn new(
        config: Config,
        channels: Channels,
        live: Arc<Live>,
        backlog: Arc<Backlog>,
        nursery: Nursery,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            shared: Arc::new(Shared {
                id: NEXT_ID.fetch_add(1, Relaxed),
                config,
                channels,
                live,
                backlog,
                nursery,
                counters: Counters::default(),
                desk: Desk::default(),
                renewer: OnceLock::new(),
                draining: watch::Sender::new(None),
                ended: Notify::new(),
                refuses_new: AtomicBool::new(false),
                catch_up_fails: AtomicBool::new(false),
            }),
        }
    }

    /// Lets WebSocket clients renew their sessions with what this judges. The first call counts.
    pub fn renew_by(&self, renewer: Arc<dyn Renewer>) {
        let _the_first_counts = self.shared.renewer.set(renewer);
    }

    /// What was counted since the start of the process.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Refuses new sessions from now on and leaves those that are open alone.
    pub fn refuse_new(&self) {
        self.shared.refuses_new.store(true, Relaxed);
    }

    /// Refuses new sessions from now on, closes those that are open evenly over the configured window, and waits
    /// until their connections have ended, at most five seconds longer than the window. Returns how many had not
    /// ended by then.
    ///
    /// Cancel safe: the sessions are closed all the same.
    pub async fn drain(&self) -> usize {
        let window = Duration::from_secs(self.shared.config.drain_window_secs);
        self.refuse_new();
        self.shared.draining.send_replace(Some(window));
        let all_ended = async {
            loop {
                let ended = self.shared.ended.notified();
                if self.shared.counters.sessions.load(Relaxed) == 0 {
                    return;
                }
                ended.await;
            }
        };
        let _ = tokio::time::timeout(window + DRAIN_GRACE, all_ended).await;
        self.shared.counters.sessions.load(Relaxed)
    }

    /// In its first moments the daemon has not read the log yet; clients that are early wait for it. Who waits in vain
    /// is refused afterwards.
    pub(crate) async fn log_is_read(&self) {
        let mut position = self.shared.live.watch();
        let _refused_when_in_vain =
            tokio::time::timeout(LOG_READ_WITHIN, position.wait_for(Option::is_some)).await;
    }

    /// The hub of the current thread, started with the thread's first client. Nothing while the log was not read
    /// yet.
    pub(crate) fn hub(&self) -> Option<Rc<Hub>> {
        let known = HUBS.with_borrow(|hubs| hubs.get(&self.shared.id).cloned());
        if known.is_some() {
            return known;
        }
        let position: Position = self.shared.live.position()?;
        let hub = Hub::new(Arc::clone(&self.shared), position);
        HUBS.with_borrow_mut(|hubs| hubs.insert(self.shared.id, Rc::clone(&hub)));
        task::spawn("session hub", hub_task::run(Rc::clone(&hub))).detach();
        Some(hub)
    }
}

impl Shared {
    pub(crate) fn refuses_new(&self) -> bool {
        self.refuses_new.load(Relaxed)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.borrow().is_some()
    }

    pub(crate) fn session_ended(&self) {
        if self.counters.sessions.fetch_sub(1, Relaxed) == 1 && self.is_draining() {
            self.ended.notify_waiters();
        }
    }

    /// The hub's task has ended. While the thread itself ends there is nothing left to forget.
    pub(crate) fn forget_hub(&self, ended: &Rc<Hub>) {
        let _ = HUBS.try_with(|hubs| {
            let mut hubs = hubs.borrow_mut();
            if hubs.get(&self.id).is_some_and(|hub| Rc::ptr_eq(hub, ended)) {
                hubs.remove(&self.id);
            }
        });
    }
}
