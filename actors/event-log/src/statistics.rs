//! What the log counts, for metrics.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use freshet_feed::port::Outcome;
use serde::Serialize;

use crate::store::Log;

/// Counts since the process started, and the state of the log as of its last commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Events that were appended.
    pub appended: u64,
    /// Events that were recognised as duplicates.
    pub duplicates: u64,
    /// Batches that could not be appended.
    pub failed_appends: u64,
    /// Events that are held.
    pub held_events: u64,
    /// Bytes of the bodies that are held.
    pub held_bytes: u64,
    /// The newest offset.
    pub last_offset: u64,
    /// Bytes of the log's files.
    pub disk_bytes: u64,
    /// How long the last append took, with its wait for the disk, in microseconds.
    pub last_append_micros: u64,
}

/// The counters behind [`Statistics`]. The writer changes them, anybody reads them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    appended: AtomicU64,
    duplicates: AtomicU64,
    failed_appends: AtomicU64,
    held_events: AtomicU64,
    held_bytes: AtomicU64,
    last_offset: AtomicU64,
    last_append_micros: AtomicU64,
}

impl Counters {
    pub(crate) fn appended(&self, outcomes: &[Outcome], took: Duration) {
        let duplicates = outcomes.iter().filter(|outcome| **outcome == Outcome::Duplicate).count() as u64;
        self.appended.fetch_add(outcomes.len() as u64 - duplicates, Relaxed);
        self.duplicates.fetch_add(duplicates, Relaxed);
        self.took(took);
    }

    pub(crate) fn projected(&self, added: usize, took: Duration) {
        self.appended.fetch_add(added as u64, Relaxed);
        self.took(took);
    }

    fn took(&self, took: Duration) {
        self.last_append_micros.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn append_failed(&self) {
        self.failed_appends.fetch_add(1, Relaxed);
    }

    pub(crate) fn holds(&self, log: &Log) {
        self.held_events.store(log.held_events(), Relaxed);
        self.held_bytes.store(log.held_bytes, Relaxed);
        self.last_offset.store(log.last, Relaxed);
    }

    /// The counts now; asks the file system for the size of the files.
    pub(crate) fn read(&self, file: &Path) -> Statistics {
        let size = |suffix: &str| {
            let mut name = file.as_os_str().to_owned();
            name.push(suffix);
            fs::metadata(name).map_or(0, |metadata| metadata.len())
        };
        Statistics {
            appended: self.appended.load(Relaxed),
            duplicates: self.duplicates.load(Relaxed),
            failed_appends: self.failed_appends.load(Relaxed),
            held_events: self.held_events.load(Relaxed),
            held_bytes: self.held_bytes.load(Relaxed),
            last_offset: self.last_offset.load(Relaxed),
            disk_bytes: size("") + size("-wal") + size("-shm"),
            last_append_micros: self.last_append_micros.load(Relaxed),
        }
    }
}
