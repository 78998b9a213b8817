//! The sessions of clients that follow the live stream, by server-sent events or by WebSocket.
//!
//! Each worker thread of the HTTP server has a hub with the connections of its clients, whose subscriptions are grouped
//! by what they want. The head of a response is answered by actix-web; then the socket is taken out of it and is the
//! session's. For each batch of the [Broadcaster](freshet_broadcaster) a group gets one shared piece of bytes, which the
//! hub writes straight to each socket; what a socket does not take waits in an outbox. The
//! [`SessionActor`](session::SessionActor) of a client reads its socket, writes what waits, brings subscriptions to the
//! live stream, and ends with the connection. `actix-web-actors` is not used: there the actor lives in the response body
//! and freezes with a full socket.
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
//! Who may follow what is decided by `freshet_feed::scope`. A session ends with the token of its holder, unless it is
//! renewed.
//!
//! | module | what it gives |
//! |---|---|
//! | [`events`](mod@events), [`upgrade`] | the HTTP handlers of `GET /events` and `GET /ws` |
//! | [`server`], [`door`] | an HTTP server whose sockets can be taken out of it once a head is answered |
//! | [`sessions`] | [`Sessions`]: what all worker threads share; the drain at shutdown |
//! | `hub`, `hub_task` | the clients of one thread: delivery, heartbeats, ends of tokens, drain |
//! | `connection`, `outbox`, `delivery` | one client's socket, and what waits for it |
//! | `subscription`, `interest`, `pace`, `flow` | what a client follows, and its window and rate |
//! | `catch_up`, `snapshot` | from where a client left, or from the newest event of each key, to the live stream |
//! | [`session`], `websocket` | the actor, and its side of a WebSocket |
//! | `frames`, `protocol` | RFC 6455's frames, and the messages of `freshet.v1` |
//! | `allowance` | how much a client may send |
//! | [`presence`], [`administration`], [`renewal`] | who is connected, how sessions are ended, and how they go on with a new token |
//! | `request`, `notice`, `refusal` | what clients ask, and what they are told besides events |
//! | `socket` | socket options of each connection |
//! | [`close_code`], [`counters`], [`config`] | the catalogue of close codes, metrics, settings |

pub mod administration;
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
pub mod presence;
mod protocol;
mod refusal;
pub mod renewal;
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
