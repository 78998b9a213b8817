//! Reading from a position on: from memory where it is recent, else from the log, in pages that clients share.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use freshet_feed::Position;
use freshet_feed::port::{Bounds, EventLog, KeyedState, Logged, NewestByKey, PageLimit, StoreError};
use tokio::sync::Semaphore;

use crate::batch::Batch;
use crate::config::Config;
use crate::live::Live;

/// Reads what clients missed. Ten thousand clients that come back at once read each page of the log once or
/// twice: at most `concurrent_reads` reads run at a time, and whoever waited for its turn looks again for a page
/// that another has read meanwhile.
pub struct Backlog {
    live: Arc<Live>,
    log: Arc<dyn EventLog>,
    /// The pages read last, oldest first.
    pages: Mutex<VecDeque<Arc<Batch>>>,
    cached_pages: usize,
    reads: Semaphore,
    page_limit: PageLimit,
}

impl Backlog {
    /// Reads from `live` and, where that does not reach, from `log`.
    #[must_use]
    pub fn new(config: &Config, live: Arc<Live>, log: Arc<dyn EventLog>) -> Self {
        Self {
            live,
            log,
            pages: Mutex::new(VecDeque::new()),
            cached_pages: config.cached_pages.max(1),
            reads: Semaphore::new(config.concurrent_reads.max(1)),
            page_limit: PageLimit { events: config.page_max_events, bytes: config.batch_max_bytes },
        }
    }

    /// A batch with the oldest event after `offset` that is still held. It may begin before that event; when it
    /// begins after `offset + 1`, what lies between is gone. Nothing when there is no later event.
    ///
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// When the log cannot be read now.
    pub async fn after(&self, offset: u64) -> Result<Option<Arc<Batch>>, StoreError> {
        if let Some(batch) = self.in_memory(offset) {
            return Ok(Some(batch));
        }
        let Ok(_turn) = self.reads.acquire().await else { return Err(StoreError::Stopping) };
        if let Some(batch) = self.in_memory(offset) {
            return Ok(Some(batch));
        }
        let Some(Position { epoch, .. }) = self.live.position() else {
            return Err(StoreError::Unavailable("the log was not read yet".to_owned()));
        };
        self.live.counters().pages_read.fetch_add(1, Relaxed);
        let logged = self.log.read_after(offset, self.page_limit).await?;
        let Some(page) = Batch::render(epoch, logged).map(Arc::new) else { return Ok(None) };
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() == self.cached_pages {
            pages.pop_front();
        }
        pages.push_back(Arc::clone(&page));
        Ok(Some(page))
    }

    /// The offset of the event with this id, while it is held.
    ///
    /// # Errors
    /// When the log cannot be read now.
    pub async fn locate(&self, event_id: &str) -> Result<Option<u64>, StoreError> {
        if let Some(offset) = self.live.locate(event_id) {
            return Ok(Some(offset));
        }
        let Ok(_turn) = self.reads.acquire().await else { return Err(StoreError::Stopping) };
        self.log.locate(event_id.to_owned()).await
    }

    /// What the log holds now.
    ///
    /// # Errors
    /// When the log cannot be read now.
    pub async fn bounds(&self) -> Result<Bounds, StoreError> {
        let Ok(_turn) = self.reads.acquire().await else { return Err(StoreError::Stopping) };
        self.log.bounds().await
    }

    /// The newest event of each key of a channel.
    ///
    /// # Errors
    /// When the log cannot be read now.
    pub async fn newest_by_key(&self, request: NewestByKey) -> Result<KeyedState, StoreError> {
        let Ok(_turn) = self.reads.acquire().await else { return Err(StoreError::Stopping) };
        self.log.newest_by_key(request).await
    }

    /// The events at these offsets that are still held.
    ///
    /// # Errors
    /// When the log cannot be read now.
    pub async fn read_at(&self, offsets: Vec<u64>) -> Result<Vec<Logged>, StoreError> {
        let Ok(_turn) = self.reads.acquire().await else { return Err(StoreError::Stopping) };
        self.log.read_at(offsets).await
    }

    fn in_memory(&self, offset: u64) -> Option<Arc<Batch>> {
        if let Some(batch) = self.live.after(offset) {
            return Some(batch);
        }
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.iter().find(|page| page.first() <= offset + 1 && offset < page.last()).cloned()
    }
}
