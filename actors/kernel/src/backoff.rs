//! How long a child waits before it is started again.

use std::time::Duration;

/// Exponential backoff with jitter.
///
/// The n-th restart in a row waits between half and the whole of `min × 2ⁿ⁻¹`, at most `max`. The count starts
/// again after the child ran healthy (up and not degraded) for `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Upper end of the first delay.
    pub min: Duration,
    /// Upper end of every delay, and the healthy time after which the count starts again.
    pub max: Duration,
}

impl Backoff {
    /// Restart at once. Only the restart intensity then stands between a failing child and a hot loop.
    pub const NONE: Self = Self { min: Duration::ZERO, max: Duration::ZERO };

    /// The longest delay before restart number `attempt` (the first is 1).
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        self.min.saturating_mul(1 << doublings).min(self.max)
    }

    /// A delay before restart number `attempt`, drawn with `fraction` in 0..=1 from the upper half of [`Self::ceiling`].
    pub fn delay(&self, attempt: u32, fraction: f64) -> Duration {
        let half = self.ceiling(attempt) / 2;
        half + half.mul_f64(fraction.clamp(0.0, 1.0))
    }
}

impl Default for Backoff {
    /// From half a second to 30 seconds.
    fn default() -> Self {
        Self { min: Duration::from_millis(500), max: Duration::from_secs(30) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { min: Duration::from_millis(500), max: Duration::from_secs(30) };

    #[test]
    fn the_ceiling_doubles_and_stays_at_the_maximum() {
        let ceilings: Vec<u128> = (1..=8).map(|n| BACKOFF.ceiling(n).as_millis()).collect();
        assert_eq!(ceilings, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        assert_eq!(BACKOFF.ceiling(u32::MAX), BACKOFF.max);
    }

    #[test]
    fn jitter_covers_the_upper_half_only() {
        assert_eq!(BACKOFF.delay(2, 0.0), Duration::from_millis(500));
        assert_eq!(BACKOFF.delay(2, 0.5), Duration::from_millis(750));
        assert_eq!(BACKOFF.delay(2, 1.0), Duration::from_millis(1000));
    }

    #[test]
    fn none_never_waits() {
        assert_eq!(Backoff::NONE.delay(12, 1.0), Duration::ZERO);
    }
}
