//! From where a client left to the live stream: each event once, in order.
//!
//! The client's slot is registered with the hub of its thread first, and the hub passes it over while it catches up.
//! What is missed is then read up to the hub's position, and when the two positions meet, the slot goes live in the
//! same step. Hub, slot and actor share one thread, so nothing can come between the comparison and the change.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use freshet_broadcaster::{Batch, Rendered};
use freshet_feed::port::{Bounds, StoreError};
use freshet_feed::{Channels, Position};
use jiff::Timestamp;

use crate::delivery::Delivery;
use crate::hub::{Hub, gap_for};
use crate::interest::{Interest, Transport};
use crate::notice;
use crate::pace;
use crate::protocol::answer::{Answer, Missing};
use crate::snapshot;
use crate::subscription::Subscription;

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

/// A position of this log is taken at its word when the log reaches that far and still holds all that follows it;
/// nothing else is.
pub(crate) fn start_at(position: Position, bounds: Bounds) -> Start {
    let is_held = (bounds.first.saturating_sub(1)..=bounds.last).contains(&position.offset);
    if position.epoch == bounds.epoch && is_held { Start::After(position.offset) } else { Start::Gap }
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

/// What a subscription resumes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// The `id` of a server-sent event: a position, or an event's id.
    LastEventId(Box<str>),
    /// A position.
    Position(Position),
    /// An event's id.
    EventId(Box<str>),
    /// Nothing: the newest event of each key, and then what changes.
    Snapshot,
}

/// Brings a subscription from what it asked for to the live stream. Ends when it is live, or over. `id` is what a
/// WebSocket's answer repeats.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn run(
    hub: &Hub,
    subscription: &Subscription,
    resume: &Resume,
    id: Option<&str>,
) -> Result<(), StoreError> {
    let begun = match resume {
        Resume::Snapshot => snapshot::give_state(hub, subscription, id).await?,
        _ => Some(begin(hub, subscription, resume, id).await?),
    };
    let Some(mut cursor) = begun else { return Ok(()) };
    let epoch = hub.position().epoch;
    while subscription.is_open() {
        let live = hub.position();
        if live.epoch != epoch {
            // The log was replaced meanwhile: what was read belongs to one that is gone.
            tell_gap(hub, subscription, &Position { epoch, offset: cursor }.to_string(), 0);
            cursor = live.offset;
        }
        match next_step(cursor, live.offset) {
            Step::GoLive => {
                go_live(hub, subscription);
                return Ok(());
            }
            Step::AwaitHub => hub.advanced.notified().await,
            Step::Read(after) => {
                let page = hub.shared.backlog.after(after).await?;
                let read = read_page(cursor, live.offset, page.as_deref());
                if let Some(lost_until) = read.lost_until {
                    let asked = Position { offset: cursor, ..live }.to_string();
                    tell_gap(hub, subscription, &asked, lost_until);
                }
                if let Some(page) = page {
                    replay(hub, subscription, &page, read.range).await;
                }
                cursor = read.cursor;
                tokio::task::yield_now().await;
            }
        }
    }
    Ok(())
}

/// Finds where the subscription begins, and tells the client.
async fn begin(
    hub: &Hub,
    subscription: &Subscription,
    resume: &Resume,
    id: Option<&str>,
) -> Result<u64, StoreError> {
    let start = find(hub, &subscription.interest, resume).await?;
    let cursor = match start {
        Start::After(offset) => offset,
        // The hub may not know the newest events yet; it gives them when it does.
        Start::Gap => hub.shared.backlog.bounds().await?.first.saturating_sub(1),
    };
    let requested = match resume {
        Resume::LastEventId(text) | Resume::EventId(text) => text.to_string(),
        Resume::Position(position) => position.to_string(),
        Resume::Snapshot => String::new(),
    };
    let is_gap = start == Start::Gap;
    if is_gap {
        hub.shared.counters.gaps.fetch_add(1, Relaxed);
    }
    match subscription.interest.transport {
        Transport::Sse if is_gap => say_gap(hub, subscription, &requested, cursor),
        Transport::Sse => {}
        Transport::Websocket => {
            let live = hub.position();
            let newest = hub.shared.live.position().unwrap_or(live);
            let oldest = Position { offset: cursor + 1, ..live };
            let missing = is_gap.then_some(Missing { requested: &requested, oldest, newest });
            let position = Position { offset: cursor, ..live };
            say_subscribed(hub, subscription, position, missing, None, id);
        }
    }
    Ok(cursor)
}

pub(crate) fn say_subscribed(
    hub: &Hub,
    subscription: &Subscription,
    position: Position,
    missing: Option<Missing<'_>>,
    snapshot: Option<u64>,
    id: Option<&str>,
) {
    let Some((channel, _)) = subscription.interest.scope.channels().first() else { return };
    let recovered = missing.is_none();
    let answer = Answer::Subscribed { channel, position, recovered, missing, snapshot, id };
    if let Some(pace) = &subscription.pace {
        pace.told(position.offset);
    }
    hub.say(&subscription.connection, answer.frame());
}

fn go_live(hub: &Hub, subscription: &Subscription) {
    match (subscription.interest.transport, subscription.interest.scope.channels().first()) {
        (Transport::Websocket, Some((channel, _))) => {
            let position = hub.position();
            let frame = Answer::Live { channel, position }.frame();
            match &subscription.pace {
                Some(pace) => {
                    // Behind what still waits for the client's window or rate.
                    pace.say_after(position.offset, frame);
                    subscription.connection.wake_io();
                }
                None => {
                    hub.say(&subscription.connection, frame);
                }
            }
        }
        // A client that filters may have got nothing for a long while: move its id on.
        _ if !subscription.interest.wants_all() => {
            hub.say(
                &subscription.connection,
                notice::heartbeat(Some(&hub.id_for(&subscription.interest.scope))),
            );
        }
        _ => {}
    }
    subscription.go_live();
}

/// Understands what a client asked for.
async fn find(hub: &Hub, interest: &Interest, resume: &Resume) -> Result<Start, StoreError> {
    let live = hub.position();
    let (position, event_id) = match resume {
        Resume::LastEventId(text) => (text.parse::<Position>().ok(), Some(text)),
        Resume::Position(position) => (Some(*position), None),
        Resume::EventId(text) => (None, Some(text)),
        Resume::Snapshot => (None, None),
    };
    if let Some(position) = position.filter(|position| position.epoch == live.epoch) {
        let is_held = position.offset == live.offset || hub.shared.live.after(position.offset).is_some();
        if is_held && position.offset <= live.offset {
            return Ok(Start::After(position.offset));
        }
        return Ok(start_at(position, hub.shared.backlog.bounds().await?));
    }
    let Some(event_id) = event_id else { return Ok(Start::Gap) };
    let Some(offset) = hub.shared.backlog.locate(event_id).await? else { return Ok(Start::Gap) };
    // An id may stand in two channels. One of another channel or room is as unknown as one that never was.
    let is_own = match hub.shared.live.after(offset.saturating_sub(1)) {
        Some(batch) => {
            batch.events().iter().any(|found| found.offset == offset && interest.scope.holds(&found.event))
        }
        None => {
            let found = hub.shared.backlog.read_at(vec![offset]).await?;
            found.iter().any(|found| interest.scope.holds(&found.event))
        }
    };
    Ok(if is_own { Start::After(offset) } else { Start::Gap })
}

fn tell_gap(hub: &Hub, subscription: &Subscription, requested: &str, before_oldest: u64) {
    say_gap(hub, subscription, requested, before_oldest);
    hub.shared.counters.gaps.fetch_add(1, Relaxed);
}

fn say_gap(hub: &Hub, subscription: &Subscription, requested: &str, before_oldest: u64) {
    let live = hub.position();
    let newest = hub.shared.live.position().unwrap_or(live);
    let before_oldest = Position { offset: before_oldest, ..live };
    let bytes = gap_for(&subscription.interest, requested, before_oldest, newest);
    hub.say(&subscription.connection, bytes);
}

/// Gives what is still held of a page. What a channel keeps no longer is gone, whatever the log holds.
async fn replay(hub: &Hub, subscription: &Subscription, page: &Arc<Batch>, range: std::ops::Range<usize>) {
    let interest = &subscription.interest;
    let now = Timestamp::now();
    let is_gone = |index: usize| is_expired(&page.events()[index], interest, &hub.shared.channels, now);
    // Events grow old in their order, but for clocks that differ: whatever lies before the last one that is gone is
    // gone too.
    let kept_from = range.clone().rev().find(|index| is_gone(*index)).map_or(range.start, |gone| gone + 1);
    if kept_from > range.start {
        let first = page.events()[range.start].offset;
        let requested = Position { epoch: page.epoch(), offset: first - 1 }.to_string();
        tell_gap(hub, subscription, &requested, page.events()[kept_from - 1].offset);
    }
    let Some(delivery) = Delivery::select(page, kept_from..range.end, interest) else { return };
    give_events(hub, subscription, delivery).await;
}

/// Whether an event is older than its channel keeps it. Of one whose contents are gone nothing but the channel is
/// known.
fn is_expired(rendered: &Rendered, interest: &Interest, channels: &Channels, now: Timestamp) -> bool {
    let event = &rendered.event;
    if interest.scope.rooms_of(&event.channel).is_none() {
        return false;
    }
    let max_age = channels.get(event.channel.as_str()).and_then(|channel| channel.history_max_age);
    let age = now.duration_since(rendered.appended_at).unsigned_abs();
    let is_past = rendered.appended_at < now;
    event.body.is_empty() || (is_past && max_age.is_some_and(|max_age| age > max_age))
}

pub(crate) async fn give_events(hub: &Hub, subscription: &Subscription, delivery: Delivery) {
    let (events, bytes) = (delivery.event_count() as u64, delivery.bytes().len() as u64);
    if give(hub, subscription, delivery).await {
        let counters = &hub.shared.counters;
        counters.events.fetch_add(events, Relaxed);
        counters.bytes.fetch_add(bytes, Relaxed);
        counters.replayed.fetch_add(events, Relaxed);
    }
}

/// Waits for room, so that a replay never fills the outbox beyond what the client reads.
async fn give(hub: &Hub, subscription: &Subscription, delivery: Delivery) -> bool {
    let bytes = delivery.bytes().len();
    let connection = &subscription.connection;
    poll_fn(|context| connection.poll_room(bytes, &hub.shared.config, context)).await;
    if let Some(pace) = &subscription.pace {
        return pace::offer_patiently(hub, subscription, pace, &delivery).await;
    }
    subscription.is_open() && hub.give_events(subscription, &Rc::new(delivery))
}

#[cfg(test)]
#[path = "catch_up_tests.rs"]
mod tests;
