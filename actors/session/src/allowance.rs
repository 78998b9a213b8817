//! How many messages a client may send. Pure: time is passed in.

#![allow(dead_code, reason = "wired in by the session")]

use std::time::{Duration, Instant};

/// A bucket of tokens that refills steadily, kept as the one time at which it would be full again: the generic cell
/// rate algorithm of ITU-T I.371, annex A, in its form as virtual scheduling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// The time in which one token grows.
    interval: Duration,
    /// The time in which a bucket with one token left fills up.
    tolerance: Duration,
    /// When the bucket is full, if nothing is taken until then.
    full_at: Instant,
}

impl Allowance {
    /// A full bucket of `burst` tokens, which grow by `per_sec` in each second. Either is at least 1.
    pub(crate) fn new(per_sec: u32, burst: u32, now: Instant) -> Self {
        let interval = Duration::from_secs(1) / per_sec.max(1);
        Self { interval, tolerance: interval * (burst.max(1) - 1), full_at: now }
    }

    /// Takes a token, or says that there is none. A refused message takes none.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now);
        let is_allowed = full_at.saturating_duration_since(now) <= self.tolerance;
        if is_allowed {
            self.full_at = full_at + self.interval;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(allowance: &mut Allowance, tries: u32, now: Instant) -> u32 {
        (0..tries).map(|_| u32::from(allowance.take(now))).sum()
    }

    #[test]
    fn a_burst_passes_and_then_as_many_as_grow() {
        let start = Instant::now();
        let mut allowance = Allowance::new(10, 5, start);
        assert_eq!(taken(&mut allowance, 100, start), 5);
        assert_eq!(taken(&mut allowance, 100, start + Duration::from_millis(99)), 0);
        assert_eq!(taken(&mut allowance, 100, start + Duration::from_millis(100)), 1);
        assert_eq!(taken(&mut allowance, 100, start + Duration::from_millis(450)), 3);
        assert_eq!(taken(&mut allowance, 100, start + Duration::from_secs(3600)), 5, "it does not overflow");
    }

    #[test]
    fn a_steady_client_below_its_rate_is_never_refused() {
        let start = Instant::now();
        let mut allowance = Allowance::new(10, 1, start);
        assert!((0..1000).all(|count| allowance.take(start + Duration::from_millis(100) * count)));
    }

    #[test]
    fn time_that_seems_to_stand_still_or_to_go_back_gives_nothing() {
        let start = Instant::now() + Duration::from_secs(10);
        let mut allowance = Allowance::new(1, 2, start);
        assert_eq!(taken(&mut allowance, 9, start), 2);
        assert_eq!(taken(&mut allowance, 9, start - Duration::from_secs(5)), 0);
        assert_eq!(taken(&mut allowance, 9, start + Duration::from_secs(1)), 1);
    }

    proptest! {
        /// A bucket of tokens by its definition, counted in billionths.
        #[test]
        fn it_is_a_bucket_of_tokens(
            per_sec in prop::sample::select(vec![1_u32, 2, 5, 10, 1000]),
            burst in 1..20_u32,
            pauses_millis in prop::collection::vec(0..700_u64, 1..100),
        ) {
            const TOKEN: u64 = 1_000_000_000;
            let start = Instant::now();
            let mut allowance = Allowance::new(per_sec, burst, start);
            let full = u64::from(burst) * TOKEN;
            let mut tokens = full;
            let mut now = start;
            for millis in pauses_millis {
                now += Duration::from_millis(millis);
                tokens = full.min(tokens + millis * u64::from(per_sec) * (TOKEN / 1000));
                let expected = tokens >= TOKEN;
                prop_assert_eq!(allowance.take(now), expected);
                if expected {
                    tokens -= TOKEN;
                }
            }
        }
    }
}
