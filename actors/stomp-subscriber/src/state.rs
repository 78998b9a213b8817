//! What operators see of a subscription, and the one place that logs its changes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;

/// Where the subscription stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A connection is being opened, or the handshake runs.
    Connecting,
    /// Messages flow.
    Subscribed,
    /// A batch is in hand and the store takes nothing; nothing is read.
    StoreUnavailable,
    /// The last attempt failed; the next follows after a wait.
    Backoff,
    /// The session is being ended.
    Stopping,
}

/// The state of a subscription. Counters start with the actor.
#[derive(Clone, Debug, Serialize)]
pub struct State {
    /// The broker in use or tried last, as `host:port`.
    pub broker: String,
    /// Where it stands.
    pub state: Stage,
    /// The code of the failure that it recovers from.
    pub code: Option<&'static str>,
    /// Its reason.
    pub reason: Option<String>,
    /// Since when it stands there.
    pub since: jiff::Timestamp,
    /// Attempts to connect since the last subscription.
    pub attempts: u64,
    /// Messages that came, each delivery counted.
    pub received: u64,
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// Messages that went to the dead letters.
    pub buried: u64,
    /// Events that the log knew already.
    pub duplicates: u64,
    /// Messages that the broker said it had delivered before.
    pub redelivered: u64,
    /// When the last message came.
    pub last_message_at: Option<jiff::Timestamp>,
}

/// Who is told whether the subscription works: the supervisor, or a test.
pub trait Health {
    /// It does not work now, by this code.
    fn degraded(&self, code: &'static str, reason: String);
    /// It works.
    fn healthy(&self);
}

/// What the supervisor is told while there is no failure and no subscription either.
const CONNECTING: &str = "connecting";
const NOT_SUBSCRIBED: &str = "not subscribed yet";

/// Where the subscription stood before the store's outage, which is true again when the store works.
struct BeforeOutage {
    stage: Stage,
    code: Option<&'static str>,
    reason: Option<String>,
}

/// Keeps the state, tells the supervisor and writes the log. Clones share the state.
#[derive(Clone)]
pub struct Monitor {
    name: Rc<str>,
    state: Rc<RefCell<State>>,
    /// Filled while the store takes nothing.
    before_outage: Rc<RefCell<Option<BeforeOutage>>>,
    health: Rc<dyn Health>,
}

impl Monitor {
    /// A subscription of this name that has not connected yet.
    #[must_use]
    pub fn new(name: &str, health: Rc<dyn Health>) -> Self {
        let state = State {
            broker: String::new(),
            state: Stage::Connecting,
            code: None,
            reason: None,
            since: jiff::Timestamp::now(),
            attempts: 0,
            received: 0,
            acknowledged: 0,
            buried: 0,
            duplicates: 0,
            redelivered: 0,
            last_message_at: None,
        };
        health.degraded(CONNECTING, NOT_SUBSCRIBED.to_owned());
        Self {
            name: name.into(),
            state: Rc::new(RefCell::new(state)),
            before_outage: Rc::new(RefCell::new(None)),
            health,
        }
    }

    /// A copy of the state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    fn enter(&self, stage: Stage, change: impl FnOnce(&mut State)) {
        let mut state = self.state.borrow_mut();
        if state.state != stage {
            state.since = jiff::Timestamp::now();
            state.state = stage;
        }
        change(&mut state);
    }

    /// An attempt begins. The code of the failure before it stays in sight until it succeeds.
    pub(crate) fn connecting(&self, broker: &str) {
        self.enter(Stage::Connecting, |state| {
            state.attempts += 1;
            broker.clone_into(&mut state.broker);
        });
    }

    /// The broker has confirmed the subscription.
    pub(crate) fn subscribed(&self) {
        self.enter(Stage::Subscribed, |state| {
            state.attempts = 0;
            state.code = None;
            state.reason = None;
        });
        self.health.healthy();
        tracing::info!(subscription = %self.name, broker = %self.state.borrow().broker, "subscribed");
    }

    /// The connection is gone, and the batch in hand is being stored. [`failed`](Self::failed) follows with the reason.
    pub(crate) fn lost(&self) {
        match self.before_outage.borrow_mut().as_mut() {
            Some(before) => before.stage = Stage::Connecting,
            None => self.enter(Stage::Connecting, |_| {}),
        }
    }

    /// An attempt or a session failed. The first failure of a kind is a warning, its repetitions are not.
    pub(crate) fn failed(&self, failure: &Failure, retry_in: Duration) {
        let code = failure.class.code();
        let repeated = self.state.borrow().code == Some(code);
        self.enter(Stage::Backoff, |state| {
            state.code = Some(code);
            state.reason = Some(failure.reason.clone());
        });
        let state = self.state.borrow();
        self.health.degraded(code, format!("{}: {}", state.broker, failure.reason));
        let retry_in_millis = retry_in.as_millis();
        if repeated {
            tracing::debug!(subscription = %self.name, broker = %state.broker, code, reason = %failure.reason, retry_in_millis, "still not subscribed");
        } else {
            tracing::warn!(subscription = %self.name, broker = %state.broker, code, reason = %failure.reason, retry_in_millis, "not subscribed");
        }
    }

    /// The store did not take a batch.
    pub(crate) fn store_failed(&self, code: &'static str, reason: &str) {
        let repeated = self.before_outage.borrow().is_some();
        if !repeated {
            let State { state: stage, code, reason, .. } = self.state();
            self.before_outage.replace(Some(BeforeOutage { stage, code, reason }));
        }
        self.enter(Stage::StoreUnavailable, |state| {
            state.code = Some(code);
            state.reason = Some(reason.to_owned());
        });
        self.health.degraded(code, reason.to_owned());
        if !repeated {
            tracing::warn!(subscription = %self.name, code, reason, "the store takes nothing, messages wait");
        }
    }

    /// The store took a batch.
    pub(crate) fn stored(&self, buried: usize, duplicates: usize) {
        {
            let mut state = self.state.borrow_mut();
            state.buried += buried as u64;
            state.duplicates += duplicates as u64;
        }
        if let Some(BeforeOutage { stage, code, reason }) = self.before_outage.take() {
            tracing::info!(subscription = %self.name, "the store takes messages again");
            if stage == Stage::Subscribed {
                self.health.healthy();
            } else {
                let told = reason.clone().unwrap_or_else(|| NOT_SUBSCRIBED.to_owned());
                self.health.degraded(code.unwrap_or(CONNECTING), told);
            }
            self.enter(stage, |state| {
                state.code = code;
                state.reason = reason;
            });
        }
        if buried > 0 {
            tracing::warn!(subscription = %self.name, messages = buried, "messages went to the dead letters");
        }
    }

    /// A message came.
    pub(crate) fn received(&self, redelivered: bool) {
        let mut state = self.state.borrow_mut();
        state.received += 1;
        state.redelivered += u64::from(redelivered);
        state.last_message_at = Some(jiff::Timestamp::now());
    }

    /// Messages were acknowledged.
    pub(crate) fn acknowledged(&self, messages: usize) {
        self.state.borrow_mut().acknowledged += messages as u64;
    }

    /// The session is being ended because the daemon stops.
    pub(crate) fn stopping(&self) {
        self.enter(Stage::Stopping, |_| {});
    }
}
