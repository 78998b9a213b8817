//! What waits for one client, bounded in bytes. Pure: no waker, no clock.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use freshet_feed::channel::WhenFull;
use freshet_feed::{ChannelName, Channels};

use crate::delivery::Delivery;
use crate::interest::Transport;
use crate::notice;

/// At most this many bytes are joined for one write; what is queued beyond follows in the next.
const JOINED_MAX_BYTES: usize = 64 << 10;

/// Deliveries in the order of their events.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// The oldest, in place: most clients read so fast that no second one ever waits.
    next: Option<Rc<Delivery>>,
    /// What follows it; empty when there is no next one.
    later: VecDeque<Rc<Delivery>>,
    bytes: usize,
    /// How many events of each channel were left out since the client was last told.
    left_out: BTreeMap<ChannelName, u64>,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It waits for the client.
    Queued,
    /// It waits; this many older events do not any more.
    LeftOut(u64),
    /// It did not fit: the session is to be closed, and what waits is to be cleared. This many older events were
    /// left out in vain.
    Full(u64),
}

impl Outbox {
    /// Whether so many more bytes fit. Whatever its size, one delivery fits into an empty outbox.
    pub(crate) fn fits(&self, bytes: usize, max_bytes: usize) -> bool {
        self.next.is_none() || self.bytes.saturating_add(bytes) <= max_bytes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, delivery: &Rc<Delivery>, max_bytes: usize, channels: &Channels) -> Pushed {
        let fits = self.fits(delivery.bytes().len(), max_bytes);
        self.push_last(Rc::clone(delivery));
        if fits {
            return Pushed::Queued;
        }
        if !self.iter().any(|delivery| delivery.may_leave_out()) {
            return Pushed::Full(0);
        }
        let left_out = self.leave_out(channels);
        // The whole queue was walked: unless that made room for long, each further event would walk it again.
        let is_enough = self.bytes <= max_bytes / 4 * 3;
        if is_enough { Pushed::LeftOut(left_out) } else { Pushed::Full(left_out) }
    }

    /// Adds a delivery whatever its size.
    pub(crate) fn push_last(&mut self, delivery: Rc<Delivery>) {
        self.bytes += delivery.bytes().len();
        if self.next.is_none() {
            self.next = Some(delivery);
        } else {
            self.later.push_back(delivery);
        }
    }

    /// Leaves out what the policies of channels allow, and keeps notices. Returns how many events it left out.
    fn leave_out(&mut self, channels: &Channels) -> u64 {
        let mut old = std::mem::take(&mut self.later);
        if let Some(next) = self.next.take() {
            old.push_front(next);
        }
        let mut kept = VecDeque::new();
        let mut keys = HashSet::new();
        let mut kept_of_channel: HashMap<&str, usize> = HashMap::new();
        let mut left_out = 0;
        self.bytes = 0;
        for delivery in old.iter().rev() {
            if !delivery.may_leave_out() {
                self.bytes += delivery.bytes().len();
                kept.push_front(Rc::clone(delivery));
            }
            for (rendered, alone) in delivery.newest_first() {
                let event = &rendered.event;
                let channel = event.channel.as_str();
                let declared = channels.get(channel);
                let is_kept = match (declared.map(|channel| channel.when_full), &event.key) {
                    (Some(WhenFull::Coalesce), Some(key)) => keys.insert((channel, key.as_str())),
                    (Some(WhenFull::Newest), _) => {
                        let count = kept_of_channel.entry(channel).or_default();
                        *count += 1;
                        declared.is_some_and(|channel| *count <= channel.keep_newest)
                    }
                    _ => true,
                };
                if is_kept {
                    self.bytes += alone.bytes().len();
                    kept.push_front(Rc::new(alone));
                } else {
                    left_out += 1;
                    *self.left_out.entry(event.channel.clone()).or_default() += 1;
                }
            }
        }
        self.next = kept.pop_front();
        self.later = kept;
        left_out
    }

    /// Takes what is next to be written. A single delivery is passed on without a copy.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        if !self.left_out.is_empty() {
            return Some(self.tell_left_out());
        }
        let first = self.pop()?;
        if !self.is_next_joined(first.bytes().len()) {
            return Some(first.bytes().clone());
        }
        let mut joined = BytesMut::from(first.bytes().as_ref());
        while self.is_next_joined(joined.len())
            && let Some(next) = self.pop()
        {
            joined.extend_from_slice(next.bytes());
        }
        Some(joined.freeze())
    }

    fn tell_left_out(&mut self) -> Bytes {
        let left_out = std::mem::take(&mut self.left_out);
        let transport = self.iter().find_map(|delivery| delivery.transport());
        match transport {
            Some(Transport::Websocket) => notice::websocket_coalesced(&left_out),
            _ => notice::coalesced(left_out.values().sum()),
        }
    }

    fn pop(&mut self) -> Option<Rc<Delivery>> {
        let first = self.next.take()?;
        self.next = self.later.pop_front();
        if self.next.is_none() {
            // A burst must not leave every connection with an empty queue.
            self.later = VecDeque::new();
        }
        self.bytes -= first.bytes().len();
        Some(first)
    }

    fn is_next_joined(&self, joined_bytes: usize) -> bool {
        self.next.as_ref().is_some_and(|next| joined_bytes + next.bytes().len() <= JOINED_MAX_BYTES)
    }

    /// Drops all that waits. Returns how many events that were.
    pub(crate) fn clear(&mut self) -> u64 {
        let old = std::mem::take(self);
        old.iter().map(|delivery| delivery.event_count() as u64).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_none() && self.left_out.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = &Rc<Delivery>> {
        self.next.iter().chain(&self.later)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use freshet_broadcaster::Batch;
    use freshet_feed::EventFilter;

    use super::*;
    use crate::interest::sample::{channels, interest_of};
    use crate::memory_log::{EPOCH, logged};

    fn delivery(events: &[(u64, &str)]) -> Rc<Delivery> {
        delivery_for(events, WhenFull::Close)
    }

    fn delivery_for(events: &[(u64, &str)], when_full: WhenFull) -> Rc<Delivery> {
        let logged = events.iter().map(|(offset, table)| logged(*offset, table)).collect();
        let batch = Arc::new(Batch::render(EPOCH, logged).unwrap());
        let all = 0..events.len();
        let interest = interest_of(EventFilter::default(), when_full);
        Rc::new(Delivery::select(&batch, all, &interest).unwrap())
    }

    fn ids(outbox: &mut Outbox) -> Vec<String> {
        let mut text = String::new();
        while let Some(bytes) = outbox.take() {
            text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        text.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect()
    }

    #[test]
    fn a_single_delivery_is_not_copied_and_several_are_joined() {
        let mut outbox = Outbox::default();
        let one = delivery(&[(1, "a")]);
        outbox.push(&one, 10_000, &channels(WhenFull::Close));
        assert_eq!(outbox.take().unwrap().as_ptr(), one.bytes().as_ptr());
        outbox.push(&one, 10_000, &channels(WhenFull::Close));
        outbox.push(&delivery(&[(2, "a"), (3, "b")]), 10_000, &channels(WhenFull::Close));
        let joined = outbox.take().unwrap();
        assert!(outbox.take().is_none());
        assert_eq!(joined.windows(4).filter(|part| part == b"id: ").count(), 3);
        assert_eq!(outbox.bytes, 0);
    }

    #[test]
    fn one_write_is_bounded() {
        let mut outbox = Outbox::default();
        let large = Rc::new(Delivery::notice(vec![b'x'; JOINED_MAX_BYTES - 10].into()));
        for _ in 0..3 {
            outbox.push(&large, usize::MAX, &channels(WhenFull::Close));
        }
        for _ in 0..3 {
            assert_eq!(outbox.take().unwrap().len(), JOINED_MAX_BYTES - 10);
        }
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_full_outbox_takes_no_more() {
        let mut outbox = Outbox::default();
        let one = delivery(&[(1, "a")]);
        let room_for_two = 2 * one.bytes().len();
        assert_eq!(outbox.push(&one, room_for_two, &channels(WhenFull::Close)), Pushed::Queued);
        assert_eq!(outbox.push(&one, room_for_two, &channels(WhenFull::Close)), Pushed::Queued);
        assert_eq!(outbox.push(&one, room_for_two, &channels(WhenFull::Close)), Pushed::Full(0));
        assert_eq!(outbox.clear(), 3, "the one that did not fit is dropped with the others");
        assert_eq!(
            outbox.push(&one, 1, &channels(WhenFull::Close)),
            Pushed::Queued,
            "one always fits an empty outbox"
        );
    }

    #[test]
    fn coalescing_keeps_the_newest_of_each_table_in_order_and_says_how_many_it_left_out() {
        let mut outbox = Outbox::default();
        let first = delivery_for(&[(1, "a"), (2, "b"), (3, "a")], WhenFull::Coalesce);
        let max_bytes = first.bytes().len();
        assert_eq!(outbox.push(&first, max_bytes, &channels(WhenFull::Coalesce)), Pushed::Queued);
        let second = delivery_for(&[(4, "a")], WhenFull::Coalesce);
        assert_eq!(outbox.push(&second, max_bytes, &channels(WhenFull::Coalesce)), Pushed::LeftOut(2));
        assert_eq!(outbox.bytes, outbox.iter().map(|delivery| delivery.bytes().len()).sum::<usize>());
        assert_eq!(outbox.take().unwrap(), "event: coalesced\ndata: {\"leftOut\":2}\n\n");
        assert_eq!(ids(&mut outbox), ["e2", "e4"]);
    }

    #[test]
    fn too_many_tables_cannot_be_coalesced() {
        let mut outbox = Outbox::default();
        let first = delivery_for(&[(1, "a"), (2, "b")], WhenFull::Coalesce);
        let max_bytes = first.bytes().len();
        outbox.push(&first, max_bytes, &channels(WhenFull::Coalesce));
        assert_eq!(
            outbox.push(
                &delivery_for(&[(3, "c")], WhenFull::Coalesce),
                max_bytes,
                &channels(WhenFull::Coalesce)
            ),
            Pushed::Full(0)
        );
        assert_eq!(outbox.clear(), 3);
    }

    #[test]
    fn coalescing_that_makes_little_room_ends_rather_than_walking_the_queue_for_each_event() {
        let mut outbox = Outbox::default();
        let first = delivery_for(&[(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "a")], WhenFull::Coalesce);
        let max_bytes = first.bytes().len();
        outbox.push(&first, max_bytes, &channels(WhenFull::Coalesce));
        // The newest of four tables are four fifths of the bound.
        let pushed = outbox.push(
            &delivery_for(&[(6, "a")], WhenFull::Coalesce),
            max_bytes,
            &channels(WhenFull::Coalesce),
        );
        assert_eq!(pushed, Pushed::Full(2));
    }
}
