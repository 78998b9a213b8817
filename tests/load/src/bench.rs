//! Runs the servers one after the other, in every scenario, as often as wanted.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::laggards::{Beside, laggards};
use crate::measure::{Conditions, FanOut, Hour, Idle, Slow, Stalled, fan_out, hour, idle, slow, stalled};
use crate::process::Programs;
use crate::scenario::{MAX_CLIENTS, Pace, Scenario};
use crate::server::{Product, Server};
use crate::statistics::Spread;
use crate::system::raise_open_files;

/// Files that this process needs beside its clients.
const SPARE_FILES: usize = 64;

/// What to measure, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The daemon's executable file. Without it the daemon's rows say that it is absent.
    #[arg(long, value_name = "FILE")]
    pub freshet: Option<PathBuf>,
    /// A configuration file for the daemon instead of `tests/load/freshet.toml`; it must admit as many clients as the largest row has.
    #[arg(long, value_name = "FILE", requires = "freshet")]
    pub config: Option<PathBuf>,
    /// Where `tests/load/peers/install` has put the other servers [default: freshet/peers in the user's cache].
    #[arg(long, value_name = "FOLDER")]
    pub peers: Option<PathBuf>,
    /// The servers to measure. The ratio to the floor needs the floor of the same transport.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "freshet-sse,floor-sse,nchan-sse,centrifugo-sse,node-sse,freshet-ws,floor-ws,nchan-ws,centrifugo-ws,node-ws"
    )]
    pub servers: Vec<Server>,
    /// The rows to measure: CLIENTS@EVENTS_PER_SECOND, with xBATCH behind it for several events at once, with +slow for
    /// one slow client in a hundred; CLIENTS@idle for no events, CLIENTS@hour for the memory after an hour's worth of
    /// them, CLIENTS@stalled for a third of the clients that stops reading. With +laggards behind a pace it is held
    /// twice for `--laggards-seconds`: alone, and beside clients that do not keep up; only the daemon has this row.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1000@50,5000@10,10000@5,10000@2,19500@2,5000@10x20,10000@idle,1000@50+slow,100@hour,60@stalled"
    )]
    pub rows: Vec<Scenario>,
    /// Deliveries of one measurement, about.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub deliveries: u64,
    /// How often each row is measured; those of an hour, of stalled clients and of laggards are measured once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub repeat: u32,
    /// Size of an event in bytes.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(500..=100_000))]
    pub event_bytes: u32,
    /// New connections a second.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connects_per_second: u32,
    /// Megabytes that are sent to each client while a third of them does not read.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub stalled_megabytes: u32,
    /// How long each of the two runs with and without laggards takes.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub laggards_seconds: u64,
    /// A Markdown document whose sections between marks are replaced by what was measured; others stay.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl Options {
    /// Where the programs are.
    ///
    /// # Errors
    /// When the user has no home.
    pub fn programs(&self) -> Result<Programs> {
        let peers = match &self.peers {
            Some(peers) => peers.clone(),
            None => match std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
                Some(cache) => PathBuf::from(cache).join("freshet/peers"),
                None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set; give `--peers`")?)
                    .join(".cache/freshet/peers"),
            },
        };
        Ok(Programs {
            freshet: self.freshet.clone(),
            freshet_configuration: self.config.clone(),
            peers: std::path::absolute(peers)?,
        })
    }
}

/// What came of the measurements of one server in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<M> {
    /// The server is not there; what to do about it.
    Absent(String),
    /// One result for each repetition that succeeded, and a reason for each that failed.
    Measured {
        /// The results.
        measurements: Vec<M>,
        /// The reasons.
        failures: Vec<String>,
    },
}

impl<M> Outcome<M> {
    /// The results; none of an absent server.
    #[must_use]
    pub fn measurements(&self) -> &[M] {
        match self {
            Self::Absent(_) => &[],
            Self::Measured { measurements, .. } => measurements,
        }
    }

    /// Least, median and greatest of one figure; `None` when there is no result.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&M) -> f64) -> Option<Spread> {
        Spread::of(self.measurements().iter().map(figure))
    }
}

/// The outcome of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<M> {
    /// The server.
    pub server: Server,
    /// What came of it.
    pub outcome: Outcome<M>,
}

/// All servers in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<S, M> {
    /// The scenario, as far as its kind does not say it.
    pub scenario: S,
    /// The servers, in the order of the command line.
    pub entries: Vec<Entry<M>>,
}

/// Everything that was measured. Tables are numbers of clients where no pace says them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Events to clients that read at once.
    pub fan_out: Vec<Table<Pace, FanOut>>,
    /// Clients and no events.
    pub idle: Vec<Table<usize, Idle>>,
    /// One slow client in a hundred.
    pub slow: Vec<Table<Pace, Slow>>,
    /// Memory over an hour's worth of events.
    pub hour: Vec<Table<usize, Hour>>,
    /// A third of the clients stops reading.
    pub stalled: Vec<Table<usize, Stalled>>,
    /// Clients beside the others that do not keep up.
    pub laggards: Vec<Table<Pace, Beside>>,
}

/// Measures everything. Progress goes to the standard error stream. A server that fails is in the results with its
/// reason, and the others go on.
///
/// # Errors
/// When too few files may be open, or no measurement succeeds.
pub fn measure_all(options: &Options) -> Result<Results> {
    let largest = options.rows.iter().map(Scenario::clients).max().unwrap_or(0);
    raise_open_files(MAX_CLIENTS.min(largest) + SPARE_FILES)?;
    let conditions = Conditions {
        programs: options.programs()?,
        event_bytes: usize::try_from(options.event_bytes)?,
        connects_per_second: options.connects_per_second,
        deliveries: options.deliveries,
        stalled_bytes: u64::from(options.stalled_megabytes) * 1_000_000,
        laggards_duration: Duration::from_secs(options.laggards_seconds),
    };
    let mut results = Results::default();
    let mut run = Run { options, conditions: &conditions, succeeded: 0 };
    for scenario in &options.rows {
        match *scenario {
            Scenario::FanOut(pace) => {
                let entries =
                    run.entries(scenario, options.repeat, |server| fan_out(server, &pace, &conditions));
                results.fan_out.push(Table { scenario: pace, entries });
            }
            Scenario::Slow(pace) => {
                let entries =
                    run.entries(scenario, options.repeat, |server| slow(server, &pace, &conditions));
                results.slow.push(Table { scenario: pace, entries });
            }
            Scenario::Idle { clients } => {
                let entries =
                    run.entries(scenario, options.repeat, |server| idle(server, clients, &conditions));
                results.idle.push(Table { scenario: clients, entries });
            }
            Scenario::Hour { clients } => {
                let entries = run.entries(scenario, 1, |server| hour(server, clients, &conditions));
                results.hour.push(Table { scenario: clients, entries });
            }
            Scenario::Stalled { clients } => {
                let entries = run.entries(scenario, 1, |server| stalled(server, clients, &conditions));
                results.stalled.push(Table { scenario: clients, entries });
            }
            Scenario::Laggards(pace) => {
                let entries = run.entries(scenario, 1, |server| laggards(server, &pace, &conditions));
                results.laggards.push(Table { scenario: pace, entries });
            }
        }
    }
    ensure!(run.succeeded > 0, "no measurement succeeded");
    Ok(results)
}

struct Run<'a> {
    options: &'a Options,
    conditions: &'a Conditions,
    succeeded: u64,
}

impl Run<'_> {
    fn entries<M: fmt::Debug>(
        &mut self,
        scenario: &Scenario,
        repetitions: u32,
        measure: impl Fn(Server) -> Result<M>,
    ) -> Vec<Entry<M>> {
        let mut entries: Vec<Entry<M>> = self
            .options
            .servers
            .iter()
            .filter(|server| has_row(server.product, scenario))
            .map(|server| Entry {
                server: *server,
                outcome: match self.conditions.programs.absence(server.product) {
                    Some(reason) => Outcome::Absent(reason),
                    None => Outcome::Measured { measurements: Vec::new(), failures: Vec::new() },
                },
            })
            .collect();
        for repetition in 0..repetitions {
            for place in order(entries.len(), repetition) {
                let Entry { server, outcome } = &mut entries[place];
                let Outcome::Measured { measurements, failures } = outcome else { continue };
                match measure(*server) {
                    Ok(measurement) => {
                        eprintln!("{scenario} {server}: {measurement:.1?}");
                        measurements.push(measurement);
                        self.succeeded += 1;
                    }
                    Err(error) => {
                        eprintln!("{scenario} {server} failed: {error:#}");
                        failures.push(format!("{error:#}"));
                    }
                }
            }
        }
        entries
    }
}

/// Whether a row is for this product. What becomes of laggards is read off the daemon's own counters and protocol.
fn has_row(product: Product, scenario: &Scenario) -> bool {
    product == Product::Freshet || !matches!(scenario, Scenario::Laggards(_))
}

/// Who goes when. The order turns around with each repetition, so that a machine that warms up or is disturbed
/// favours nobody.
fn order(servers: usize, repetition: u32) -> Vec<usize> {
    let forwards = 0..servers;
    if repetition % 2 == 1 { forwards.rev().collect() } else { forwards.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_turns_around() {
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert_eq!(order(3, 1), [2, 1, 0]);
        assert_eq!(order(3, 2), [0, 1, 2]);
    }

    #[test]
    fn only_the_daemon_has_the_row_of_laggards() {
        for (row, floor) in [("10@1+laggards", false), ("10@1", true)] {
            let scenario = row.parse().unwrap();
            assert_eq!(has_row(Product::Floor, &scenario), floor);
            assert!(has_row(Product::Freshet, &scenario));
        }
    }

    #[test]
    fn the_spread_of_an_outcome_is_that_of_its_results() {
        let measured = Outcome::Measured { measurements: vec![3.0, 1.0, 2.0], failures: vec!["x".into()] };
        assert_eq!(measured.spread(|value| *value).unwrap().median, 2.0);
        assert_eq!(Outcome::<f64>::Absent("x".into()).spread(|value| *value), None);
    }
}
