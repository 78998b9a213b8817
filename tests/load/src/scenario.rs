//! What is measured: how many clients, how many events a second, how many of them at once.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};

/// A process may open 20,000 files on the machines that this was made for; some are kept for other uses.
pub const MAX_CLIENTS: usize = 19_900;
const MAX_EVENTS_PER_SECOND: u64 = 10_000;
const MAX_BATCH_EVENTS: u64 = 1000;
/// With fewer requests a single slow one would decide the result.
const MIN_BATCHES: u64 = 4;

/// One row of the table. Its text form is `CLIENTS@EVENTS_PER_SECOND`, with `xBATCH` behind it when several
/// events are published by one request: `1000@100x20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// SSE clients.
    pub clients: usize,
    /// Events a second.
    pub events_per_second: u64,
    /// Events in one request.
    pub batch_events: u64,
}

impl Scenario {
    /// From one request to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 * self.batch_events / self.events_per_second)
    }

    /// How many requests give about this many deliveries.
    #[must_use]
    pub fn batches(&self, deliveries: u64) -> u64 {
        (deliveries / self.clients as u64 / self.batch_events).max(MIN_BATCHES)
    }
}

impl FromStr for Scenario {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (clients, rate) = text.split_once('@').context("expected CLIENTS@EVENTS_PER_SECOND[xBATCH]")?;
        let (events_per_second, batch_events) = rate.split_once('x').unwrap_or((rate, "1"));
        let scenario = Self {
            clients: clients.parse().context("clients")?,
            events_per_second: events_per_second.parse().context("events a second")?,
            batch_events: batch_events.parse().context("events in one request")?,
        };
        ensure!((1..=MAX_CLIENTS).contains(&scenario.clients), "clients: 1 to {MAX_CLIENTS}");
        ensure!(
            (1..=MAX_EVENTS_PER_SECOND).contains(&scenario.events_per_second),
            "events a second: 1 to {MAX_EVENTS_PER_SECOND}"
        );
        ensure!(
            (1..=MAX_BATCH_EVENTS).contains(&scenario.batch_events),
            "events in one request: 1 to {MAX_BATCH_EVENTS}"
        );
        Ok(scenario)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.clients, self.events_per_second)?;
        if self.batch_events > 1 {
            write!(formatter, "x{}", self.batch_events)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_gives_the_pace() {
        for (text, interval_millis, batches) in
            [("1000@50", 20, 200), ("10000@2", 500, 20), ("1000@100x20", 200, 10), ("10000@10x20", 2000, 4)]
        {
            let scenario: Scenario = text.parse().unwrap();
            assert_eq!(scenario.to_string(), text);
            assert_eq!(scenario.interval(), Duration::from_millis(interval_millis));
            assert_eq!(scenario.batches(200_000), batches);
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        for text in
            ["", "1000", "0@1", "19901@1", "1@0", "1@10001", "1@1x0", "1@1x1001", "-1@1", "1@1x", "a@b"]
        {
            assert!(text.parse::<Scenario>().is_err(), "{text}");
        }
    }
}
