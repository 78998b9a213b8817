//! What a child holds of its supervisor.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use actix::{ActorContext, Context};

use crate::{
    Address, Child, ExitReason,
    incarnation::{Excuse, Incarnation},
    node::Node,
};

/// A child's way to talk to its supervisor, handed to its factory. It speaks for one run of the child: what a former
/// run says is ignored.
pub struct Link<A: Child> {
    address: Address<A>,
    node: Arc<Node>,
    incarnation: Arc<Incarnation>,
}

impl<A: Child> Clone for Link<A> {
    fn clone(&self) -> Self {
        Self {
            address: self.address.clone(),
            node: Arc::clone(&self.node),
            incarnation: Arc::clone(&self.incarnation),
        }
    }
}

impl<A: Child> Link<A> {
    pub(crate) fn new(address: Address<A>, node: Arc<Node>, incarnation: Arc<Incarnation>) -> Self {
        Self { address, node, incarnation }
    }

    /// The child's own address. A message sent to it waits behind those that are queued already.
    pub fn address(&self) -> Address<A> {
        self.address.clone()
    }

    /// Declares an outage of something that the child depends on. `code` is stable and in snake_case, `reason` is for
    /// people and holds no secret. The state shows in the tree, burns no restart budget and excuses the child from
    /// stuck detection. Calling it again replaces code and reason and keeps the time since when.
    pub fn degraded(&self, code: &'static str, reason: impl Into<String>) {
        if self.node.is_current(&self.incarnation) {
            self.node.set_degraded(code, reason.into());
        }
    }

    /// Ends an outage that [`Self::degraded`] declared.
    pub fn healthy(&self) {
        if self.node.is_current(&self.incarnation) {
            self.node.set_healthy();
        }
    }

    /// Stops this child with a reason. `stopping` and `stopped` run as usual; then its supervisor decides.
    pub fn exit(&self, ctx: &mut Context<A>, reason: ExitReason) {
        self.incarnation.set_own_reason(reason);
        ctx.stop();
    }

    /// Counts a message that was handled, but failed.
    pub fn count_failure(&self) {
        self.node.failed.fetch_add(1, Relaxed);
        self.node.counters.failed.fetch_add(1, Relaxed);
    }

    /// Says that the child waits for something slow that is not a kernel mailbox. Until the guard is dropped the
    /// child cannot be found stuck.
    pub fn busy(&self) -> BusyGuard {
        BusyGuard { _excuse: self.incarnation.excuse() }
    }
}

/// Excuses a child from stuck detection while it lives; see [`Link::busy`].
#[must_use = "the excuse ends when the guard is dropped"]
pub struct BusyGuard {
    _excuse: Excuse,
}
