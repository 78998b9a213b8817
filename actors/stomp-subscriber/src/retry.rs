//! How long to wait, and which broker comes next.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

/// Waits that double from the shortest to the longest, each lengthened at random.
#[derive(Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    seed: u64,
    delays: ExponentialBackoff,
}

impl Backoff {
    /// Waits between these bounds. The seed decides the random part.
    #[must_use]
    pub fn new(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max, seed, delays: delays(min, max, seed) }
    }

    /// The next wait.
    pub fn next_delay(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.max).min(self.max)
    }

    /// Starts again from the shortest.
    pub fn reset(&mut self) {
        self.seed = self.seed.wrapping_add(1);
        self.delays = delays(self.min, self.max, self.seed);
    }
}

/// `backon` adds up to the delay itself, so half of our longest is its longest: [max/2, max).
fn delays(min: Duration, max: Duration, seed: u64) -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(min.min(max))
        .with_max_delay((max / 2).max(min.min(max)))
        .with_factor(2.0)
        .with_jitter()
        // Given here because without `std` the crate uses one seed for all.
        .with_jitter_seed(seed)
        .without_max_times()
        .build()
}

/// Takes brokers in their order. After the last, and after a connection that was of use, it begins at the first.
#[derive(Debug)]
pub struct Rotation {
    brokers: usize,
    next: usize,
    backoff: Backoff,
}

impl Rotation {
    /// Goes through this number of brokers.
    #[must_use]
    pub fn new(brokers: usize, backoff: Backoff) -> Self {
        Self { brokers: brokers.max(1), next: 0, backoff }
    }

    /// The index of the broker to try.
    #[must_use]
    pub fn current(&self) -> usize {
        self.next
    }

    /// The attempt failed without use: how long to wait before the next. Between the brokers of one round the
    /// wait is short, since the standby takes over when the primary is down.
    pub fn failed(&mut self) -> Duration {
        self.next = (self.next + 1) % self.brokers;
        if self.next == 0 {
            self.backoff.next_delay()
        } else {
            self.backoff.min.mul_f32(0.1 + 0.4 * fraction(self.backoff.seed.wrapping_add(self.next as u64)))
        }
    }

    /// The connection was of use before it broke: how long to wait before the first broker is tried again.
    pub fn broke(&mut self) -> Duration {
        self.next = 0;
        self.backoff.reset();
        self.backoff.next_delay()
    }
}

fn fraction(seed: u64) -> f32 {
    fastrand::Rng::with_seed(seed).f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(500);
    const MAX: Duration = Duration::from_secs(30);

    #[test]
    fn waits_double_and_stay_within_their_bounds() {
        for seed in 0..100 {
            let mut backoff = Backoff::new(MIN, MAX, seed);
            let mut floor = MIN;
            for _ in 0..12 {
                let delay = backoff.next_delay();
                assert!(delay >= floor && delay < floor * 2, "{delay:?} is not in [{floor:?}, twice that)");
                floor = (floor * 2).min(MAX / 2);
            }
            backoff.reset();
            assert!(backoff.next_delay() < MIN * 2);
        }
    }

    #[test]
    fn instances_do_not_return_in_step() {
        let delays: std::collections::HashSet<Duration> =
            (0..100).map(|seed| Backoff::new(MIN, MAX, seed).next_delay()).collect();
        assert!(delays.len() > 90, "{} of 100 differ", delays.len());
    }

    #[test]
    fn equal_bounds_are_possible() {
        let mut backoff = Backoff::new(MIN, MIN, 1);
        for _ in 0..5 {
            assert_eq!(backoff.next_delay(), MIN);
        }
    }

    #[test]
    fn brokers_are_tried_in_order_and_a_round_costs_one_backoff() {
        let mut rotation = Rotation::new(3, Backoff::new(MIN, MAX, 7));
        let mut tried = Vec::new();
        for round in 0..2 {
            for broker in 0..3 {
                tried.push(rotation.current());
                let delay = rotation.failed();
                let floor = MIN * 2_u32.pow(round);
                assert_eq!(delay >= floor, broker == 2, "{delay:?} after broker {broker} of round {round}");
            }
        }
        assert_eq!(tried, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn after_a_useful_connection_it_begins_anew() {
        let mut rotation = Rotation::new(2, Backoff::new(MIN, MAX, 7));
        for _ in 0..9 {
            rotation.failed();
        }
        assert_eq!(rotation.current(), 1);
        let delay = rotation.broke();
        assert_eq!(rotation.current(), 0);
        assert!(delay >= MIN && delay < MIN * 2, "{delay:?}");
    }
}
