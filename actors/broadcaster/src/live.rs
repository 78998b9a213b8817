//! What the Broadcaster shares with the worker threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use freshet_feed::Position;
use tokio::sync::watch;

use crate::batch::Batch;
use crate::config::Config;
use crate::counters::Counters;
use crate::recent::Recent;

/// The newest batches and the position of the newest event, all of one epoch. It outlives restarts of the Broadcaster, which alone
/// writes to it.
///
/// A worker thread follows it by one [`watch`](Self::watch), which wakes it once for each batch, and reads the
/// batches from its own cursor on. So there is no queue for each worker that could be full: a worker that is slow
/// takes several batches at once, and one that fell behind what is kept here reads the log
/// ([`Backlog`](crate::Backlog)). Nobody waits for it, and nothing is lost.
#[derive(Debug)]
pub struct Live {
    recent: Mutex<Recent>,
    position: watch::Sender<Option<Position>>,
    counters: Counters,
}

impl Live {
    /// With nothing in it, until a Broadcaster has read the log's bounds.
    #[must_use]
    pub fn new(config: &Config) -> Arc<Self> {
        Arc::new(Self {
            recent: Mutex::new(Recent::new(config.recent_max_bytes)),
            position: watch::Sender::new(None),
            counters: Counters::default(),
        })
    }

    /// The position of the newest event that was announced; nothing until the log could be read.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        *self.position.borrow()
    }

    /// Wakes its owner when the position moves.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Option<Position>> {
        self.position.subscribe()
    }

    /// The batch that holds the event after `offset`, while it is kept here.
    #[must_use]
    pub fn after(&self, offset: u64) -> Option<Arc<Batch>> {
        self.recent().after(offset)
    }

    /// The offset of the event with this id, while it is kept here.
    #[must_use]
    pub fn locate(&self, event_id: &str) -> Option<u64> {
        self.recent().locate(event_id)
    }

    /// What was counted since the start of the process.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Hands a batch to all worker threads. `position` is that of its newest event. For the Broadcaster only.
    pub fn announce(&self, batch: Batch, position: Position) {
        self.counters.handed_over(batch.events().iter().map(|rendered| &rendered.event));
        self.recent().push(Arc::new(batch));
        self.advance(position);
    }

    /// Moves the position on, and never back. What was not announced up to there is read from the log. For the
    /// Broadcaster only.
    pub fn advance(&self, position: Position) {
        self.position.send_if_modified(|known| {
            let is_ahead = known.is_none_or(|known| known.offset < position.offset);
            if is_ahead {
                *known = Some(position);
            }
            is_ahead
        });
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
