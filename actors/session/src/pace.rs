//! Subscriptions that ask for a window of unacknowledged events, or for a rate.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Context;
use std::time::Instant;

use bytes::Bytes;
use freshet_feed::channel::{Channel, WhenFull};
use tokio::time::Sleep;

use crate::close_code::CloseCode;
use crate::config::Config;
use crate::delivery::Delivery;
use crate::flow::{Flow, Item, Next, Offered, Options, Policy};
use crate::hub::Hub;
use crate::protocol::answer::Answer;
use crate::subscription::Subscription;

/// The flow of one subscription; its items are rendered events.
pub(crate) type Pace = RefCell<Flow<Bytes>>;

/// `start` is the offset after which the subscription begins.
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
    Some(Box::new(RefCell::new(Flow::new(options, start))))
}

/// Takes the events of a delivery into the flow, and sends what it lets through. Returns whether the session goes on.
pub(crate) fn offer(hub: &Hub, subscription: &Subscription, pace: &Pace, delivery: &Delivery) -> bool {
    for (rendered, frame) in delivery.oldest_first() {
        let item = Item {
            offset: rendered.offset,
            key: rendered.event.key.as_deref().map(Arc::from),
            bytes: frame.len(),
            value: frame,
        };
        match pace.borrow_mut().offer(item) {
            Offered::Waits { left_out } => {
                hub.shared.counters.coalesced.fetch_add(left_out, Relaxed);
            }
            Offered::Overflow => {
                hub.close(&subscription.connection, CloseCode::OutboxFull);
                return false;
            }
        }
    }
    // When nothing may be sent before a certain time, the actor waits for it.
    if send(hub, subscription, pace).is_some() {
        subscription.connection.wake_io();
    }
    true
}

/// Sends what may be sent now. Returns when there may be more without anything else happening.
pub(crate) fn send(hub: &Hub, subscription: &Subscription, pace: &Pace) -> Option<Instant> {
    loop {
        let next = pace.borrow_mut().next(tokio::time::Instant::now().into_std());
        match next {
            Next::Send { item, left_out_before } => {
                if left_out_before > 0
                    && let Some((channel, _)) = subscription.interest.scope.channels().first()
                {
                    let answer = Answer::Coalesced { channel, left_out: left_out_before };
                    hub.say(&subscription.connection, answer.frame());
                }
                if !hub.say(&subscription.connection, item.value) {
                    return None;
                }
            }
            Next::Wait(until) => return until,
        }
    }
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
