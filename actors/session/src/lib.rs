//! The sessions of clients that follow the live stream by server-sent events.
//!
//! Each worker thread of the HTTP server has a hub with the slots of its clients, grouped by what they want. For
//! each batch of the [Broadcaster](freshet_broadcaster) a group gets one shared piece of bytes; each slot queues a
//! pointer to it and wakes the response body, which writes all that its slot holds in one go. The
//! [`SessionActor`](session::SessionActor) of a client only controls: it brings a client that comes back from where
//! it left to the live stream, and ends with the connection. `actix-web-actors` is not used: there the actor lives in
//! the response body and freezes with a full socket.
//!
//! It promises:
//! - a client gets each event that it wants once, in the order of offsets, or is told that there is a gap;
//! - a client that resumes by event id or by position gets exactly what it missed;
//! - a slow client hurts only itself: its outbox is bounded in bytes and then coalesced or closed, its memory is
//!   freed at once, and its socket is ended;
//! - no event is copied or rendered for a client, except to be joined into one write.
//!
//! It may not append to the log, and HTTP is known here and in the shell only.
//!
//! # The stream
//! | block | what it says |
//! |---|---|
//! | `event: connected` | always first, at once: `{"clientId"}`; with `retry`, and as `id` what the client resumes from when it leaves now: for a new client the newest event's, for one that comes back its own |
//! | `event: iceberg-mutation` | a commit; `id` is its event id |
//! | `event: gap` | what the client resumed from is not held any more, or some events are gone: `{"requested","oldest","newest"}`; everything still held follows |
//! | `event: coalesced` | the client read too slowly: `{"leftOut"}` older events of tables are left out, the newest of each follow |
//! | `event: close` | the last one: `{"code","reason","reconnect"}` by the [catalogue](close_code::CloseCode), with `retry` |
//! | `:` | a heartbeat; for a client that filters, its `id` moves the last event id on without an event |
//!
//! An `id` is an event id or a position; `Last-Event-ID` or `?lastEventId=` takes both, and the header wins. A
//! position is given only while no event's id is known, since other instances of the daemon do not know it.
//!
//! There is one channel, `iceberg`; `?channels=` may name it and no other.
//!
//! | module | what it gives |
//! |---|---|
//! | [`events`](mod@events) | the HTTP handler |
//! | [`sessions`] | [`Sessions`]: what all worker threads share; the drain at shutdown |
//! | `hub`, `hub_task` | the clients of one thread: delivery, heartbeats, drain |
//! | `slot`, `outbox`, `delivery` | what waits for one client |
//! | `catch_up` | from where a client left to the live stream |
//! | `body` | the response body that empties a slot |
//! | [`session`] | the actor |
//! | `request`, `notice` | what clients ask, and what a stream says besides events |
//! | [`socket`] | socket options of each connection |
//! | [`close_code`], [`counters`], [`config`] | the catalogue of close codes, metrics, settings |

pub(crate) mod allowance;
mod catch_up;
pub mod close_code;
pub mod config;
mod connection;
pub mod counters;
mod delivery;
pub mod door;
pub mod events;
mod flow;
mod frames;
mod hub;
mod hub_task;
mod interest;
mod notice;
mod outbox;
mod pace;
mod protocol;
mod refusal;
mod request;
pub mod server;
pub mod session;
pub mod sessions;
mod snapshot;
mod socket;
mod subscription;
pub mod upgrade;
mod websocket;

#[cfg(test)]
#[path = "../../broadcaster/tests/support/memory_log.rs"]
#[allow(missing_docs, unreachable_pub)]
mod memory_log;

pub use close_code::CloseCode;
pub use config::Config;
pub use counters::Counters;
pub use events::events;
pub use server::serve;
pub use sessions::Sessions;
pub use upgrade::websocket;
