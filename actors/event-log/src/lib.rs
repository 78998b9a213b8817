//! The embedded event log.
mod config;
mod connection;
mod cursor;
mod error;
mod history;
mod lock;
mod read;
mod rows;
#[cfg(test)]
mod sample;
mod schema;
mod search;
mod store;
mod tables;
mod words;

pub use config::Config;
pub use error::{OpenError, SearchError};
pub use lock::DirectoryLock;
pub use search::{Page, Query};
pub use tables::{Added, LastCommit, TableSummary, TablesQuery};
