//! Supervision on [actix]: what Erlang/OTP's supervisors give, for plain actix actors.
//!
//! actix's own `Supervisor` sees no panic, knows no limit and no delay, and goes on with the broken value. Here every
//! child has a **factory**: when a child ends, for whatever reason, its supervisor decides by restart type, intensity
//! and strategy whether and when a fresh value takes its place. The child's **address** and the messages that wait in
//! its mailbox outlive it.
//!
//! ```
//! use actix::{Actor, Context, Handler, Message};
//! use freshet_kernel::{Backoff, Child, ChildSpec, ExitReason, SendError, SupervisorSpec};
//! use std::time::Duration;
//!
//! /// Divides 100, and panics on zero.
//! struct Divider {
//!     answered: u32,
//! }
//!
//! impl Actor for Divider {
//!     type Context = Context<Self>;
//! }
//!
//! impl Child for Divider {
//!     fn observe(&self) -> serde_json::Value {
//!         serde_json::json!({ "answered": self.answered })
//!     }
//! }
//!
//! #[derive(Message)]
//! #[rtype(result = "u32")]
//! struct Divide(u32);
//!
//! impl Handler<Divide> for Divider {
//!     type Result = u32;
//!
//!     fn handle(&mut self, Divide(by): Divide, _: &mut Context<Self>) -> u32 {
//!         let quotient = 100 / by;
//!         self.answered += 1;
//!         quotient
//!     }
//! }
//!
//! actix::System::new().block_on(async {
//!     let backoff = Backoff { min: Duration::from_millis(1), max: Duration::from_secs(1) };
//!     let child = ChildSpec::new("divider", "divider", |_link| Divider { answered: 0 }).backoff(backoff);
//!     let divider = child.address();
//!     let tree = freshet_kernel::start(SupervisorSpec::new("root").child(child));
//!
//!     assert_eq!(divider.send(Divide(4)).await, Ok(25));
//!     assert_eq!(divider.send(Divide(0)).await, Err(SendError::Restarting));
//!     assert_eq!(divider.send(Divide(5)).await, Ok(20)); // the same address, a fresh actor
//!
//!     let snapshot = tree.fresh_snapshot(Duration::from_secs(1)).await;
//!     assert_eq!(snapshot.children[0].restarts, 1);
//!     assert_eq!(tree.shutdown().await.reason, ExitReason::Shutdown);
//! });
//! ```
//!
//! # What it owns
//! | part | what it gives |
//! |---|---|
//! | [`ChildSpec`], [`SupervisorSpec`], [`start`] | the tree: what runs, in which order, and what happens when it ends |
//! | [`Address`] | sending to a child; [`Link`] is the child's way to its supervisor |
//! | [`Tree`], [`Snapshot`] | waiting, shutting down, looking at all of it |
//! | [`Nursery`] | many short-lived actors of one class, such as client sessions |
//! | [`stats`] | counters by class of actor, for metrics |
//! | [`task`] | the only ways to spawn a task or to do blocking work |
//!
//! # What it promises
//! 1. **A panic is an exit reason**: in the factory, `started`, a handler, a spawned future or stream, `stopping`,
//!    `stopped` or the drop of the actor. It is caught, counted, and logged once. After a panic no hook of that value
//!    runs. (A value that panics in its drop *while* another panic unwinds through it aborts the process; that is
//!    Rust's rule, and no library can catch it.)
//! 2. **A restart is a fresh value** from the factory.
//! 3. **Every end has one [`ExitReason`]**, and one supervisor that acts on it by the child's [`Restart`] type.
//! 4. **Restarts are limited** by a true sliding window. A supervisor over its limit stops its children in reverse
//!    order and ends; its parent treats that like the end of any permanent child; at the root the tree ends, and
//!    [`Tree::wait`] gives the reason.
//! 5. **Restarts wait**: exponential [`Backoff`] with jitter, which starts again after a healthy time. The wait does
//!    not make old failures forgotten.
//! 6. **Siblings** are left alone, or restarted together by [`Strategy`]: stopped in reverse order, started in order.
//!    While a supervisor comes up, each child is started when `started` of the one before has returned.
//! 7. **Shutdown** runs in reverse start order, each child within its own time; one that hangs is killed and named in
//!    the [`ShutdownReport`].
//! 8. **An [`Address`] stays valid** across restarts, also those of its supervisors. The message in hand at a panic is
//!    lost and its sender is told ([`SendError::Restarting`]); those that are queued are kept.
//! 9. **Every mailbox is bounded**, and a sender waits for room. The wait is counted.
//! 10. **A child that makes no progress** for its `stuck_after` is killed and restarted, unless it waits for room
//!     downstream, is degraded or holds a [`BusyGuard`].
//! 11. **An outage is a state** ([`Link::degraded`]), not a crash.
//! 12. **Everything can be looked at**: [`Tree::snapshot`] and [`stats::classes`], while a child hangs too.
//!
//! A child handles at most 32 messages before the other tasks of its thread get their turn. All times are read from
//! tokio's clock, so tests can simulate them.
//!
//! # Writing a child
//! - Keep what takes time inside the actor's context: `ctx.spawn(future.into_actor(self))` runs beside the mailbox;
//!   `ctx.wait(..)` and `AtomicResponse` pause it, which is how back-pressure reaches the senders. Both end with the
//!   actor. actix's `ResponseFuture` does **not** end with the actor and its panics are not seen here: prefer
//!   `ResponseActFuture`.
//! - A [`task::TaskHandle`] that the actor holds ends with it as well.
//! - Messages that an actor sends itself with `ctx.notify` go around the mailbox and are not counted.
//! - Two actors that wait for each other's answers in `ctx.wait` wait for ever; give one of them a `stuck_after`.
//!
//! # What it may not touch
//! It does no I/O, knows nothing of Freshet's events, and holds no secret: ids, classes, codes and observed states
//! are shown to operators as they are.

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
