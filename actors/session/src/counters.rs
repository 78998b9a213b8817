//! What sessions count, for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::close_code::CloseCode;

/// Counts since the start of the process, of all worker threads.
#[derive(Debug, Default)]
pub struct Counters {
    /// Sessions that are open or whose connection has not ended yet; a gauge.
    pub sessions: AtomicUsize,
    /// Sessions that were opened.
    pub opened: AtomicU64,
    /// Requests refused because there were too many sessions.
    pub refused: AtomicU64,
    /// Events put into outboxes, live ones and replayed ones.
    pub events: AtomicU64,
    /// Bytes of those events.
    pub bytes: AtomicU64,
    /// Events of those that were replayed.
    pub replayed: AtomicU64,
    /// Events left out by coalescing.
    pub coalesced: AtomicU64,
    /// Events that waited for a client, or did not fit any more, when its session ended. A client that resumes gets
    /// them then.
    pub dropped: AtomicU64,
    /// Gaps that clients were told.
    pub gaps: AtomicU64,
    /// Heartbeats put into outboxes.
    pub heartbeats: AtomicU64,
    closed: [AtomicU64; CloseCode::ALL.len()],
}

impl Counters {
    /// Sessions that the daemon ended with this code.
    #[must_use]
    pub fn closed(&self, code: CloseCode) -> u64 {
        self.closed[code.index()].load(Relaxed)
    }

    pub(crate) fn count_closed(&self, code: CloseCode) {
        self.closed[code.index()].fetch_add(1, Relaxed);
    }
}
