//! Specifications: what to run and what to do when it ends.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    Address, Backoff, Child, ExitReason, Link, Nursery,
    address::{Mailbox, mailbox},
    child::SupervisedChild,
    node::{Node, SUPERVISOR_CLASS},
    run::Factory,
    supervisor::{Supervised, Supervisor},
};

/// When an ended child is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    Permanent,
    /// After every end but a normal one and a shutdown.
    Transient,
    /// Never, also not together with its siblings.
    Temporary,
}

impl Restart {
    /// Whether a child that ended with `reason` is started again.
    pub(crate) fn brings_back(self, reason: &ExitReason) -> bool {
        match self {
            Self::Permanent => true,
            Self::Transient => !reason.is_orderly(),
            Self::Temporary => false,
        }
    }
}

/// Which siblings are restarted together with a child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// None.
    OneForOne,
    /// Those that were started after it: they depend on it.
    RestForOne,
    /// All: they depend on one another.
    OneForAll,
}

/// The thread on which a child runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The thread of its supervisor. A child that blocks there blocks its siblings, and nothing can kill it.
    Shared,
    /// A thread of its own. A child that blocks it cannot be ended either; when it is stuck, its run is disowned, its
    /// replacement gets a fresh thread, and the snapshot counts the lost one until the process ends.
    OwnThread,
}

/// One child: its place in the tree, how to make it and what to do when it ends.
pub struct ChildSpec<A: Child> {
    pub(crate) id: String,
    pub(crate) class: &'static str,
    pub(crate) factory: Factory<A>,
    pub(crate) restart: Restart,
    pub(crate) backoff: Backoff,
    pub(crate) shutdown_within: Duration,
    pub(crate) stuck_after: Option<Duration>,
    pub(crate) placement: Placement,
    pub(crate) node: Arc<Node>,
    pub(crate) address: Address<A>,
    pub(crate) mailbox: Mailbox<A>,
}

impl<A: Child> ChildSpec<A> {
    /// A permanent child on its supervisor's thread with a mailbox for 64 messages, the default [`Backoff`], 5 s to
    /// shut down and no stuck detection.
    ///
    /// `id` names the child among its siblings, `class` groups children in statistics. `factory` makes a fresh value
    /// for every start; a panic in it is an exit reason like any other.
    pub fn new(
        id: impl Into<String>,
        class: &'static str,
        factory: impl Fn(Link<A>) -> A + Send + 'static,
    ) -> Self {
        Self::assemble(id.into(), class, Arc::new(Mutex::new(factory)), 64)
    }

    fn assemble(id: String, class: &'static str, factory: Factory<A>, capacity: usize) -> Self {
        let node = Arc::new(Node::new(id.clone(), class, capacity, Vec::new(), Vec::new()));
        let (address, mailbox) = mailbox(&node);
        Self {
            id,
            class,
            factory,
            restart: Restart::Permanent,
            backoff: Backoff::default(),
            shutdown_within: Duration::from_secs(5),
            stuck_after: None,
            placement: Placement::Shared,
            node,
            address,
            mailbox,
        }
    }

    /// When to start it again.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// How long to wait before it is started again.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How many messages may wait (at least 1). A sender that finds it full waits. Set it before [`Self::address`]:
    /// an address that was taken earlier belongs to a mailbox that is thrown away.
    #[must_use]
    pub fn mailbox(self, capacity: usize) -> Self {
        let fresh = Self::assemble(self.id.clone(), self.class, Arc::clone(&self.factory), capacity.max(1));
        Self { node: fresh.node, address: fresh.address, mailbox: fresh.mailbox, ..self }
    }

    /// How long it may take to stop before it is killed. Siblings stop one after the other, in reverse order, whatever
    /// their supervisor's strategy: a tree in which all hang takes the **sum** of their limits (and 5 s or 10 s for each
    /// nursery). Keep that sum below the time that the service manager grants the process.
    #[must_use]
    pub fn shutdown_within(mut self, limit: Duration) -> Self {
        self.shutdown_within = limit;
        self
    }

    /// Restarts the child when it was not once ready for a next message during `limit`: paused by `ctx.wait` or an
    /// `AtomicResponse`, or blocking its thread. Time in which it is degraded, holds a [`crate::BusyGuard`] or waits
    /// for room in another child's mailbox does not count.
    #[must_use]
    pub fn stuck_after(mut self, limit: Duration) -> Self {
        self.stuck_after = Some(limit);
        self
    }

    /// The thread on which it runs.
    #[must_use]
    pub fn on(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// The child's address: valid before the start and across restarts.
    pub fn address(&self) -> Address<A> {
        self.address.clone()
    }
}

/// A supervisor: its children in start order, and how it treats their ends.
///
/// In its parent's eyes it is a permanent child: when it gives up, it is started again with all its children, and
/// that counts as one restart of the parent. Children that had ended for good stay ended.
pub struct SupervisorSpec {
    id: String,
    strategy: Strategy,
    max_restarts: u32,
    period: Duration,
    children: Vec<Box<dyn Supervised>>,
    nurseries: Vec<Nursery>,
}

impl SupervisorSpec {
    /// A one-for-one supervisor that allows 1 restart in 5 s (the defaults of Erlang/OTP's supervisor).
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            strategy: Strategy::OneForOne,
            max_restarts: 1,
            period: Duration::from_secs(5),
            children: Vec::new(),
            nurseries: Vec::new(),
        }
    }

    /// Which siblings are restarted together.
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// How many restarts are allowed within a sliding `period`. One more, and the supervisor stops its children in
    /// reverse order and gives up. Intensities multiply down the levels of a tree, so keep those at the top small.
    /// The time that a child waits in backoff does not make its failures older.
    #[must_use]
    pub fn intensity(mut self, max_restarts: u32, period: Duration) -> Self {
        self.max_restarts = max_restarts;
        self.period = period;
        self
    }

    /// Adds a child after those that are there already.
    #[must_use]
    pub fn child<A: Child>(mut self, child: ChildSpec<A>) -> Self {
        self.children.push(Box::new(SupervisedChild::new(child)));
        self
    }

    /// Adds a supervisor after the children that are there already.
    #[must_use]
    pub fn supervisor(mut self, supervisor: SupervisorSpec) -> Self {
        self.children.push(Box::new(supervisor.build()));
        self
    }

    /// Shows a nursery under this supervisor. Its children are stopped before those of the supervisor, and from then on
    /// it takes nobody until the supervisor is started again.
    #[must_use]
    pub fn nursery(mut self, nursery: &Nursery) -> Self {
        self.nurseries.push(nursery.clone());
        self
    }

    pub(crate) fn build(self) -> Supervisor {
        let nodes = self.children.iter().map(|child| child.node()).collect();
        let node = Node::new(self.id, SUPERVISOR_CLASS, 0, nodes, self.nurseries);
        Supervisor::new(Arc::new(node), self.strategy, (self.max_restarts, self.period), self.children)
    }
}
