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
    /// Whether it is an outage that the actor lives through, so that the rest of the instance serves on.
    #[serde(skip)]
    pub outage: bool,
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
            outage: false,
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
        NodeState::Stopped => {
            Some(("stopped".to_owned(), "it has stopped and is not started again".to_owned()))
        }
    };
    if let Some((code, reason)) = told {
        let outage = matches!(node.state, NodeState::Degraded { .. });
        reasons.push(Reason { actor: path.join("/"), code, reason, outage });
    }
    for child in &node.children {
        collect(child, path, reasons);
    }
    path.pop();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, state: NodeState, children: Vec<Snapshot>) -> Snapshot {
        Snapshot {
            id: id.to_owned(),
            class: "story",
            state,
            last_exit: None,
            restarts: 0,
            lost_threads: 0,
            uptime_millis: None,
            mailbox: None,
            handled: 0,
            failed: 0,
            observed: None,
            nurseries: Vec::new(),
            children,
        }
    }

    #[test]
    fn every_part_that_is_not_well_is_named_by_its_path() {
        let outage = NodeState::Degraded {
            code: "connection_refused",
            reason: "nobody listens".to_owned(),
            degraded_millis: 7,
        };
        let tree = node(
            "root",
            NodeState::Running,
            vec![
                node("ingest", NodeState::Running, vec![node("lake", outage, Vec::new())]),
                node("live", NodeState::Running, vec![node("broadcaster", NodeState::Starting, Vec::new())]),
            ],
        );
        let found = reasons(&tree, true);
        let told: Vec<_> =
            found.iter().map(|reason| (&*reason.actor, &*reason.code, reason.outage)).collect();
        assert_eq!(
            told,
            [
                ("root", "draining", false),
                ("root/ingest/lake", "connection_refused", true),
                ("root/live/broadcaster", "starting", false),
            ]
        );
    }

    #[test]
    fn a_tree_that_runs_gives_no_reason() {
        assert_eq!(reasons(&node("root", NodeState::Running, Vec::new()), false), []);
    }
}
