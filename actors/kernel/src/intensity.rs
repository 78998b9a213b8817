//! The sliding window that limits restarts.

use std::time::Duration;

use tokio::time::Instant;

/// One restart, with what its child had waited in backoff until then.
struct Entry {
    child: usize,
    at: Instant,
    waited_until_then: Duration,
}

/// Restarts of one supervisor's children within a period.
///
/// An entry does not age while its child waits in backoff: a child that fails at every start is counted as failing
/// without pause, however long its delays have grown.
pub(crate) struct Window {
    max_restarts: u32,
    period: Duration,
    entries: Vec<Entry>,
}

impl Window {
    pub(crate) fn new(max_restarts: u32, period: Duration) -> Self {
        Self { max_restarts, period, entries: Vec::new() }
    }

    /// Records a failure of `child` now. True while the number of failures in the window stays within the limit.
    /// `waited(child)` is the total time that a child has spent in backoff up to `now`.
    pub(crate) fn allows(&mut self, child: usize, now: Instant, waited: impl Fn(usize) -> Duration) -> bool {
        let period = self.period;
        self.entries.retain(|entry| {
            let passed = now.saturating_duration_since(entry.at);
            let paused = waited(entry.child).saturating_sub(entry.waited_until_then);
            passed.saturating_sub(paused) < period
        });
        self.entries.push(Entry { child, at: now, waited_until_then: waited(child) });
        self.entries.len() as u64 <= u64::from(self.max_restarts)
    }

    /// How many failures are in the window, the latest included.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn never_waited(_: usize) -> Duration {
        Duration::ZERO
    }

    #[test]
    fn one_more_than_the_limit_within_the_period_is_too_many() {
        let start = Instant::now();
        let mut window = Window::new(2, 5 * SECOND);
        assert!(window.allows(0, start, never_waited));
        assert!(window.allows(1, start + SECOND, never_waited));
        assert!(!window.allows(0, start + 4 * SECOND, never_waited));
    }

    #[test]
    fn the_window_slides_and_does_not_tumble() {
        let start = Instant::now();
        let mut window = Window::new(2, 5 * SECOND);
        assert!(window.allows(0, start + 4 * SECOND, never_waited));
        assert!(window.allows(0, start + 5 * SECOND, never_waited));
        // A window that starts afresh at 5 s would have forgotten the failure at 4 s.
        assert!(!window.allows(0, start + 8 * SECOND, never_waited));
        let mut window = Window::new(2, 5 * SECOND);
        assert!(window.allows(0, start + 4 * SECOND, never_waited));
        assert!(window.allows(0, start + 5 * SECOND, never_waited));
        assert!(window.allows(0, start + 9 * SECOND, never_waited));
        assert_eq!(window.count(), 2);
    }

    #[test]
    fn time_in_backoff_does_not_age_the_failures_of_that_child() {
        let start = Instant::now();
        let mut window = Window::new(1, 5 * SECOND);
        assert!(window.allows(0, start, never_waited));
        let waited = |child| if child == 0 { 30 * SECOND } else { Duration::ZERO };
        assert!(!window.allows(0, start + 31 * SECOND, waited));
    }

    #[test]
    fn a_siblings_backoff_ages_nothing_but_its_own() {
        let start = Instant::now();
        let mut window = Window::new(1, 5 * SECOND);
        assert!(window.allows(0, start, never_waited));
        let waited = |child| if child == 1 { 30 * SECOND } else { Duration::ZERO };
        assert!(window.allows(1, start + 31 * SECOND, waited));
    }

    #[test]
    fn a_limit_of_zero_allows_no_restart() {
        assert!(!Window::new(0, SECOND).allows(0, Instant::now(), never_waited));
    }
}
