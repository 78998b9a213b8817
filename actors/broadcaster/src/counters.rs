//! What the Broadcaster counts, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use freshet_feed::Event;

/// Upper bounds of the latency buckets, in milliseconds; one more bucket takes the rest.
pub const LATENCY_BOUNDS_MILLIS: [u64; 14] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 60_000];

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub struct Counters {
    /// Events that became durable.
    pub published: AtomicU64,
    /// Events that were known already.
    pub duplicates: AtomicU64,
    /// Appends to the log, failed ones included.
    pub appends: AtomicU64,
    /// Appends that failed.
    pub append_failures: AtomicU64,
    /// Batches handed to the worker threads.
    pub batches: AtomicU64,
    /// Frames in those batches.
    pub frames: AtomicU64,
    /// Pages of the log that were read for clients that caught up.
    pub pages_read: AtomicU64,
    /// Events by time from `eventTimestamp` to the hand-over to the worker threads; each count belongs to the
    /// bucket of [`LATENCY_BOUNDS_MILLIS`] at its index and to no other, and the last one to the rest.
    pub latency: [AtomicU64; LATENCY_BOUNDS_MILLIS.len() + 1],
    /// The sum of those times, in milliseconds.
    pub latency_sum_millis: AtomicU64,
}

impl Counters {
    /// Counts the events of one batch as handed over now. A writer whose clock is ahead counts as no time.
    pub(crate) fn handed_over<'a>(&self, events: impl Iterator<Item = &'a Event>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.batches.fetch_add(1, Relaxed);
        for event in events {
            let millis = now.saturating_sub(event.timestamp.as_millisecond()).max(0).unsigned_abs();
            let bucket = LATENCY_BOUNDS_MILLIS.partition_point(|bound| *bound < millis);
            self.latency[bucket].fetch_add(1, Relaxed);
            self.latency_sum_millis.fetch_add(millis, Relaxed);
            self.frames.fetch_add(1, Relaxed);
        }
    }
}
