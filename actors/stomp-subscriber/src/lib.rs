//! STOMP 1.2 subscriptions to ActiveMQ Classic, Artemis and RabbitMQ.
//!
//! # What this room owns
//! One socket to one broker at a time, the session on it, and the messages between their arrival and their
//! acknowledgement. It is the only place that knows STOMP, and the only one that uses `async-stomp`, whose
//! licence (EUPL-1.2) thereby stays inside this crate.
//!
//! # What it promises
//! - A message is acknowledged when its event is durable or its dead letter is, never before.
//! - Whatever the broker or the network does is a state with a code ([`failure`]), left by trying again after a
//!   backoff. It never ends the actor.
//! - While the store takes nothing, nothing is read: the broker feels the back-pressure, and heart-beats go on.
//! - A message that cannot be used (no event, too large, not UTF-8) is buried once and does not come again.
//!
//! # What it may not touch
//! The log, the broadcaster, HTTP. It meets the rest through [`freshet_feed::port`] and a decoder that is given
//! to it.
//!
//! | module | what it does | I/O |
//! |---|---|---|
//! | [`config`] | what a user may set | |
//! | [`connect`] | the frames that we send, in the spelling of each broker | |
//! | [`frame`] | bytes into frames, with limits | |
//! | [`heartbeat`] | what was agreed, what is due, when silence is death | |
//! | [`session`] | the protocol as a state machine | |
//! | [`failure`] | why a connection ended, by class | |
//! | [`acknowledge`] | a batch from arrival to acknowledgement | |
//! | [`retry`] | how long to wait, and which broker comes next | |
//! | [`state`] | what operators see | |
//! | [`socket`] | TCP and TLS | yes |
//! | [`connection`] | one session on one socket, from the first byte to the last | yes |
//! | [`subscriber`] | the actor | yes |
//!
//! # Why the codec and not the connector of `async-stomp`
//! Its `Connector` offers no `TCP_NODELAY` (200 round trips took 9.2 s instead of 0.19 s), no time-out for
//! connecting and no certificate authority of one's own, and it spawns tasks that no supervisor sees. Its
//! `ClientCodec` withstood frames in pieces, NUL bytes and 30 MB bodies.

pub mod acknowledge;
pub mod config;
pub mod connect;
pub mod connection;
pub mod failure;
pub mod frame;
pub mod heartbeat;
pub mod retry;
pub mod session;
pub mod socket;
pub mod state;
pub mod subscriber;

pub use config::Config;
pub use subscriber::{Decode, Ports, StompSubscriber};
