//! Keeps this instance's copy of a shared log up to the live stream.
//!
//! It holds no queue: it reads from where the copy stands, in memory what is recent and else in the log, one page at a
//! time. So it may be stopped anywhere, and goes on after an outage or a crash with the first event that the copy lacks.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, WrapFuture};
use freshet_broadcaster::Live;
use freshet_event_log::SqliteEventLog;
use freshet_feed::port::{EventLog, Logged, PageLimit, StoreError};
use freshet_feed::{Epoch, Position};
use freshet_kernel::{Child, ChildSpec, Link};
use serde_json::json;

/// The class of the actor in the tree.
const CLASS: &str = "Projector";
/// What one transaction of the copy takes at most.
const PAGE: PageLimit = PageLimit { events: 1024, bytes: 4 << 20 };
/// How long to wait after a page could not be read or written.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Takes the events of a shared log over into the copy that is searched here.
pub struct Projector {
    link: Link<Self>,
    projection: Projection,
}

/// The child that keeps the copy.
pub fn child(live: Arc<Live>, shared: Arc<dyn EventLog>, copy: SqliteEventLog) -> ChildSpec<Projector> {
    let projection = Projection { live, shared, copy, account: Arc::default() };
    ChildSpec::new("projector", CLASS, move |link| Projector { link, projection: projection.clone() })
}

impl Actor for Projector {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.link.degraded("catching_up", "the history does not have all events of the shared log yet");
        let kept = keep(self.projection.clone(), self.link.clone());
        ctx.spawn(kept.into_actor(self));
    }
}

impl Child for Projector {
    fn observe(&self) -> serde_json::Value {
        let account = self.projection.account();
        json!({
            "position": account.position.map(|position| position.to_string()),
            "taken": account.taken,
            "missed": account.missed,
            "outages": account.outages,
        })
    }
}

/// Goes on for ever; a page that fails is tried again.
async fn keep(projection: Projection, link: Link<Projector>) {
    let mut is_in_outage = false;
    loop {
        let Err(error) = projection
            .follow(|| {
                link.healthy();
                if std::mem::take(&mut is_in_outage) {
                    tracing::info!("the copy of the shared log is complete again");
                }
            })
            .await;
        link.degraded(error.code(), error.to_string());
        if !is_in_outage {
            is_in_outage = true;
            projection.account().outages += 1;
            tracing::warn!(code = error.code(), %error, "the copy of the shared log falls behind");
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// What is told of the work; it outlives restarts of the actor.
#[derive(Default)]
struct Account {
    position: Option<Position>,
    /// Events that were added to the copy.
    taken: u64,
    /// Events that the shared log no longer held when the copy came to them.
    missed: u64,
    outages: u64,
}

/// Where the copy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    position: Position,
    /// Whether the copy has had events of this epoch, so that the next offset is the one that it needs. A new copy begins
    /// with whatever is held.
    has_begun: bool,
}

impl Cursor {
    /// The offset after which to read, when the stream is of this epoch.
    fn in_epoch(self, epoch: Epoch) -> Self {
        if self.position.epoch == epoch {
            return self;
        }
        Self { position: Position { epoch, offset: 0 }, has_begun: false }
    }

    fn is_behind(self, newest: Position) -> bool {
        self.position.epoch != newest.epoch || self.position.offset < newest.offset
    }

    /// Where the copy stands after a page that was read up to `newest`, and how many events were gone before it.
    fn after(self, page: &[Logged], newest: Position) -> (Self, u64) {
        // Nothing is held of what comes after the cursor: all up to the newest is gone.
        let first = page.first().map_or(newest.offset + 1, |logged| logged.offset);
        let last = page.last().map_or(newest.offset, |logged| logged.offset);
        let missed = if self.has_begun { first.saturating_sub(self.position.offset + 1) } else { 0 };
        (Self { position: Position { offset: last, ..newest }, has_begun: true }, missed)
    }
}

#[derive(Clone)]
struct Projection {
    live: Arc<Live>,
    shared: Arc<dyn EventLog>,
    copy: SqliteEventLog,
    account: Arc<Mutex<Account>>,
}

impl Projection {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the copy up to the stream until something fails; `is_complete` is called whenever it has caught up.
    async fn follow(&self, mut is_complete: impl FnMut()) -> Result<Infallible, StoreError> {
        let mut stream = self.live.watch();
        let mut cursor = self.begin().await?;
        self.account().position = Some(cursor.position);
        loop {
            let newest = *stream.borrow_and_update();
            match newest {
                Some(newest) if cursor.is_behind(newest) => cursor = self.step(cursor, newest).await?,
                _ => {
                    if newest.is_some() {
                        is_complete();
                    }
                    stream.changed().await.map_err(|_| StoreError::Stopping)?;
                }
            }
        }
    }

    /// Where the copy stands, once the stream is known.
    async fn begin(&self) -> Result<Cursor, StoreError> {
        let bounds = self.copy.bounds().await?;
        let mut stream = self.live.watch();
        let newest = stream.wait_for(Option::is_some).await.map(|newest| *newest);
        let newest = newest.ok().flatten().ok_or(StoreError::Stopping)?;
        let position = Position { epoch: bounds.epoch, offset: bounds.last };
        let is_other_epoch = position.epoch != newest.epoch;
        if is_other_epoch && bounds.first <= bounds.last {
            tracing::warn!(
                events = bounds.last + 1 - bounds.first,
                "the history of another log gives way to the shared one"
            );
        }
        if is_other_epoch || self.is_copy_of_shared(position, newest).await? {
            return Ok(Cursor { position, has_begun: bounds.last > 0 });
        }
        tracing::error!(%position, "the shared log lost events that its copy has; the copy is made anew");
        let no_log = Position { epoch: Epoch(!newest.epoch.0), offset: 0 };
        self.copy.project(no_log.epoch, Vec::new()).await?;
        Ok(Cursor { position: no_log, has_begun: false })
    }

    /// Whether the newest event of the copy is the one at its offset in the shared log. It is not when that lost events
    /// while no instance ran, and gave their offsets to others.
    async fn is_copy_of_shared(&self, position: Position, newest: Position) -> Result<bool, StoreError> {
        if position.offset > newest.offset {
            return Ok(false);
        }
        let ours = self.copy.read_at(vec![position.offset]).await?;
        let theirs = self.shared.read_at(vec![position.offset]).await?;
        Ok(match (ours.first(), theirs.first()) {
            (Some(ours), Some(theirs)) => {
                ours.event.event_id == theirs.event.event_id && ours.appended_at == theirs.appended_at
            }
            // One of them holds it no longer.
            _ => true,
        })
    }

    /// Takes one page over.
    async fn step(&self, cursor: Cursor, newest: Position) -> Result<Cursor, StoreError> {
        let from = cursor.in_epoch(newest.epoch);
        let page = self.page(from.position).await?;
        let (reached, missed) = from.after(&page, newest);
        if missed > 0 {
            tracing::error!(events = missed, "the shared log no longer held events that its copy lacks");
        }
        let taken = self.copy.project(newest.epoch, page).await?;
        let mut account = self.account();
        account.position = Some(reached.position);
        account.taken += taken as u64;
        account.missed += missed;
        Ok(reached)
    }

    /// The next events after a position: from memory where they are recent, else from the log.
    async fn page(&self, after: Position) -> Result<Vec<Logged>, StoreError> {
        let recent = self.recent(after);
        if recent.is_empty() { self.shared.read_after(after.offset, PAGE).await } else { Ok(recent) }
    }

    fn recent(&self, after: Position) -> Vec<Logged> {
        let mut page: Vec<Logged> = Vec::new();
        let (mut offset, mut bytes) = (after.offset, 0);
        while page.len() < PAGE.events
            && bytes < PAGE.bytes
            && let Some(batch) = self.live.after(offset)
            && batch.epoch() == after.epoch
        {
            for rendered in &batch.events()[batch.range(offset, u64::MAX)] {
                bytes += rendered.event.body.len();
                page.push(Logged {
                    offset: rendered.offset,
                    appended_at: rendered.appended_at,
                    event: rendered.event.clone(),
                });
            }
            offset = batch.last();
        }
        page
    }
}

#[cfg(test)]
#[path = "projector_tests.rs"]
mod tests;
