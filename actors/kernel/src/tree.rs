//! A running tree.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::sync::watch;

use crate::{
    ExitReason, Snapshot, SupervisorSpec,
    node::Node,
    supervisor::{Launched, Supervised, Supervisor},
    task,
};

/// A handle to a running tree. Clones are handles to the same tree; dropping them does not stop it.
#[derive(Clone)]
pub struct Tree {
    root: Arc<Node>,
    stop: watch::Sender<bool>,
    end: watch::Receiver<Option<ExitReason>>,
}

/// How a shutdown went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShutdownReport {
    /// Why the root ended: `Shutdown`, or another reason if it had ended before.
    pub reason: ExitReason,
    /// Paths (`root/live/broadcaster`) of the children that did not stop in time and were killed.
    pub hung: Vec<String>,
}

/// Starts a tree on the current thread.
///
/// # Panics
/// Outside an actix system.
pub fn start(root: SupervisorSpec) -> Tree {
    let supervisor: Supervisor = root.build();
    let node = supervisor.node();
    let (end_sender, end) = watch::channel(None);
    let Launched { up, exit, stop } = supervisor.launch(false);
    task::spawn("kernel-root", {
        let node = Arc::clone(&node);
        // Without a sender the supervisor would stop, and the tree lives on when its handles are gone.
        let keep_going = stop.clone();
        async move {
            let _keep_going = keep_going;
            let mut exit = exit;
            let reason = tokio::select! {
                biased;
                Ok(()) = up => {
                    node.up();
                    exit.as_mut().await
                }
                reason = exit.as_mut() => reason,
            };
            node.end(&reason);
            supervisor.close();
            end_sender.send_replace(Some(reason));
        }
    })
    .detach();
    Tree { root: node, stop, end }
}

impl Tree {
    /// The tree as it is now. Observed states are the last ones known, with their age; each call asks the children to
    /// refresh them for the next. A child that hangs does not delay it.
    pub fn snapshot(&self) -> Snapshot {
        let snapshot = Snapshot::of(&self.root);
        request_observations(&self.root);
        snapshot
    }

    /// Like [`Self::snapshot`], with observed states that are refreshed first. Children that do not answer within
    /// `limit` show their last one.
    pub async fn fresh_snapshot(&self, limit: Duration) -> Snapshot {
        // A limit that is hit is no error: the snapshot shows the age of each state.
        let _ = tokio::time::timeout(limit, observe_all(&self.root)).await;
        Snapshot::of(&self.root)
    }

    /// Stops the tree in reverse start order, each child within its time, and waits until all have ended.
    ///
    /// Dropping the future leaves the shutdown going on; calling it again joins it.
    pub async fn shutdown(&self) -> ShutdownReport {
        self.stop.send_replace(true);
        let reason = self.wait().await;
        let mut hung = Vec::new();
        collect_hung(&self.root, "", &mut hung);
        ShutdownReport { reason, hung }
    }

    /// Waits for the end of the tree and gives the reason of its root. May be called again, also after the end.
    pub async fn wait(&self) -> ExitReason {
        let mut end = self.end.clone();
        let reason = match end.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone(),
            // The thread of the tree has ended without a word.
            Err(_) => None,
        };
        reason.unwrap_or(ExitReason::Killed)
    }
}

fn request_observations(node: &Arc<Node>) {
    node.request_observation();
    for child in &node.children {
        request_observations(child);
    }
}

async fn observe_all(root: &Arc<Node>) {
    let mut nodes = vec![Arc::clone(root)];
    let mut index = 0;
    while let Some(node) = nodes.get(index).cloned() {
        nodes.extend(node.children.iter().cloned());
        index += 1;
    }
    let waits = nodes.iter().map(|node| async move {
        let mut observed = std::pin::pin!(node.observed.notified());
        observed.as_mut().enable();
        if node.request_observation() {
            observed.await;
        }
    });
    futures_util::future::join_all(waits).await;
}

fn collect_hung(node: &Node, parent: &str, hung: &mut Vec<String>) {
    let path = if parent.is_empty() { node.id.clone() } else { format!("{parent}/{}", node.id) };
    for child in &node.children {
        collect_hung(child, &path, hung);
    }
    if node.has_hung() {
        hung.push(path);
    }
}
