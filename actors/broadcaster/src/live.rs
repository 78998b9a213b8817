//! What the Broadcaster shares with the worker threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use freshet_feed::port::{Announce, Logged};
use freshet_feed::{Epoch, Position};
use tokio::sync::watch;

use crate::batch::{Batch, cut};
use crate::config::Config;
use crate::counters::Counters;
use crate::recent::Recent;

/// The newest batches and the position of the newest event, all of one epoch. It outlives restarts of who announces
/// events to it: the Broadcaster, or the follower of a log that several instances share.
///
/// A worker thread follows it by one [`watch`](Self::watch), which wakes it once for each batch, and reads the
/// batches from its own cursor on. So there is no queue for each worker that could be full: a worker that is slow
/// takes several batches at once, and one that fell behind what is kept here reads the log
/// ([`Backlog`](crate::Backlog)). Nobody waits for it, and nothing is lost.
#[derive(Debug)]
pub struct Live {
    recent: Mutex<Recent>,
    batch_max_bytes: usize,
    position: watch::Sender<Option<Position>>,
    counters: Counters,
}

impl Live {
    /// With nothing in it, until a Broadcaster has read the log's bounds.
    #[must_use]
    pub fn new(config: &Config) -> Arc<Self> {
        Arc::new(Self {
            batch_max_bytes: config.batch_max_bytes,
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

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Announce for Live {
    /// Renders the events, in batches, and wakes the worker threads.
    fn announce(&self, epoch: Epoch, events: Vec<Logged>) {
        for logged in cut(events, self.batch_max_bytes) {
            let Some(batch) = Batch::render(epoch, logged) else { continue };
            let position = Position { epoch, offset: batch.last() };
            self.counters.handed_over(batch.events().iter().map(|rendered| &rendered.event));
            self.recent().push(Arc::new(batch));
            self.stands_at(position);
        }
    }

    /// Moves the position on, and back only into another epoch. What was not announced up to there is read from the
    /// log.
    fn stands_at(&self, position: Position) {
        self.position.send_if_modified(|known| {
            let is_other_log = known.is_some_and(|known| known.epoch != position.epoch);
            if is_other_log {
                self.recent().clear();
            }
            let moves = is_other_log || known.is_none_or(|known| known.offset < position.offset);
            if moves {
                *known = Some(position);
            }
            moves
        });
    }
}
