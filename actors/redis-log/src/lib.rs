//! The event log that several instances share: Redis Streams.
//!
//! All instances with the same `redis.url` and `redis.prefix` append to one stream. Each event gets one offset, whoever
//! appends it, and each instance's [`Follower`] announces all of them in that order. So a client that moves from one
//! instance to another resumes at its position as if it had stayed.
//!
//! **Owns** the keys of Redis that begin with `{prefix}:`, with one hash tag, so that a cluster keeps them on one server:
//!
//! | key | what |
//! |---|---|
//! | `:head` | hash: `epoch` in 16 hexadecimal digits, `last` (the newest offset), `start` (the newest offset when the epoch began) |
//! | `:log` | stream: the event at offset n is the entry `n-0`, without holes; its fields stand in `entry.rs` |
//! | `:seen:<event id>` | hash of channels → the offset of the event with this id; for the duplicate window |
//! | `:commit:…` | list of what was reported of one snapshot; for the duplicate window |
//! | `:keys:<channel>` | sorted set of keys, each with its room, by the offset of its newest event |
//! | `:once:<name>` | what [`RedisStore`] keeps until it is taken |
//!
//! **Promises**
//! - An append is one script for each 512 events or MiB: it recognises duplicates, gives offsets and removes what is too
//!   much, and nobody sees it half done. It answers when Redis has acknowledged it, which is on disk with
//!   `appendfsync always`. Appends of several instances at once get offsets without holes.
//! - A call that may have been lost with its connection is made once more on another one. That is harmless: what it did is
//!   recognised.
//! - A lost Redis is an outage: calls fail with a [class] after their time limit, the [`Follower`] is degraded and
//!   comes back by itself, to the new master where sentinels or a cluster chose one. It never restarts because of it, and
//!   goes on with the event after the one that it announced last.
//! - A log that was lost, or has lost what was newest, has another epoch, for all instances the same. What was announced last
//!   is compared, event id and time of append, after every outage and every second without events; a follower that finds a
//!   difference begins the epoch, and each goes on in it after the newest event that it announced and that is still there.
//!   So what is held is announced, once, and what was lost is not taken for what stands at its offset now.
//!
//! **What Redis must promise**: to keep what it has (`maxmemory-policy noeviction`), and that only the master is written to.
//! Replication does not wait: a master that dies, or that sentinels replace, may have acknowledged appends that its replica
//! never had, and one that is cut off from its sentinels goes on taking them. `min-replicas-to-write 1` with a small
//! `min-replicas-max-lag` bounds what is lost so; only the source can append it again.
//!
//! **TLS** believes the certificates of the system, or of the file that the environment variable `SSL_CERT_FILE` names.
//!
//! **May not touch** HTTP, sessions, sources, or SQLite. It logs neither bodies nor the URL.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | options |
//! | `address` | a URL as the servers that it names |
//! | `error` | what can go wrong, by class |
//! | `connection` | [`Server`]: connections and time limits |
//! | `keys`, `entry` | names of keys; an event as an entry |
//! | `scripts`, `lua/` | what Redis runs |
//! | `log` | [`RedisEventLog`] |
//! | `decide`, `follower` | what to announce, and the actor that does |
//! | `store` | [`RedisStore`] |

mod address;
mod config;
mod connection;
mod decide;
mod entry;
mod error;
mod follower;
mod keys;
mod log;
#[cfg(test)]
mod sample;
mod scripts;
mod store;

pub use config::Config;
pub use connection::Server;
pub use error::{Failure, class};
pub use follower::Follower;
pub use log::RedisEventLog;
pub use store::RedisStore;
