//! Subscriptions that ask for a window of unacknowledged events, or for a rate.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use freshet_broadcaster::Rendered;
use freshet_feed::channel::{Channel, WhenFull};
use tokio::time::Sleep;

use crate::close_code::CloseCode;
use crate::config::Config;
use crate::delivery::Delivery;
use crate::flow::{AckError, Flow, Item, Next, Offered, Options, Policy};
use crate::hub::Hub;
use crate::protocol::answer::Answer;
use crate::subscription::Subscription;

/// The pace of one subscription.
pub(crate) struct Pace {
    /// Its items are rendered events.
    flow: RefCell<Flow<Bytes>>,
    /// What is said when everything up to this offset is sent or left out: that the replay is over.
    after: RefCell<Option<(u64, Bytes)>>,
}

/// `start` is the offset that the client is told to stand at, if that is known already.
pub(crate) fn new(
    window: Option<u32>,
    max_rate_per_sec: Option<u32>,
    channel: &Channel,
    config: &Config,
    start: u64,
) -> Option<Box<Pace>> {
    if window.is_none() && max_rate_per_sec.is_none() {
        return None;
    }
    let policy = match channel.when_full {
        WhenFull::Close => Policy::Close,
        WhenFull::Coalesce => Policy::Coalesce,
        WhenFull::Newest => Policy::Newest { keep: channel.keep_newest },
    };
    let options = Options { window, max_rate_per_sec, policy, max_bytes: config.outbox_max_bytes };
    Some(Box::new(Pace { flow: RefCell::new(Flow::new(options, start)), after: RefCell::default() }))
}

impl Pace {
    /// The client is told by another message that it stands here.
    pub(crate) fn told(&self, offset: u64) {
        self.flow.borrow_mut().told(offset);
    }

    /// Says this behind everything up to the offset.
    pub(crate) fn say_after(&self, offset: u64, frame: Bytes) {
        self.after.replace(Some((offset, frame)));
    }

    /// Returns whether that made room.
    ///
    /// # Errors
    /// When the client was not told of that offset yet.
    pub(crate) fn acknowledge(&self, offset: u64) -> Result<bool, AckError> {
        let mut flow = self.flow.borrow_mut();
        let before = flow.in_flight();
        flow.acknowledge(offset)?;
        Ok(flow.in_flight() < before)
    }

    /// What is to be said now, if no event with an offset up to that one waits any more.
    fn due(&self) -> Option<Bytes> {
        let mut flow = self.flow.borrow_mut();
        let mut after = self.after.borrow_mut();
        let (offset, frame) =
            after.take_if(|(offset, _)| flow.oldest_waiting().is_none_or(|oldest| oldest > *offset))?;
        flow.told(offset);
        Some(frame)
    }
}

/// Takes the events of a delivery into the flow, and sends what it lets through. Returns whether the session goes on.
pub(crate) fn offer(hub: &Hub, subscription: &Subscription, pace: &Pace, delivery: &Delivery) -> bool {
    let mut frames = BytesMut::new();
    let mut until = None;
    for (rendered, frame) in delivery.oldest_first() {
        if !take_in(hub, subscription, pace, rendered, frame) {
            return false;
        }
        // One by one: what there is room for is not left out for what comes with it.
        until = gather(subscription, pace, &mut frames);
    }
    if !frames.is_empty() {
        hub.say(&subscription.connection, frames.freeze());
    }
    // When nothing may be sent before a certain time, the actor waits for it.
    if until.is_some() {
        subscription.connection.wake_io();
    }
    true
}

/// The same for events that can be read later just as well: each waits until there is room for it.
pub(crate) async fn offer_patiently(
    hub: &Hub,
    subscription: &Subscription,
    pace: &Pace,
    delivery: &Delivery,
) -> bool {
    for (rendered, frame) in delivery.oldest_first() {
        // Whatever makes room wakes the actor, and with it this.
        poll_fn(|_| {
            let is_ready = !subscription.is_open() || pace.flow.borrow().has_room_for(frame.len());
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if !subscription.is_open() || !take_in(hub, subscription, pace, rendered, frame) {
            return false;
        }
        if send(hub, subscription, pace).is_some() {
            subscription.connection.wake_io();
        }
    }
    true
}

fn take_in(hub: &Hub, subscription: &Subscription, pace: &Pace, rendered: &Rendered, frame: Bytes) -> bool {
    let item = Item {
        offset: rendered.offset,
        key: rendered.event.key.as_deref().map(Arc::from),
        bytes: frame.len(),
        value: frame,
    };
    let offered = pace.flow.borrow_mut().offer(item);
    match offered {
        Offered::Waits { left_out } => {
            hub.shared.counters.coalesced.fetch_add(left_out, Relaxed);
            true
        }
        Offered::Overflow => {
            hub.close(&subscription.connection, CloseCode::OutboxFull);
            false
        }
    }
}

/// Sends what may be sent now. Returns when there may be more without anything else happening.
pub(crate) fn send(hub: &Hub, subscription: &Subscription, pace: &Pace) -> Option<Instant> {
    let mut frames = BytesMut::new();
    let until = gather(subscription, pace, &mut frames);
    if !frames.is_empty() {
        hub.say(&subscription.connection, frames.freeze());
    }
    until
}

/// Takes what may be sent now. What its socket does not take yet is left in the flow, where the channel's policy holds.
fn gather(subscription: &Subscription, pace: &Pace, frames: &mut BytesMut) -> Option<Instant> {
    const AT_ONCE_BYTES: usize = 64 << 10;
    while subscription.connection.waits_for_nothing() && frames.len() < AT_ONCE_BYTES {
        if let Some(frame) = pace.due() {
            frames.extend_from_slice(&frame);
        }
        let next = pace.flow.borrow_mut().next(tokio::time::Instant::now().into_std());
        match next {
            Next::Send { item, left_out_before } => {
                if left_out_before > 0
                    && let Some((channel, _)) = subscription.interest.scope.channels().first()
                {
                    let answer = Answer::Coalesced { channel, left_out: left_out_before };
                    frames.extend_from_slice(&answer.frame());
                }
                frames.extend_from_slice(&item.value);
            }
            Next::Wait(until) => {
                if let Some(frame) = pace.due() {
                    frames.extend_from_slice(&frame);
                }
                return until;
            }
        }
    }
    // A socket that is full wakes the actor by itself when it has taken what it has.
    if subscription.connection.waits_for_nothing() {
        subscription.connection.wake_io();
    }
    None
}

/// Wakes the actor of a client when a rate lets the next event through.
#[derive(Default)]
pub(crate) struct PaceTimer(Option<Pin<Box<Sleep>>>);

impl PaceTimer {
    /// To be woken at the earliest of these times.
    pub(crate) fn wake_at(&mut self, until: Option<Instant>, task: &mut Context<'_>) {
        let Some(until) = until else {
            self.0 = None;
            return;
        };
        let mut sleep = Box::pin(tokio::time::sleep_until(until.into()));
        if sleep.as_mut().poll(task).is_ready() {
            task.waker().wake_by_ref();
        }
        self.0 = Some(sleep);
    }
}

/// The subscriptions of one client that have a pace.
pub(crate) fn send_all(
    hub: &Hub,
    subscriptions: &[Rc<Subscription>],
    timer: &mut PaceTimer,
    task: &mut Context<'_>,
) {
    let paced =
        subscriptions.iter().filter_map(|subscription| Some((subscription, subscription.pace.as_ref()?)));
    let mut has_pace = false;
    let mut earliest: Option<Instant> = None;
    for (subscription, pace) in paced {
        has_pace = true;
        let until = send(hub, subscription, pace);
        earliest = [earliest, until].into_iter().flatten().min();
    }
    if has_pace {
        timer.wake_at(earliest, task);
    }
}
