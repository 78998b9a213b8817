//! What the routes know of the daemon's own life: its tree, and whether it is stopping.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freshet_kernel::{Snapshot, Tree};

/// Shared between the routes, which are a part of the tree, and the shell, which starts and stops it.
#[derive(Clone, Default)]
pub struct Lifecycle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Set once the tree runs: its HTTP child is built before it.
    tree: OnceLock<Tree>,
    draining: AtomicBool,
}

impl Lifecycle {
    /// Tells the routes which tree they are a part of. The first tree stays.
    pub fn started(&self, tree: &Tree) {
        let _first_stays = self.0.tree.set(tree.clone());
    }

    /// From now on the instance is not ready.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
    }

    /// Whether the instance is stopping.
    #[must_use]
    pub fn draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    /// The tree as it is now, once it runs.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.0.tree.get().map(Tree::snapshot)
    }

    /// The same with fresh observations, as far as the actors answer within the limit.
    pub async fn fresh_snapshot(&self, limit: Duration) -> Option<Snapshot> {
        match self.0.tree.get() {
            Some(tree) => Some(tree.fresh_snapshot(limit).await),
            None => None,
        }
    }
}
