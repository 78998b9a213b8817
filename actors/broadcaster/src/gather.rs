//! Publishes that come while an append is in flight, gathered for the next one.

use freshet_feed::Event;
use freshet_feed::port::{Outcome, StoreError};
use tokio::sync::oneshot;

/// What a publisher gets.
pub(crate) type Answer = Result<Vec<Outcome>, StoreError>;

/// One publisher's part of an append.
#[derive(Debug)]
struct Share {
    events: usize,
    answer: oneshot::Sender<Answer>,
}

/// The publishers of one append, in the order of their events.
#[derive(Debug, Default)]
pub(crate) struct Shares(Vec<Share>);

/// The events of the next append.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    events: Vec<Event>,
    shares: Shares,
    bytes: usize,
}

impl Gathered {
    pub(crate) fn add(&mut self, events: Vec<Event>, answer: oneshot::Sender<Answer>) {
        self.bytes += events.iter().map(|event| event.body.len()).sum::<usize>();
        self.shares.0.push(Share { events: events.len(), answer });
        self.events.extend(events);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shares.0.is_empty()
    }

    pub(crate) fn is_full(&self, max_events: usize, max_bytes: usize) -> bool {
        self.events.len() >= max_events || self.bytes >= max_bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn into_parts(self) -> (Vec<Event>, Shares) {
        (self.events, self.shares)
    }
}

impl Shares {
    /// Gives each publisher the outcomes of its own events. A publisher that went away is passed over: its events
    /// are durable, and it learns so as duplicates when it publishes them again.
    pub(crate) fn answer(self, outcomes: Vec<Outcome>) {
        let mut outcomes = outcomes.into_iter();
        for share in self.0 {
            let own = outcomes.by_ref().take(share.events).collect();
            let _ = share.answer.send(Ok(own));
        }
    }

    /// Tells each publisher that nothing is known to be durable.
    pub(crate) fn refuse(self, error: &StoreError) {
        for share in self.0 {
            let _ = share.answer.send(Err(error.clone()));
        }
    }
}
