//! From where a client left to the live stream: each event once, in order.
//!
//! The client's slot is registered with the hub of its thread first, and the hub passes it over while it catches up.
//! What is missed is then read up to the hub's position, and when the two positions meet, the slot goes live in the
//! same step. Hub, slot and actor share one thread, so nothing can come between the comparison and the change.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use freshet_broadcaster::Batch;
use freshet_feed::Position;
use freshet_feed::port::{Bounds, StoreError};

use crate::delivery::Delivery;
use crate::hub::Hub;
use crate::notice;
use crate::slot::Slot;

/// Where a client that resumes begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// After this offset; nothing is known to be missing.
    After(u64),
    /// What it asked for is not known here: it is told of the gap, and gets everything that is held.
    Gap,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The client is where its hub is: it goes live.
    GoLive,
    /// The client is ahead of its hub, since it came from a thread that was faster: wait for the hub.
    AwaitHub,
    /// Read what comes after this offset.
    Read(u64),
}

/// A position of this log is taken at its word when the log reaches that far; nothing else is.
pub(crate) fn start_at(position: Position, bounds: Bounds) -> Start {
    if position.epoch == bounds.epoch && position.offset <= bounds.last {
        Start::After(position.offset)
    } else {
        Start::Gap
    }
}

/// Compares where the client is with where its hub is.
pub(crate) fn next_step(cursor: u64, hub: u64) -> Step {
    match cursor.cmp(&hub) {
        std::cmp::Ordering::Equal => Step::GoLive,
        std::cmp::Ordering::Greater => Step::AwaitHub,
        std::cmp::Ordering::Less => Step::Read(cursor),
    }
}

/// What a page means for a client at `cursor` whose hub is at `hub`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// When set, events up to this offset are gone, and the client never saw them.
    pub(crate) lost_until: Option<u64>,
    /// The indexes of the page's events that the client gets.
    pub(crate) range: std::ops::Range<usize>,
    /// Where the client is afterwards.
    pub(crate) cursor: u64,
}

/// Cuts a page to what lies between the client and its hub.
pub(crate) fn read_page(cursor: u64, hub: u64, page: Option<&Batch>) -> Page {
    // The hub is ahead, so there was a later event; when none can be read, all up to the hub are gone.
    let Some(page) = page else { return Page { lost_until: Some(hub), range: 0..0, cursor: hub } };
    let lost_until = (page.first() > cursor + 1).then(|| (page.first() - 1).min(hub));
    Page { lost_until, range: page.range(cursor, hub), cursor: page.last().min(hub) }
}

/// Brings a client from what it asked for to the live stream. Ends when it is live, or when its session is over.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn run(hub: &Hub, slot: &Slot, requested: &str) -> Result<(), StoreError> {
    let mut cursor = match find(hub, requested).await? {
        Start::After(offset) => offset,
        Start::Gap => {
            let bounds = hub.shared.backlog.bounds().await?;
            // The hub may not know the newest events yet; it gives them when it does.
            let before_oldest = bounds.first.saturating_sub(1);
            tell_gap(hub, slot, requested, before_oldest).await;
            before_oldest
        }
    };
    while slot.is_open() {
        let live = hub.position();
        match next_step(cursor, live.offset) {
            Step::GoLive => {
                // A client that filters may have got nothing for a long while: move its id on.
                if !slot.filter.is_all() {
                    let marker = Rc::new(Delivery::notice(notice::heartbeat(Some(&hub.newest_id()))));
                    hub.give_one(slot, &marker);
                }
                slot.go_live();
                return Ok(());
            }
            Step::AwaitHub => hub.advanced.notified().await,
            Step::Read(after) => {
                let page = hub.shared.backlog.after(after).await?;
                let read = read_page(cursor, live.offset, page.as_deref());
                if let Some(lost_until) = read.lost_until {
                    let asked = Position { offset: cursor, ..live }.to_string();
                    tell_gap(hub, slot, &asked, lost_until).await;
                }
                if let Some(page) = page {
                    replay(hub, slot, &page, read.range).await;
                }
                cursor = read.cursor;
                tokio::task::yield_now().await;
            }
        }
    }
    Ok(())
}

/// Understands what a client asked for: a position, else an event's id.
async fn find(hub: &Hub, requested: &str) -> Result<Start, StoreError> {
    let live = hub.position();
    if let Ok(position) = requested.parse::<Position>()
        && position.epoch == live.epoch
    {
        if position.offset <= live.offset {
            return Ok(Start::After(position.offset));
        }
        return Ok(start_at(position, hub.shared.backlog.bounds().await?));
    }
    Ok(hub.shared.backlog.locate(requested).await?.map_or(Start::Gap, Start::After))
}

async fn tell_gap(hub: &Hub, slot: &Slot, requested: &str, before_oldest: u64) {
    let live = hub.position();
    let newest = hub.shared.live.position().unwrap_or(live);
    let before_oldest = Position { offset: before_oldest, ..live };
    give(hub, slot, Delivery::notice(notice::gap(requested, before_oldest, newest))).await;
    hub.shared.counters.gaps.fetch_add(1, Relaxed);
}

async fn replay(hub: &Hub, slot: &Slot, page: &Arc<Batch>, range: std::ops::Range<usize>) {
    let Some(delivery) = Delivery::select(page, range, &slot.filter, hub.shared.config.when_full) else {
        return;
    };
    let (events, bytes) = (delivery.event_count() as u64, delivery.bytes().len() as u64);
    if give(hub, slot, delivery).await {
        let counters = &hub.shared.counters;
        counters.events.fetch_add(events, Relaxed);
        counters.bytes.fetch_add(bytes, Relaxed);
        counters.replayed.fetch_add(events, Relaxed);
    }
}

/// Waits for room, so that a replay never fills the outbox beyond what the client reads.
async fn give(hub: &Hub, slot: &Slot, delivery: Delivery) -> bool {
    let bytes = delivery.bytes().len();
    poll_fn(|context| slot.poll_room(bytes, &hub.shared.config, context)).await;
    hub.give_one(slot, &Rc::new(delivery))
}

#[cfg(test)]
#[path = "catch_up_tests.rs"]
mod tests;
