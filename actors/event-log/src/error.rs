//! What can go wrong, with stable codes.

use std::io;
use std::path::PathBuf;

use freshet_feed::port::StoreError;

/// Why the log, or its directory, cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another instance holds the data directory.
    #[error("the data directory {} is in use by another instance", directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The data directory cannot be made or locked.
    #[error("the data directory {} cannot be used: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file is damaged, or is no event log. It is left as it is: restore it from a copy, or move it away to
    /// begin a new log.
    #[error("the event log {} is damaged: {reason}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What the check found first.
        reason: String,
    },
    /// A newer Freshet wrote the file.
    #[error("the event log {} has version {found}, and this program knows versions up to {known}", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The file cannot be opened, read or written.
    #[error("the event log {} cannot be opened: {source}", file.display())]
    Unavailable {
        /// The file.
        file: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// The stable machine code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "data_directory_in_use",
            Self::Directory { .. } => "data_directory_unavailable",
            Self::Corrupt { .. } => "event_log_corrupt",
            Self::Newer { .. } => "event_log_newer",
            Self::Unavailable { .. } => "event_log_unavailable",
        }
    }
}

/// Why a search gives no page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The cursor was altered, or belongs to another search or another log.
    #[error("the cursor does not belong to this search")]
    InvalidCursor,
    /// The text is too long, has too many words, or the page is to have no or too many entries.
    #[error("{0}")]
    InvalidQuery(String),
    /// The search would have to look at too much of the log.
    #[error("the search is too broad: name a table, a time range or more words")]
    TooBroad,
    /// The log cannot be read now.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SearchError {
    /// The stable machine code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidCursor => "invalid_cursor",
            Self::InvalidQuery(_) => "invalid_query",
            Self::TooBroad => "search_too_broad",
            Self::Store(error) => error.code(),
        }
    }
}

impl From<rusqlite::Error> for SearchError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => Self::TooBroad,
            _ => Self::Store(unavailable(&error)),
        }
    }
}

/// What SQLite reports, as an outage. SQLite's texts name tables and files, never contents.
pub(crate) fn unavailable(error: &rusqlite::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
