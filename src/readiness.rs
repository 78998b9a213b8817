//! Whether this instance should get new clients, and why not. Pure.

use freshet_kernel::{NodeState, Snapshot};
use serde::Serialize;

/// One reason why the instance is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The path of the actor in the tree, for instance `root/ingest/lake`; `root` for the daemon as a whole.
    pub actor: String,
    /// The stable code of its state.
    pub code: String,
    /// A sentence for the operator.
    pub reason: String,
}

/// Every reason why the instance is not ready, in the order of the tree; none when it is.
#[must_use]
pub fn reasons(tree: &Snapshot, draining: bool) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if draining {
        reasons.push(Reason {
            actor: tree.id.clone(),
            code: "draining".to_owned(),
            reason: "the daemon is stopping and takes no new sessions".to_owned(),
        });
    }
    collect(tree, &mut Vec::new(), &mut reasons);
    reasons
}

fn collect<'a>(node: &'a Snapshot, path: &mut Vec<&'a str>, reasons: &mut Vec<Reason>) {
    path.push(&node.id);
    let told = match &node.state {
        NodeState::Running => None,
        NodeState::Degraded { code, reason, .. } => Some(((*code).to_owned(), reason.clone())),
        NodeState::Backoff { attempt, .. } => {
            Some(("backoff".to_owned(), format!("it failed and is started again, attempt {attempt}")))
        }
        NodeState::Starting => Some(("starting".to_owned(), "it has not started yet".to_owned())),
        NodeState::Stopping => Some(("stopping".to_owned(), "it is being stopped".to_owned())),
        NodeState::Stopped => Some(("stopped".to_owned(), "it has stopped and is not started again".to_owned())),
    };
    if let Some((code, reason)) = told {
        reasons.push(Reason { actor: path.join("/"), code, reason });
    }
    for child in &node.children {
        collect(child, path, reasons);
    }
    path.pop();
}
