//! The tree as data, for operators.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    ExitReason,
    node::{Node, Phase, Status},
    stats::nanos,
    sync::lock,
};

/// One node of the tree with all below it. Serialises to JSON as documented on each field; ages and times are whole
/// milliseconds unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Snapshot {
    /// Name among its siblings.
    pub id: String,
    /// Class of actor; `supervisor` for supervisors.
    pub class: &'static str,
    /// What it does now.
    #[serde(flatten)]
    pub state: NodeState,
    /// Why its last run ended, if one has.
    pub last_exit: Option<LastExit>,
    /// How often it was started again.
    pub restarts: u64,
    /// Runs that block a thread for ever and were given up.
    pub lost_threads: u64,
    /// How long the present run is up.
    pub uptime_millis: Option<u64>,
    /// Its mailbox; absent for supervisors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<MailboxState>,
    /// Messages taken from the mailbox and handled.
    pub handled: u64,
    /// Messages handled, but reported as failed.
    pub failed: u64,
    /// What the child says of itself; absent for supervisors and before the first observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Nurseries shown under this supervisor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nurseries: Vec<NurseryState>,
    /// Children in start order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Snapshot>,
}

/// What a child or a supervisor does now. In JSON the variant is the field `state`, its fields stand beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum NodeState {
    /// Waits for its turn, or `started` has not returned yet.
    Starting,
    /// Up and healthy.
    Running,
    /// Up, but something that it depends on is out.
    Degraded {
        /// Stable code.
        code: &'static str,
        /// Text for people.
        reason: String,
        /// Since when.
        degraded_millis: u64,
    },
    /// Ended, and waits to be started again.
    Backoff {
        /// Number of the coming restart since it was last healthy.
        attempt: u32,
        /// Time until then.
        restarts_in_millis: u64,
    },
    /// Was asked to stop.
    Stopping,
    /// Does not run and is not waiting to be started.
    Stopped,
}

/// The end of the last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastExit {
    /// Why: `{"kind": "panic", "message": "…"}`.
    pub reason: ExitReason,
    /// How long ago.
    pub ago_millis: u64,
}

/// A mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MailboxState {
    /// How many messages may wait.
    pub capacity: usize,
    /// How many wait now.
    pub depth: usize,
    /// How many sends had to wait for room.
    pub waits: u64,
    /// How long they waited, in whole nanoseconds.
    pub wait_nanos: u64,
}

/// A child's own account of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observed {
    /// What `Child::observe` returned.
    pub value: serde_json::Value,
    /// How old it is.
    pub age_millis: u64,
}

/// A nursery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NurseryState {
    /// Class of its children.
    pub class: &'static str,
    /// How many live now.
    pub count: usize,
    /// How many may live at once.
    pub limit: usize,
}

impl Snapshot {
    pub(crate) fn of(node: &Arc<Node>) -> Self {
        let now = Instant::now();
        let status = lock(&node.status);
        let millis_since = |then: Instant| nanos(now.saturating_duration_since(then)) / 1_000_000;
        let state = state(&status, now);
        let last_exit = status
            .last_exit
            .as_ref()
            .map(|(reason, at)| LastExit { reason: reason.clone(), ago_millis: millis_since(*at) });
        let observed = status
            .observed
            .as_ref()
            .map(|(value, at)| Observed { value: value.clone(), age_millis: millis_since(*at) });
        let uptime_millis = status.up_since.map(millis_since);
        drop(status);
        let mailbox = (node.mailbox_capacity > 0).then(|| MailboxState {
            capacity: node.mailbox_capacity,
            depth: node.mailbox_depth.load(Relaxed),
            waits: node.waits.load(Relaxed),
            wait_nanos: node.wait_nanos.load(Relaxed),
        });
        Self {
            id: node.id.clone(),
            class: node.class,
            state,
            last_exit,
            restarts: node.restarts.load(Relaxed),
            lost_threads: node.lost_threads.load(Relaxed),
            uptime_millis,
            mailbox,
            handled: node.handled.load(Relaxed),
            failed: node.failed.load(Relaxed),
            observed,
            nurseries: node.nurseries.iter().map(|nursery| nursery.state()).collect(),
            children: node.children.iter().map(Self::of).collect(),
        }
    }

    /// The node at a path of ids below this one, such as `["live", "broadcaster"]`.
    pub fn find(&self, path: &[&str]) -> Option<&Snapshot> {
        match path {
            [] => Some(self),
            [first, rest @ ..] => self.children.iter().find(|child| child.id == *first)?.find(rest),
        }
    }

    /// Calls `visit` with this node and every node below it, parents first.
    pub fn each<'a>(&'a self, visit: &mut impl FnMut(&'a Snapshot)) {
        visit(self);
        for child in &self.children {
            child.each(visit);
        }
    }
}

fn state(status: &Status, now: Instant) -> NodeState {
    match &status.phase {
        Phase::Starting => NodeState::Starting,
        Phase::Running => match &status.degraded {
            None => NodeState::Running,
            Some((code, reason, since)) => NodeState::Degraded {
                code,
                reason: reason.clone(),
                degraded_millis: nanos(now.saturating_duration_since(*since)) / 1_000_000,
            },
        },
        Phase::Backoff { attempt, due } => NodeState::Backoff {
            attempt: *attempt,
            restarts_in_millis: nanos(due.saturating_duration_since(now)) / 1_000_000,
        },
        Phase::Stopping => NodeState::Stopping,
        Phase::Stopped => NodeState::Stopped,
    }
}
