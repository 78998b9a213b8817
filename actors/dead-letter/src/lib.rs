//! The dead-letter room: what could not be processed, kept with its reason, its headers and its bytes.
//!
//! **Owns** one SQLite file, and nobody else opens it to write.
//!
//! **Promises**
//! - Letters are on the disk, all of them or none, before a [`Bury`] is answered. Only then may a source
//!   acknowledge what it could not process.
//! - Letters that were just buried stay, whatever the limits; the oldest make room. The limits are counts, bytes
//!   and age ([`Config`]).
//! - A full disk, a lock that somebody else holds, or a file that cannot be read is an outage
//!   (`store_unavailable` in the tree), never a crash. Callers keep their letters and try again; the room finds
//!   out by itself when the store works again, by a write and not by hope.
//! - A file of a newer version is left alone.
//!
//! **May not** read what is inside a letter, log its contents, or know where letters come from.
//!
//! | module | what it gives |
//! |---|---|
//! | [`config`] | the limits |
//! | [`store`] | the file: bury, read, retention, migration. Plain blocking calls |
//! | [`room`] | the supervised actor, on a thread of its own since SQLite blocks |
//! | [`handle`] | [`DeadLetters`]: what others hold; implements [`freshet_feed::port::DeadLetterStore`] |
//!
//! A letter is not recognised when it comes twice: a source that lost its connection before it could acknowledge
//! sends again, and buries again. Losing a letter would be worse.

pub mod config;
pub mod handle;
mod migration;
pub mod room;
pub mod store;

pub use config::Config;
pub use handle::DeadLetters;
pub use room::{Bury, DeadLetterRoom, child};
pub use store::{Buried, CodeCount, Heading, Store, StoreFailure};
