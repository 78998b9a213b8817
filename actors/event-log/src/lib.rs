//! The embedded event log: SQLite with positions, deduplication, retention and search.
