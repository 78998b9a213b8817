//! Supervision on actix.

mod address;
mod backoff;
mod child;
mod exit;
mod incarnation;
mod intensity;
mod link;
mod node;
mod nursery;
mod run;
mod snapshot;
mod spec;
pub mod stats;
mod supervisor;
mod sync;
pub mod task;
mod tree;
mod unwind;

pub use address::{Address, SendError, TryTellError};
pub use backoff::Backoff;
pub use exit::ExitReason;
pub use link::{BusyGuard, Link};
pub use nursery::{Nursery, NurseryFull};
pub use snapshot::{LastExit, MailboxState, NodeState, NurseryState, Observed, Snapshot};
pub use spec::{ChildSpec, Placement, Restart, Strategy, SupervisorSpec};
pub use stats::ClassStats;
pub use tree::{ShutdownReport, Tree, start};
pub use unwind::install_panic_hook;

/// An actor that can be supervised. Its context is actix's plain context.
pub trait Child: actix::Actor<Context = actix::Context<Self>> {
    /// A small account of its state for the tree that operators see. No secrets, no row contents. It is called on the
    /// actor's own thread, between messages, when somebody looks.
    fn observe(&self) -> serde_json::Value;
}
