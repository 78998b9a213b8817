//! What is measured: how many clients, how many events a second, how many of them at once, and what else happens.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};

/// A process may open 20,000 files on the machines that this was made for; some are kept for other uses.
pub const MAX_CLIENTS: usize = 19_900;
const MAX_EVENTS_PER_SECOND: u64 = 10_000;
const MAX_BATCH_EVENTS: u64 = 1000;
/// Clients beside the ordinary ones in the row of laggards.
pub const LAGGARDS: usize = 3;
/// With fewer requests a single slow one would decide the result.
const MIN_BATCHES: u64 = 4;

/// How many clients receive how many events. Its text form is `CLIENTS@EVENTS_PER_SECOND`, with `xBATCH` behind it
/// when several events are published at once: `1000@100x20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Clients.
    pub clients: usize,
    /// Events a second.
    pub events_per_second: u64,
    /// Events that are published at once.
    pub batch_events: u64,
}

impl Pace {
    /// From one batch to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 * self.batch_events / self.events_per_second)
    }

    /// How many batches take about this long.
    #[must_use]
    pub fn batches_in(&self, duration: Duration) -> u64 {
        (duration.as_secs() * self.events_per_second / self.batch_events).max(MIN_BATCHES)
    }

    /// How many batches give about this many deliveries.
    #[must_use]
    pub fn batches(&self, deliveries: u64) -> u64 {
        (deliveries / self.clients as u64 / self.batch_events).max(MIN_BATCHES)
    }
}

/// One row of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Events to clients that read at once: `CLIENTS@EVENTS_PER_SECOND[xBATCH]`.
    FanOut(Pace),
    /// The same twice, the second time with one client in a hundred that reads 1 KiB a second: `1000@50+slow`.
    Slow(Pace),
    /// Clients and no events: `CLIENTS@idle`.
    Idle {
        /// Clients.
        clients: usize,
    },
    /// An hour's worth of events, twice, as fast as may be: `CLIENTS@hour`.
    Hour {
        /// Clients.
        clients: usize,
    },
    /// A third of the clients stops reading: `CLIENTS@stalled`.
    Stalled {
        /// Clients.
        clients: usize,
    },
    /// The same pace twice, the second time with clients beside that do not keep up: `1000@1000x20+laggards`.
    Laggards(Pace),
}

impl Scenario {
    /// How many clients there are.
    #[must_use]
    pub fn clients(&self) -> usize {
        match self {
            Self::FanOut(pace) | Self::Slow(pace) => pace.clients,
            Self::Laggards(pace) => pace.clients + LAGGARDS,
            Self::Idle { clients } | Self::Hour { clients } | Self::Stalled { clients } => *clients,
        }
    }
}

impl FromStr for Pace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (clients, rate) = text.split_once('@').context("expected CLIENTS@EVENTS_PER_SECOND[xBATCH]")?;
        let (events_per_second, batch_events) = rate.split_once('x').unwrap_or((rate, "1"));
        let pace = Self {
            clients: read_clients(clients)?,
            events_per_second: events_per_second.parse().context("events a second")?,
            batch_events: batch_events.parse().context("events at once")?,
        };
        ensure!(
            (1..=MAX_EVENTS_PER_SECOND).contains(&pace.events_per_second),
            "events a second: 1 to {MAX_EVENTS_PER_SECOND}"
        );
        ensure!(
            (1..=MAX_BATCH_EVENTS).contains(&pace.batch_events),
            "events at once: 1 to {MAX_BATCH_EVENTS}"
        );
        Ok(pace)
    }
}

impl FromStr for Scenario {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(pace) = text.strip_suffix("+slow") {
            let pace: Pace = pace.parse()?;
            ensure!(pace.clients >= 100, "one client in a hundred needs a hundred clients");
            return Ok(Self::Slow(pace));
        }
        if let Some(pace) = text.strip_suffix("+laggards") {
            let pace: Pace = pace.parse()?;
            ensure!(pace.clients + LAGGARDS <= MAX_CLIENTS, "with the laggards these are too many clients");
            return Ok(Self::Laggards(pace));
        }
        let of = |suffix| text.strip_suffix(suffix).map(read_clients).transpose();
        if let Some(clients) = of("@idle")? {
            return Ok(Self::Idle { clients });
        }
        if let Some(clients) = of("@hour")? {
            return Ok(Self::Hour { clients });
        }
        if let Some(clients) = of("@stalled")? {
            ensure!(clients >= 3, "a third of the clients needs three clients");
            return Ok(Self::Stalled { clients });
        }
        Ok(Self::FanOut(text.parse()?))
    }
}

fn read_clients(text: &str) -> Result<usize> {
    let clients = text.parse().context("clients")?;
    ensure!((1..=MAX_CLIENTS).contains(&clients), "clients: 1 to {MAX_CLIENTS}");
    Ok(clients)
}

impl fmt::Display for Pace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.clients, self.events_per_second)?;
        if self.batch_events > 1 {
            write!(formatter, "x{}", self.batch_events)?;
        }
        Ok(())
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FanOut(pace) => write!(formatter, "{pace}"),
            Self::Slow(pace) => write!(formatter, "{pace}+slow"),
            Self::Laggards(pace) => write!(formatter, "{pace}+laggards"),
            Self::Idle { clients } => write!(formatter, "{clients}@idle"),
            Self::Hour { clients } => write!(formatter, "{clients}@hour"),
            Self::Stalled { clients } => write!(formatter, "{clients}@stalled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_gives_intervals_and_batches() {
        for (text, interval_millis, batches) in
            [("1000@50", 20, 200), ("10000@2", 500, 20), ("1000@100x20", 200, 10), ("10000@10x20", 2000, 4)]
        {
            let pace: Pace = text.parse().unwrap();
            assert_eq!(pace.interval(), Duration::from_millis(interval_millis));
            assert_eq!(pace.batches(200_000), batches);
        }
    }

    #[test]
    fn a_pace_lasts_as_long_as_its_batches_do() {
        for (text, secs, batches) in [("1000@1000x20", 600, 30_000), ("10@1", 1, 4), ("10@3x2", 9, 13)] {
            assert_eq!(text.parse::<Pace>().unwrap().batches_in(Duration::from_secs(secs)), batches);
        }
    }

    #[test]
    fn the_text_form_round_trips() {
        for (text, clients) in [
            ("1000@50", 1000),
            ("5000@10x20", 5000),
            ("1000@50+slow", 1000),
            ("10000@idle", 10_000),
            ("100@hour", 100),
            ("60@stalled", 60),
            ("1000@1000x20+laggards", 1003),
        ] {
            let scenario: Scenario = text.parse().unwrap();
            assert_eq!((scenario.to_string().as_str(), scenario.clients()), (text, clients));
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        for text in [
            "",
            "1000",
            "0@1",
            "19901@1",
            "1@0",
            "1@10001",
            "1@1x0",
            "1@1x1001",
            "-1@1",
            "1@1x",
            "a@b",
            "99@1+slow",
            "0@idle",
            "@hour",
            "2@stalled",
            "19898@1+laggards",
            "1@0+laggards",
            "1@night",
        ] {
            assert!(text.parse::<Scenario>().is_err(), "{text}");
        }
    }
}
