//! The supervisor: starts children in order, and applies restart type, backoff, intensity and strategy to their ends.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until},
};

use crate::{
    Backoff, ExitReason, Restart, Strategy,
    intensity::Window,
    node::{Node, Phase},
    task,
};

/// What a supervisor needs to know of a child, whatever its type.
pub(crate) trait Supervised {
    fn node(&self) -> Arc<Node>;
    fn restart(&self) -> Restart;
    fn backoff(&self) -> Backoff;
    /// Starts a run.
    fn launch(&self, is_restart: bool) -> Launched;
    /// Says that it will not come back.
    fn close(&self);
}

/// A run that has begun.
pub(crate) struct Launched {
    /// Resolves when `started` has returned, or for a supervisor when all its children are up.
    pub(crate) up: oneshot::Receiver<()>,
    pub(crate) exit: Pin<Box<dyn Future<Output = ExitReason>>>,
    /// Asks it to stop within its time limit.
    pub(crate) stop: watch::Sender<bool>,
}

struct Plan {
    strategy: Strategy,
    intensity: (u32, Duration),
    node: Arc<Node>,
    children: Vec<Box<dyn Supervised>>,
}

/// A supervisor as its parent keeps it, across its own restarts.
pub(crate) struct Supervisor {
    plan: Rc<Plan>,
}

impl Supervisor {
    pub(crate) fn new(
        node: Arc<Node>,
        strategy: Strategy,
        intensity: (u32, Duration),
        children: Vec<Box<dyn Supervised>>,
    ) -> Self {
        let plan = Plan { strategy, intensity, node, children };
        Self { plan: Rc::new(plan) }
    }
}

impl Supervised for Supervisor {
    fn node(&self) -> Arc<Node> {
        Arc::clone(&self.plan.node)
    }

    fn restart(&self) -> Restart {
        Restart::Permanent
    }

    fn backoff(&self) -> Backoff {
        Backoff::NONE
    }

    fn launch(&self, is_restart: bool) -> Launched {
        self.plan.node.begin(None, is_restart);
        let (stop, stop_requests) = watch::channel(false);
        let (up_sender, up) = oneshot::channel();
        let supervisor_run = SupervisorRun::new(Rc::clone(&self.plan), stop_requests, up_sender);
        let running = task::spawn("kernel-supervisor", supervisor_run.run());
        let exit = Box::pin(async move {
            match running.await {
                Ok(reason) => reason,
                Err(task::TaskLost::Panicked(message)) => ExitReason::Panic(message),
                Err(task::TaskLost::Aborted) => ExitReason::Killed,
            }
        });
        Launched { up, exit, stop }
    }

    fn close(&self) {
        self.plan.node.close();
        for child in &self.plan.children {
            child.close();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be started when its turn comes.
    Idle,
    Starting,
    Running,
    Backoff {
        since: Instant,
        due: Instant,
    },
    /// Ended for good.
    Finished,
}

struct Slot {
    state: State,
    /// Number of the present run, so that late news of an earlier one is recognised.
    run: u64,
    failures_in_a_row: u32,
    waited: Duration,
    stop: Option<watch::Sender<bool>>,
}

impl Slot {
    fn waited_until(&self, now: Instant) -> Duration {
        match self.state {
            State::Backoff { since, .. } => self.waited + now.saturating_duration_since(since),
            _ => self.waited,
        }
    }

    fn is_alive(&self) -> bool {
        matches!(self.state, State::Starting | State::Running)
    }
}

enum News {
    Up { child: usize, run: u64 },
    Exit { child: usize, run: u64, reason: ExitReason },
    BackoffOver,
    StopRequested,
    Nothing,
}

/// One run of a supervisor.
struct SupervisorRun {
    plan: Rc<Plan>,
    slots: Vec<Slot>,
    window: Window,
    news: FuturesUnordered<Pin<Box<dyn Future<Output = News>>>>,
    /// News that came while the end of one certain child was awaited.
    postponed: VecDeque<News>,
    stop_requests: watch::Receiver<bool>,
    up: Option<oneshot::Sender<()>>,
}

impl SupervisorRun {
    fn new(plan: Rc<Plan>, stop_requests: watch::Receiver<bool>, up: oneshot::Sender<()>) -> Self {
        let slots = plan
            .children
            .iter()
            .map(|child| Slot {
                state: if child.node().closed() { State::Finished } else { State::Idle },
                run: 0,
                failures_in_a_row: 0,
                waited: Duration::ZERO,
                stop: None,
            })
            .collect();
        let window = Window::new(plan.intensity.0, plan.intensity.1);
        Self {
            plan,
            slots,
            window,
            news: FuturesUnordered::new(),
            postponed: VecDeque::new(),
            stop_requests,
            up: Some(up),
        }
    }

    async fn run(mut self) -> ExitReason {
        for nursery in &self.plan.node.nurseries {
            nursery.open();
        }
        self.start_idle();
        loop {
            match self.next_news().await {
                News::Up { child, run } => {
                    if self.slots[child].run == run && self.slots[child].state == State::Starting {
                        self.slots[child].state = State::Running;
                        self.plan.children[child].node().up();
                        self.start_idle();
                    }
                }
                News::Exit { child, run, reason } => {
                    if self.slots[child].run == run
                        && self.slots[child].is_alive()
                        && let Err(reason) = self.ended(child, reason).await
                    {
                        self.stop_all().await;
                        return reason;
                    }
                    self.start_idle();
                }
                News::BackoffOver => self.start_idle(),
                News::Nothing => {}
                News::StopRequested => {
                    self.plan.node.set_phase(Phase::Stopping);
                    self.stop_all().await;
                    return ExitReason::Shutdown;
                }
            }
        }
    }

    async fn next_news(&mut self) -> News {
        if *self.stop_requests.borrow() {
            return News::StopRequested;
        }
        if let Some(news) = self.postponed.pop_front() {
            return news;
        }
        let next_due = self
            .slots
            .iter()
            .filter_map(|slot| match slot.state {
                State::Backoff { due, .. } => Some(due),
                _ => None,
            })
            .min();
        tokio::select! {
            biased;
            changed = self.stop_requests.changed() => {
                // A parent that is gone cannot want this supervisor to go on.
                let _ = changed;
                News::StopRequested
            }
            Some(news) = self.news.next() => news,
            () = async {
                match next_due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            } => News::BackoffOver,
        }
    }

    /// Starts, in order, what is due and whose turn has come.
    fn start_idle(&mut self) {
        let now = Instant::now();
        for slot in &mut self.slots {
            if let State::Backoff { since, due } = slot.state
                && due <= now
            {
                slot.waited += now.saturating_duration_since(since);
                slot.state = State::Idle;
            }
        }
        let in_backoff = |slot: &Slot| matches!(slot.state, State::Backoff { .. });
        if self.plan.strategy == Strategy::OneForAll && self.slots.iter().any(in_backoff) {
            return;
        }
        for child in 0..self.slots.len() {
            match self.slots[child].state {
                State::Idle => self.start(child),
                State::Backoff { .. } if self.plan.strategy != Strategy::OneForOne => return,
                _ => {}
            }
            // While a supervisor comes up, each child waits for those before it. Later on, independent siblings do not.
            let waits_for_earlier = self.up.is_some() || self.plan.strategy != Strategy::OneForOne;
            if waits_for_earlier && self.slots[child].state == State::Starting {
                return;
            }
        }
        if let Some(up) = self.up.take() {
            let _ = up.send(());
        }
    }

    fn start(&mut self, child: usize) {
        let supervised = &self.plan.children[child];
        let slot = &mut self.slots[child];
        // A run of an earlier life of this supervisor counts too: then this start is a restart.
        let is_restart = slot.run > 0 || self.plan.node.restarts.load(Relaxed) > 0;
        let Launched { up, exit, stop } = supervised.launch(is_restart);
        slot.run += 1;
        slot.state = State::Starting;
        slot.stop = Some(stop);
        let run = slot.run;
        self.news.push(Box::pin(async move {
            match up.await {
                Ok(()) => News::Up { child, run },
                // It ended before it was up; the other future tells how.
                Err(_) => News::Nothing,
            }
        }));
        self.news.push(Box::pin(async move { News::Exit { child, run, reason: exit.await } }));
    }

    /// Books the end of `child` and decides what follows. The error is the reason for which this supervisor gives up.
    async fn ended(&mut self, child: usize, reason: ExitReason) -> Result<(), ExitReason> {
        let supervised = &self.plan.children[child];
        let node = supervised.node();
        let healthy = node.end(&reason);
        self.slots[child].stop = None;
        if !supervised.restart().brings_back(&reason) {
            self.slots[child].state = State::Finished;
            supervised.close();
            if reason.is_orderly() {
                tracing::info!(child = node.id, class = node.class, reason = %reason, "child ended");
            } else {
                tracing::warn!(child = node.id, class = node.class, reason = %reason, "child ended and is not restarted");
            }
            return Ok(());
        }
        let backoff = supervised.backoff();
        let slot = &mut self.slots[child];
        if healthy >= backoff.max {
            slot.failures_in_a_row = 0;
        }
        slot.failures_in_a_row = slot.failures_in_a_row.saturating_add(1);
        let attempt = slot.failures_in_a_row;
        let now = Instant::now();
        let slots = &self.slots;
        let within_limit = self.window.allows(child, now, |index| slots[index].waited_until(now));
        if !within_limit {
            let (max_restarts, period) = self.plan.intensity;
            self.slots[child].state = State::Idle;
            tracing::error!(
                supervisor = self.plan.node.id,
                child = node.id,
                class = node.class,
                reason = %reason,
                max_restarts,
                period_secs = period.as_secs(),
                "restart intensity exceeded, the supervisor gives up"
            );
            return Err(ExitReason::Error(format!(
                "restart intensity exceeded in {} ({max_restarts} restarts in {period:?}); the last to end was {}: {reason}",
                self.plan.node.id, node.id
            )));
        }
        let delay = backoff.delay(attempt, fastrand::f64());
        if self.window.count() <= 1 {
            tracing::info!(child = node.id, class = node.class, reason = %reason, attempt, delay_millis = delay.as_millis() as u64, "child ended and will be restarted");
        } else {
            tracing::warn!(child = node.id, class = node.class, reason = %reason, attempt, delay_millis = delay.as_millis() as u64, "child ended again and will be restarted");
        }
        let due = now + delay;
        self.slots[child].state = State::Backoff { since: now, due };
        node.set_phase(Phase::Backoff { attempt, due });
        let first = match self.plan.strategy {
            Strategy::OneForOne => return Ok(()),
            Strategy::RestForOne => child + 1,
            Strategy::OneForAll => 0,
        };
        for sibling in (first..self.slots.len()).rev() {
            if sibling != child {
                self.stop(sibling).await;
            }
        }
        Ok(())
    }

    /// Stops a child, or kills it when its time is over, and leaves it idle (a temporary one finished).
    async fn stop(&mut self, child: usize) {
        if !self.slots[child].is_alive() {
            return;
        }
        let node = self.plan.children[child].node();
        node.set_phase(Phase::Stopping);
        if let Some(stop) = self.slots[child].stop.take() {
            // A send fails only when the watch has seen the end of the run, which is then among the news.
            let _ = stop.send(true);
        }
        let expected = self.slots[child].run;
        let reason = loop {
            match self.take_exit(child, expected) {
                Some(reason) => break reason,
                None => match self.news.next().await {
                    Some(news) => self.postponed.push_back(news),
                    None => break ExitReason::Killed,
                },
            }
        };
        node.end(&reason);
        if reason == ExitReason::Killed {
            node.mark_hung();
            tracing::error!(child = node.id, class = node.class, "child did not stop in time and was killed");
        } else if !reason.is_orderly() {
            tracing::warn!(child = node.id, class = node.class, reason = %reason, "child failed while it was stopped");
        }
        let supervised = &self.plan.children[child];
        self.slots[child].state = match supervised.restart() {
            Restart::Temporary => {
                supervised.close();
                State::Finished
            }
            // It had done its work just before it was asked to stop.
            Restart::Transient if reason == ExitReason::Normal => {
                supervised.close();
                State::Finished
            }
            Restart::Transient | Restart::Permanent => {
                node.set_phase(Phase::Starting);
                State::Idle
            }
        };
    }

    fn take_exit(&mut self, expected_child: usize, expected_run: u64) -> Option<ExitReason> {
        let position = self.postponed.iter().position(|news| {
            matches!(news, News::Exit { child, run, .. } if *child == expected_child && *run == expected_run)
        })?;
        match self.postponed.remove(position) {
            Some(News::Exit { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    /// Stops everything in reverse start order.
    async fn stop_all(&mut self) {
        for nursery in self.plan.node.nurseries.iter().rev() {
            nursery.stop_all().await;
        }
        for child in (0..self.slots.len()).rev() {
            self.stop(child).await;
            self.plan.children[child].node().set_phase(Phase::Stopped);
        }
    }
}
