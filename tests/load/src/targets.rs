//! What the daemon is to reach, and whether it does in this run.

use crate::bench::{Outcome, Results, Table};
use crate::measure::{Connecting, FanOut};
use crate::scenario::Pace;
use crate::server::{Product, Server, Transport};

/// CPU for a delivery, in multiples of the floor's.
const MOST_OF_FLOOR: f64 = 1.3;
/// CPU for a delivery, in parts of Centrifugo's.
const MOST_OF_CENTRIFUGO: f64 = 0.6;
/// CPU for an event of a burst, in parts of a single one's at as many clients.
const MOST_OF_SINGLE: f64 = 0.1;
/// As many events make a burst.
const BURST_EVENTS: u64 = 20;
/// Resident memory of an idle connection, in KiB.
const MOST_SSE_KIB: f64 = 10.0;
const MOST_WEBSOCKET_KIB: f64 = 11.0;
/// As many clients make the memory of one exact enough.
const CLIENTS_FOR_MEMORY: usize = 10_000;
/// As many clients must be held.
const HELD_CLIENTS: usize = 19_500;
/// The rows in which CPU, latency and losses count: clients and events a second.
const ROWS: [(usize, u64); 3] = [(1000, 50), (5000, 10), (10_000, 5)];

/// Whether a target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Met,
    /// It is not.
    Missed,
    /// A figure for it was not measured.
    Unknown,
}

/// One target.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What is compared.
    pub name: String,
    /// With which transport.
    pub transport: Transport,
    /// In which row.
    pub row: String,
    /// The greatest allowed figure; unknown when it is another server's that was not measured.
    pub limit: Option<f64>,
    /// The daemon's figure.
    pub measured: Option<f64>,
}

impl Target {
    /// Whether it is reached.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.measured, self.limit) {
            (Some(measured), Some(limit)) if measured <= limit => Verdict::Met,
            (Some(_), Some(_)) => Verdict::Missed,
            _ => Verdict::Unknown,
        }
    }
}

/// Every target, for both transports.
#[must_use]
pub fn targets(results: &Results) -> Vec<Target> {
    [Transport::Sse, Transport::WebSocket]
        .into_iter()
        .flat_map(|transport| Transports { transport, results }.targets())
        .collect()
}

/// The results of one transport.
struct Transports<'a> {
    transport: Transport,
    results: &'a Results,
}

type Figure = fn(&FanOut) -> f64;

impl Transports<'_> {
    fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for (clients, events_per_second) in ROWS {
            let pace = Pace { clients, events_per_second, batch_events: 1 };
            self.row(pace, &mut targets);
        }
        self.burst(&mut targets);
        self.connections(&mut targets);
        let held = self
            .results
            .fan_out
            .iter()
            .find(|table| table.scenario.clients >= HELD_CLIENTS)
            .and_then(|table| self.losses(table));
        targets.push(self.target(
            "clients held, deliveries lost",
            format!("{HELD_CLIENTS}"),
            Some(0.0),
            held,
        ));
        targets
    }

    fn row(&self, pace: Pace, targets: &mut Vec<Target>) {
        let table = self.table(|other| *other == pace);
        let of = |product, figure: Figure| table.and_then(|table| self.median(table, product, figure));
        let cpu: Figure = |one| one.cpu_seconds_per_million;
        let own = of(Product::Freshet, cpu);
        let floor = of(Product::Floor, cpu);
        let row = pace.to_string();
        let part_of = |other: Option<f64>| own.zip(other).map(|(own, other)| own / other);
        targets.push(self.target("CPU, times the floor's", row.clone(), Some(MOST_OF_FLOOR), part_of(floor)));
        targets.push(self.target("CPU s per million, nchan's", row.clone(), of(Product::Nchan, cpu), own));
        targets.push(self.target(
            "CPU, parts of Centrifugo's",
            row.clone(),
            Some(MOST_OF_CENTRIFUGO),
            part_of(of(Product::Centrifugo, cpu)),
        ));
        let p99: Figure = |one| one.p99_millis;
        let best = [Product::Nchan, Product::Centrifugo, Product::Node]
            .into_iter()
            .filter_map(|product| of(product, p99))
            .min_by(f64::total_cmp);
        targets.push(self.target("p99 ms, the best peer's", row.clone(), best, of(Product::Freshet, p99)));
        targets.push(self.target(
            "lost, twice or out of order",
            row,
            Some(0.0),
            table.and_then(|table| self.losses(table)),
        ));
    }

    fn burst(&self, targets: &mut Vec<Target>) {
        let burst = self.table(|pace| pace.batch_events == BURST_EVENTS);
        let cpu = |table: &Table<Pace, FanOut>| {
            self.median(table, Product::Freshet, |one| one.cpu_seconds_per_million)
        };
        let single = burst.and_then(|burst| {
            self.table(|pace| pace.clients == burst.scenario.clients && pace.batch_events == 1)
        });
        let part = burst.and_then(cpu).zip(single.and_then(cpu)).map(|(burst, single)| burst / single);
        let row = burst.map_or(format!("x{BURST_EVENTS}"), |burst| burst.scenario.to_string());
        targets.push(self.target(
            "CPU of an event in a burst, parts of a single one's",
            row,
            Some(MOST_OF_SINGLE),
            part,
        ));
    }

    fn connections(&self, targets: &mut Vec<Target>) {
        let limit = match self.transport {
            Transport::Sse => MOST_SSE_KIB,
            Transport::WebSocket => MOST_WEBSOCKET_KIB,
        };
        let row = format!("{CLIENTS_FOR_MEMORY} clients");
        let kib = self.connecting(Product::Freshet, |one| one.kib_each);
        targets.push(self.target("KiB of an idle connection", row.clone(), Some(limit), kib));
        let micros = |product| self.connecting(product, |one| one.micros_each);
        let own = micros(Product::Freshet);
        targets.push(self.target("CPU µs of a connect, Node's", row, micros(Product::Node), own));
    }

    /// A figure of connecting: from the row without events, else from one with as many clients.
    fn connecting(&self, product: Product, figure: fn(&Connecting) -> f64) -> Option<f64> {
        let idle = self.results.idle.iter().find(|table| table.scenario == CLIENTS_FOR_MEMORY);
        let from_idle = idle.and_then(|table| {
            let outcome = &table.entries.iter().find(|entry| entry.server == self.server(product))?.outcome;
            Some(outcome.spread(|one| figure(&one.connecting))?.median)
        });
        from_idle.or_else(|| {
            let table = self.table(|pace| pace.clients == CLIENTS_FOR_MEMORY)?;
            Some(self.outcome(table, product)?.spread(|one| figure(&one.connecting))?.median)
        })
    }

    fn server(&self, product: Product) -> Server {
        Server { transport: self.transport, product }
    }

    fn table(&self, is_it: impl Fn(&Pace) -> bool) -> Option<&Table<Pace, FanOut>> {
        self.results.fan_out.iter().find(|table| is_it(&table.scenario))
    }

    fn outcome<'t>(&self, table: &'t Table<Pace, FanOut>, product: Product) -> Option<&'t Outcome<FanOut>> {
        Some(&table.entries.iter().find(|entry| entry.server == self.server(product))?.outcome)
    }

    fn median(&self, table: &Table<Pace, FanOut>, product: Product, figure: Figure) -> Option<f64> {
        Some(self.outcome(table, product)?.spread(figure)?.median)
    }

    /// What the daemon lost or misplaced in its worst repetition; without end when one failed.
    fn losses(&self, table: &Table<Pace, FanOut>) -> Option<f64> {
        match self.outcome(table, Product::Freshet)? {
            Outcome::Measured { failures, .. } if !failures.is_empty() => Some(f64::INFINITY),
            outcome => Some(outcome.spread(|one| (one.lost + one.misplaced) as f64)?.greatest),
        }
    }

    fn target(&self, name: &str, row: String, limit: Option<f64>, measured: Option<f64>) -> Target {
        Target { name: name.to_owned(), transport: self.transport, row, limit, measured }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Entry;
    use crate::measure::Idle;

    fn fan_out(cpu_seconds_per_million: f64, p99_millis: f64, lost: u64) -> FanOut {
        FanOut {
            connecting: Connecting { kib_each: 10.5, micros_each: 50.0 },
            cpu_seconds_per_million,
            loaded_kib: 12.0,
            p50_millis: 1.0,
            p99_millis,
            others_percent: 0.0,
            lost,
            gaps: 0,
            misplaced: 0,
        }
    }

    fn entry<M>(product: Product, measurements: Vec<M>) -> Entry<M> {
        Entry {
            server: Server { transport: Transport::Sse, product },
            outcome: Outcome::Measured { measurements, failures: vec![] },
        }
    }

    fn results() -> Results {
        let table = |pace: &str, freshet: FanOut| Table {
            scenario: pace.parse().unwrap(),
            entries: vec![
                entry(Product::Freshet, vec![freshet]),
                entry(Product::Floor, vec![fan_out(5.0, 1.0, 0)]),
                entry(Product::Nchan, vec![fan_out(6.5, 12.0, 0)]),
                entry(Product::Centrifugo, vec![fan_out(10.0, 8.0, 0)]),
                entry(Product::Node, vec![fan_out(9.0, 20.0, 0)]),
            ],
        };
        let mut results = Results {
            fan_out: vec![
                table("1000@50", fan_out(6.0, 9.0, 0)),
                table("5000@10", fan_out(7.0, 8.0, 3)),
                table("10000@5", fan_out(6.5, 8.0, 0)),
                table("5000@10x20", fan_out(0.5, 8.0, 0)),
                table("19500@2", fan_out(9.0, 8.0, 0)),
            ],
            ..Results::default()
        };
        // One repetition of three that loses something is enough.
        if let Outcome::Measured { measurements, .. } = &mut results.fan_out[2].entries[0].outcome {
            measurements.extend([fan_out(6.5, 8.0, 1), fan_out(6.5, 8.0, 0)]);
        }
        results
    }

    fn find<'a>(targets: &'a [Target], name: &str, row: &str) -> &'a Target {
        targets
            .iter()
            .find(|target| {
                target.name.contains(name) && target.row == row && target.transport == Transport::Sse
            })
            .unwrap()
    }

    #[test]
    fn each_figure_is_compared_with_its_own_limit() {
        let targets = targets(&results());
        for (name, row, limit, measured, verdict) in [
            ("the floor's", "1000@50", 1.3, 1.2, Verdict::Met),
            ("the floor's", "5000@10", 1.3, 1.4, Verdict::Missed),
            ("nchan's", "1000@50", 6.5, 6.0, Verdict::Met),
            ("nchan's", "5000@10", 6.5, 7.0, Verdict::Missed),
            ("Centrifugo's", "1000@50", 0.6, 0.6, Verdict::Met),
            ("Centrifugo's", "5000@10", 0.6, 0.7, Verdict::Missed),
            ("p99", "1000@50", 8.0, 9.0, Verdict::Missed),
            ("p99", "5000@10", 8.0, 8.0, Verdict::Met),
            ("lost", "1000@50", 0.0, 0.0, Verdict::Met),
            ("lost", "5000@10", 0.0, 3.0, Verdict::Missed),
            ("lost", "10000@5", 0.0, 1.0, Verdict::Missed),
            ("burst", "5000@10x20", 0.1, 0.5 / 7.0, Verdict::Met),
            ("KiB", "10000 clients", 10.0, 10.5, Verdict::Missed),
            ("a connect,", "10000 clients", 50.0, 50.0, Verdict::Met),
            ("held", "19500", 0.0, 0.0, Verdict::Met),
        ] {
            let target = find(&targets, name, row);
            assert_eq!(target.verdict(), verdict, "{target:?}");
            assert!((target.limit.unwrap() - limit).abs() < 1e-9, "{target:?}");
            assert!((target.measured.unwrap() - measured).abs() < 1e-9, "{target:?}");
        }
    }

    #[test]
    fn what_was_not_measured_is_unknown_and_never_met() {
        let targets = targets(&results());
        assert!(targets.iter().filter(|target| target.transport == Transport::WebSocket).count() > 10);
        for target in targets.iter().filter(|target| target.transport == Transport::WebSocket) {
            assert_eq!(target.verdict(), Verdict::Unknown, "{target:?}");
        }
    }

    #[test]
    fn a_repetition_that_fails_is_a_loss() {
        let mut results = results();
        if let Outcome::Measured { failures, .. } = &mut results.fan_out[4].entries[0].outcome {
            failures.push("refused".to_owned());
        }
        assert_eq!(find(&targets(&results), "held", "19500").verdict(), Verdict::Missed);
    }

    #[test]
    fn a_row_without_events_says_better_what_a_connection_costs() {
        let mut results = results();
        let connecting = Connecting { kib_each: 9.5, micros_each: 40.0 };
        results.idle.push(Table {
            scenario: CLIENTS_FOR_MEMORY,
            entries: vec![entry(Product::Freshet, vec![Idle { connecting, cpu_percent: 0.1 }])],
        });
        let targets = targets(&results);
        assert_eq!(find(&targets, "KiB", "10000 clients").verdict(), Verdict::Met);
        assert_eq!(find(&targets, "a connect,", "10000 clients").measured, Some(40.0));
    }
}
