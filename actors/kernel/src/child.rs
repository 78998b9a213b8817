//! A child as its supervisor sees it: start, watch, stop, kill.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until},
};

use crate::{
    Backoff, Child, ChildSpec, ExitReason, Placement, Restart,
    address::close_mailbox,
    incarnation::Incarnation,
    node::Node,
    run::{Blueprint, Order, Run},
    supervisor::{Launched, Supervised},
    task,
};

/// How long a killed child's thread may take to let go of it before its run is disowned.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(1);

pub(crate) struct SupervisedChild<A: Child> {
    spec: ChildSpec<A>,
}

impl<A: Child> SupervisedChild<A> {
    pub(crate) fn new(spec: ChildSpec<A>) -> Self {
        Self { spec }
    }
}

impl<A: Child> Supervised for SupervisedChild<A> {
    fn node(&self) -> Arc<Node> {
        Arc::clone(&self.spec.node)
    }

    fn restart(&self) -> Restart {
        self.spec.restart
    }

    fn backoff(&self) -> Backoff {
        self.spec.backoff
    }

    fn launch(&self, is_restart: bool) -> Launched {
        let incarnation = Arc::new(Incarnation::default());
        self.spec.node.begin(Some(Arc::clone(&incarnation)), is_restart);
        let (up_sender, up) = oneshot::channel();
        let (exit_sender, exit) = oneshot::channel();
        let order = Order {
            blueprint: Blueprint {
                factory: Arc::clone(&self.spec.factory),
                address: self.spec.address.clone(),
                mailbox: Arc::clone(&self.spec.mailbox),
                node: Arc::clone(&self.spec.node),
                incarnation: Arc::clone(&incarnation),
            },
            restart: self.spec.restart,
            up: up_sender,
            exit: exit_sender,
        };
        let refused = match self.spec.placement {
            Placement::Shared => {
                task::spawn("kernel-child", Run::new(order)).detach();
                None
            }
            Placement::OwnThread => start_thread(order).err(),
        };
        let (stop, stop_requests) = watch::channel(false);
        let watched = Watch {
            incarnation,
            node: Arc::clone(&self.spec.node),
            shutdown_within: self.spec.shutdown_within,
            stuck_after: self.spec.stuck_after,
        };
        let exit: Pin<Box<dyn Future<Output = ExitReason>>> = match refused {
            Some(reason) => Box::pin(std::future::ready(reason)),
            None => Box::pin(watched.until_exit(exit, stop_requests)),
        };
        Launched { up, exit, stop }
    }

    fn close(&self) {
        close_mailbox(&self.spec.mailbox, &self.spec.node);
    }
}

/// Runs the child on a fresh thread that ends with it.
fn start_thread<A: Child>(order: Order<A>) -> Result<(), ExitReason> {
    let failed = |error: &dyn std::fmt::Display| {
        ExitReason::Error(format!("its thread could not be started: {error}"))
    };
    if actix_rt::System::try_current().is_none() {
        return Err(failed(&"no actix system runs here"));
    }
    let arbiter = actix_rt::Arbiter::try_new().map_err(|error| failed(&error))?;
    let thread = arbiter.handle();
    let accepted = arbiter.spawn_fn(move || {
        task::spawn("kernel-child", async move {
            Run::new(order).await;
            thread.stop();
        })
        .detach();
    });
    if accepted { Ok(()) } else { Err(failed(&"it ended at once")) }
}

/// Watches one run until its end, enforces its time limits and gives its exit reason.
struct Watch {
    incarnation: Arc<Incarnation>,
    node: Arc<Node>,
    shutdown_within: Duration,
    stuck_after: Option<Duration>,
}

impl Watch {
    async fn until_exit(
        self,
        mut exit: oneshot::Receiver<ExitReason>,
        mut stop_requests: watch::Receiver<bool>,
    ) -> ExitReason {
        let mut progress = Progress::new(&self.incarnation);
        let mut kill_at = None;
        loop {
            let check_at = self
                .stuck_after
                .filter(|_| kill_at.is_none())
                .map(|limit| Instant::now() + (limit / 4).max(Duration::from_millis(1)));
            tokio::select! {
                biased;
                reason = &mut exit => return reason.unwrap_or(ExitReason::Killed),
                Ok(()) = stop_requests.changed(), if kill_at.is_none() => {
                    self.incarnation.request_stop();
                    kill_at = Some(Instant::now() + self.shutdown_within);
                }
                () = at(kill_at) => return self.kill(exit, ExitReason::Killed).await,
                () = at(check_at) => {
                    if let Some(limit) = self.stuck_after
                        && progress.is_stuck(&self.incarnation, &self.node, limit)
                    {
                        return self.kill(exit, ExitReason::Stuck).await;
                    }
                }
            }
        }
    }

    async fn kill(&self, exit: oneshot::Receiver<ExitReason>, reason: ExitReason) -> ExitReason {
        self.incarnation.kill(reason.clone());
        match tokio::time::timeout(KILL_GRACE, exit).await {
            Ok(ended) => ended.unwrap_or(reason),
            Err(_) => {
                self.node.lost_threads.fetch_add(1, Relaxed);
                tracing::error!(
                    child = self.node.id,
                    class = self.node.class,
                    reason = reason.code(),
                    "child blocks its thread and was disowned"
                );
                reason
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A run that nobody watches would go on without a supervisor. After its end this changes nothing.
        self.incarnation.kill(ExitReason::Killed);
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Whether a run was ready for a message since the last look.
struct Progress {
    ready_count: u64,
    since: Instant,
}

impl Progress {
    fn new(incarnation: &Incarnation) -> Self {
        Self { ready_count: incarnation.ready_count(), since: Instant::now() }
    }

    fn is_stuck(&mut self, incarnation: &Incarnation, node: &Node, limit: Duration) -> bool {
        let now = Instant::now();
        let ready_count = incarnation.ready_count();
        if ready_count != self.ready_count || incarnation.excused() || node.is_degraded() {
            self.ready_count = ready_count;
            self.since = now;
        }
        // An idle child that is woken shows itself ready before the next look; a paused or blocked one does not.
        incarnation.wake();
        now.saturating_duration_since(self.since) >= limit
    }
}
