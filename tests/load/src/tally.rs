//! Counts deliveries and knows for each client what came twice, late or never.

use std::ops::Range;

use crate::histogram::Histogram;

/// What one client has received, by number.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The number that comes next when all is well; unknown before the first event.
    next: Option<u64>,
    /// Numbers below `next` that have not come.
    missing: Vec<u64>,
}

impl Order {
    /// An order that starts at a number that is known.
    #[must_use]
    pub fn starting_at(first: u64) -> Self {
        Self { next: Some(first), missing: Vec::new() }
    }

    /// How many numbers below the newest one have not come.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.missing.len()
    }
}

/// The deliveries of one run over all clients.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The numbers of the run's events. Others are not counted.
    pub window: Range<u64>,
    /// Deliveries, each event once for each client.
    pub delivered: u64,
    /// Deliveries of what that client had already.
    pub duplicates: u64,
    /// Deliveries after a later event.
    pub out_of_order: u64,
    /// From just before the write of the publishing request to the read that returned the event, in nanoseconds.
    pub latency_nanos: Histogram,
}

impl Tally {
    /// Counts the events with numbers in this range.
    #[must_use]
    pub fn of(window: Range<u64>) -> Self {
        Self { window, ..Self::default() }
    }

    /// Counts one delivery to the client with this order.
    pub fn record(&mut self, order: &mut Order, sequence: u64, sent_nanos: u64, received_nanos: u64) {
        if !self.window.contains(&sequence) {
            return;
        }
        let next = order.next.unwrap_or(sequence);
        if sequence >= next {
            order.missing.extend(next..sequence);
            order.next = Some(sequence + 1);
        } else if let Some(place) = order.missing.iter().position(|missing| *missing == sequence) {
            order.missing.swap_remove(place);
            self.out_of_order += 1;
        } else {
            self.duplicates += 1;
            return;
        }
        self.delivered += 1;
        self.latency_nanos.record(received_nanos.saturating_sub(sent_nanos));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(order: &mut Order, sequences: &[u64]) -> Tally {
        let mut tally = Tally::of(10..20);
        for sequence in sequences {
            tally.record(order, *sequence, 100, 150);
        }
        tally
    }

    #[test]
    fn in_order_is_nothing_but_delivered() {
        let found = tally(&mut Order::starting_at(10), &[10, 11, 12]);
        assert_eq!((found.delivered, found.duplicates, found.out_of_order), (3, 0, 0));
        assert_eq!(found.latency_nanos.quantile(1000), Some(50));
    }

    #[test]
    fn the_first_event_that_does_not_come_is_missing() {
        let mut order = Order::starting_at(10);
        assert_eq!(tally(&mut order, &[12, 13]).delivered, 2);
        assert_eq!(order.missing, [10, 11]);
    }

    #[test]
    fn a_late_event_is_out_of_order_once_and_a_duplicate_after_that() {
        let mut order = Order::starting_at(10);
        let found = tally(&mut order, &[10, 12, 11, 11, 12, 10]);
        assert_eq!((found.delivered, found.duplicates, found.out_of_order), (3, 3, 1));
        assert!(order.missing.is_empty());
    }

    #[test]
    fn events_of_another_run_do_not_count() {
        let found = tally(&mut Order::starting_at(10), &[9, 20, 10]);
        assert_eq!((found.delivered, found.duplicates, found.out_of_order), (1, 0, 0));
    }

    #[test]
    fn a_client_that_joins_a_running_stream_misses_nothing_before_its_first_event() {
        let mut order = Order::default();
        assert_eq!(tally(&mut order, &[15, 16]).delivered, 2);
        assert!(order.missing.is_empty());
    }
}
