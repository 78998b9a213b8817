//! The Broadcaster: takes events in, makes them durable, and hands them to the threads that serve clients.
//!
//! It owns the order of the live stream. Events are appended to the log, one append at a time; what is published
//! meanwhile is gathered, within bounds, for the next append. Each accepted event is rendered once, and each
//! batch of frames wakes each worker thread once.
//!
//! It promises:
//! - a publisher is answered only when its events are durable, or told that they may not be;
//! - events are delivered in the order of their offsets;
//! - when sources are faster than the log, they wait; when a worker thread is slower than the stream, it reads on
//!   from memory or from the log, and nobody waits for it;
//! - an event that became durable although its append failed, or although the Broadcaster was restarted, is
//!   delivered all the same: the log's bounds are read again, and what was not announced is read from the log;
//! - of a log to which several instances append it announces nothing: a follower does, in the order of all of them.
//!
//! It may not touch HTTP, sockets or clients.
//!
//! | module | what it gives |
//! |---|---|
//! | [`broadcaster`] | the actor, its message [`Publish`] and its child specification |
//! | [`handle`] | [`BroadcasterHandle`], the [`Publisher`](freshet_feed::port::Publisher) of sources |
//! | [`render`] | an event as a server-sent event |
//! | [`render_ws`] | an event as a WebSocket frame |
//! | [`batch`] | successive events with their frames |
//! | [`live`] | what worker threads follow: the newest batches and the newest position |
//! | [`backlog`] | what clients missed: from memory, else in shared pages from the log |
//! | [`counters`] | what is counted, for metrics |
//! | [`config`] | what an operator may set |

pub mod backlog;
pub mod batch;
pub mod broadcaster;
pub mod config;
pub mod counters;
mod gather;
pub mod handle;
pub mod live;
mod recent;
pub mod render;
pub mod render_ws;

pub use backlog::Backlog;
pub use batch::{Batch, Rendered};
pub use broadcaster::{Broadcaster, Publish};
pub use config::Config;
pub use counters::Counters;
pub use handle::BroadcasterHandle;
pub use live::Live;
