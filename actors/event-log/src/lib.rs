//! The embedded event log: SQLite with positions, deduplication, retention and search.
//!
//! **Owns** the file `event-log.sqlite` in the data directory, and through [`DirectoryLock`] the right of one
//! instance to that directory.
//!
//! **Promises**
//! - An append answers when its events are on the disk (WAL with `synchronous=FULL`), all or none.
//! - Offsets rise by exactly one for each accepted event, over restarts and after everything was removed. The
//!   epoch is drawn when the file is made.
//! - An event is recognised while it is held and within the window, by its id in its channel, or as the same commit in its
//!   channel and room; see [`Config::deduplication_window_secs`], [`Config::deduplication_events`] and
//!   [`Config::same_commit_within_secs`].
//! - A search, a table and a count show what the request's scope holds, and nothing of other channels and rooms.
//! - An event that is older than its channel shows leaves its place and nothing else; see [`Retention`].
//! - The oldest events go first, by age, count and bytes, in bounded steps. Freed pages are used again, and may keep old
//!   bytes until then, so the file stays at its largest size and needs no vacuum.
//! - A full or broken disk is an outage in the actor tree that ends by itself. A damaged or newer file is an
//!   [`OpenError`]; no file is ever replaced.
//! - A search ends soon after its time limit, and a cursor works only for the search that it came from. Searches
//!   never hold up appends and reads by position: those have connections of their own.
//!
//! **May not touch** HTTP, sessions, sources, or any other file. It does not log event bodies or query texts.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | options |
//! | `error` | errors with their codes |
//! | `lock` | one instance for a data directory |
//! | `schema`, `sql/` | versions of the file and the steps between them |
//! | `connection` | opening the file, its checks and settings |
//! | `event_id` | an event's id as it is stored |
//! | `rows` | events as rows |
//! | `store` | writing: append, deduplication |
//! | `batch` | what one transaction adds: rows of events, and what they do to their tables |
//! | `retention` | what is removed, and when |
//! | `projection` | the file as a copy of a log that several instances share |
//! | `words` | text as the words by which it is found |
//! | `read`, `newest` | reading by position, and the newest event of each key |
//! | `scope` | what a request may read, by the keys of the file |
//! | `search`, `cursor` | a search as SQL, and where it goes on; no I/O |
//! | `history`, `tables` | executing searches and summaries |
//! | `statistics` | counters for metrics |
//! | `writer` | the actor |
//! | `log` | [`open`] and the handle [`SqliteEventLog`] |

mod batch;
mod config;
mod connection;
mod cursor;
mod error;
mod event_id;
mod history;
mod lock;
mod log;
mod newest;
mod projection;
mod read;
mod retention;
mod rows;
#[cfg(test)]
mod sample;
mod schema;
mod scope;
mod search;
mod statistics;
mod store;
mod tables;
mod words;
mod writer;

pub use config::Config;
pub use connection::LOG_FILE;
pub use error::{OpenError, SearchError};
pub use lock::{DirectoryLock, LOCK_FILE};
pub use log::{SqliteEventLog, open};
pub use retention::Retention;
pub use search::{Page, Query};
pub use statistics::Statistics;
pub use tables::{Added, LastCommit, TableSummary, TablesQuery};
pub use words::{MAX_TEXT_BYTES, MAX_TEXT_WORDS, MAX_WORDS_BYTES, MIN_PREFIX_CHARACTERS};
pub use writer::{Append, Project, Writer};
