//! The tables of the report in Markdown: one line for each server, also for one that is absent or failed.

use std::fmt::Write;

use crate::bench::{Entry, Outcome, Results, Table};
use crate::measure::FanOut;
use crate::scenario::Pace;
use crate::server::{Product, Server};
use crate::statistics::Spread;
use crate::targets::{Target, Verdict, targets};

/// The longest reason that is shown, in characters.
const MAX_REASON_CHARACTERS: usize = 200;

/// The targets and whether they are met.
#[must_use]
pub fn targets_table(results: &Results) -> String {
    let mut text = "The daemon's figures against the targets: medians of the tables below.\n\n\
        | target | transport | row | at most | measured | |\n|---|---|---|---:|---:|---|\n"
        .to_owned();
    for target in targets(results) {
        let Target { name, transport, row, .. } = &target;
        let verdict = match target.verdict() {
            Verdict::Met => "met",
            Verdict::Missed => "**missed**",
            Verdict::Unknown => "not measured",
        };
        let limit = number(target.limit);
        let measured = number(target.measured);
        // Writing to a text cannot fail, here and below.
        let _ = writeln!(text, "| {name} | {transport} | {row} | {limit} | {measured} | {verdict} |");
    }
    text
}

/// As exact as it is compared.
pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.is_infinite() => "failed".to_owned(),
        // Losses are whole, the rest is shown as exact as it is compared.
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// The tables of the fan-out, one for each pace.
#[must_use]
pub fn fan_out_tables(results: &Results, event_bytes: u32, repetitions: u32) -> String {
    let mut text = format!(
        "Events of {event_bytes} bytes over loopback; the clients run on the same cores. Median of {repetitions}, \
         least and greatest in parentheses. CPU is the server's, user and kernel, from the first publication to the \
         last delivery, receiving the events included; the ratio is that of the medians. KiB a connection is the growth of \
         resident memory until all clients are connected, and until the end of the run. A gap is a lost delivery that a \
         later one followed. The last column says how busy other work kept the machine: where it is high, trust only \
         the ratio. Several events at once are one request for the daemon and the floor, requests back to back for the \
         others.\n"
    );
    for table in &results.fan_out {
        let Pace { clients, events_per_second, batch_events } = table.scenario;
        let _ = write!(text, "\n### {clients} clients, {events_per_second} events/s");
        if batch_events > 1 {
            let _ = write!(text, ", {batch_events} at once");
        }
        let single = results.fan_out.iter().find(|other| {
            batch_events > 1 && other.scenario.clients == clients && other.scenario.batch_events == 1
        });
        let last = if single.is_some() { " | of a single event's CPU" } else { "" };
        let head = format!(
            "server | CPU s per million deliveries | ratio to floor | p50 ms | p99 ms | lost | gaps \
             | twice or out of order | KiB a connection | after load | CPU µs a connect | others' CPU %{last}"
        );
        text.push_str("\n\n");
        table_of(&mut text, &head, table, |entry| {
            let mut cells = fan_out_cells(entry, table);
            if let Some(single) = single {
                cells.push(ratio(median_cpu(table, entry.server), median_cpu(single, entry.server)));
            }
            cells
        });
    }
    text
}

fn fan_out_cells(entry: &Entry<FanOut>, table: &Table<Pace, FanOut>) -> Vec<String> {
    let outcome = &entry.outcome;
    let sum = |figure: fn(&FanOut) -> u64| outcome.measurements().iter().map(figure).sum::<u64>().to_string();
    let floor = Server { product: Product::Floor, ..entry.server };
    vec![
        cell(outcome.spread(|one| one.cpu_seconds_per_million)),
        ratio(median_cpu(table, entry.server), median_cpu(table, floor)),
        cell(outcome.spread(|one| one.p50_millis)),
        cell(outcome.spread(|one| one.p99_millis)),
        sum(|one| one.lost),
        sum(|one| one.gaps),
        sum(|one| one.misplaced),
        cell(outcome.spread(|one| one.connecting.kib_each)),
        cell(outcome.spread(|one| one.loaded_kib)),
        cell(outcome.spread(|one| one.connecting.micros_each)),
        cell(outcome.spread(|one| one.others_percent)),
    ]
}

fn median_cpu(table: &Table<Pace, FanOut>, server: Server) -> Option<f64> {
    let entry = table.entries.iter().find(|entry| entry.server == server)?;
    Some(entry.outcome.spread(|one| one.cpu_seconds_per_million)?.median)
}

fn ratio(value: Option<f64>, other: Option<f64>) -> String {
    value
        .zip(other)
        .filter(|(_, other)| *other > 0.0)
        .map_or("–".to_owned(), |(value, other)| format!("{:.2}", value / other))
}

/// The tables of clients without events.
#[must_use]
pub fn idle_tables(results: &Results, repetitions: u32) -> String {
    let mut text = format!(
        "Clients connect, and nothing is published. Median of {repetitions}, least and greatest in parentheses.\n"
    );
    for table in &results.idle {
        let _ = write!(text, "\n### {} clients\n\n", table.scenario);
        let head = "server | KiB a connection | CPU µs a connect | CPU % of a core while idle";
        table_of(&mut text, head, table, |Entry { outcome, .. }| {
            vec![
                cell(outcome.spread(|one| one.connecting.kib_each)),
                cell(outcome.spread(|one| one.connecting.micros_each)),
                cell(outcome.spread(|one| one.cpu_percent)),
            ]
        });
    }
    text
}

/// The tables of slow clients.
#[must_use]
pub fn slow_tables(results: &Results, repetitions: u32) -> String {
    let mut text = format!(
        "First all clients read at once; then, of the same clients, one in a hundred reads 1 KiB a second and does not \
         count. Median of {repetitions}, least and greatest in parentheses; the change is that of the medians.\n"
    );
    for table in &results.slow {
        let Pace { clients, events_per_second, .. } = table.scenario;
        let _ = write!(text, "\n### {clients} clients, {events_per_second} events/s\n\n");
        let head = "server | p99 ms without slow clients | p99 ms of the others | change | slow clients closed \
            | lost by the others";
        table_of(&mut text, head, table, |Entry { outcome, .. }| {
            let before = outcome.spread(|one| one.p99_before_millis);
            let with_slow = outcome.spread(|one| one.p99_millis);
            let change = before.zip(with_slow).map_or("–".to_owned(), |(before, with_slow)| {
                format!("{:+.0} %", 100.0 * (with_slow.median / before.median - 1.0))
            });
            let closed: usize = outcome.measurements().iter().map(|one| one.closed).sum();
            let lost: u64 = outcome.measurements().iter().map(|one| one.lost).sum();
            vec![cell(before), cell(with_slow), change, closed.to_string(), lost.to_string()]
        });
    }
    text
}

/// The tables of an hour's worth of events.
#[must_use]
pub fn hour_tables(results: &Results) -> String {
    let mut text = "Resident memory in MiB before 3,600 times ten events, after them, and after as many again, a hundred \
        times as fast as they would come.\n"
        .to_owned();
    for table in &results.hour {
        let _ = write!(text, "\n### {} clients\n\n", table.scenario);
        let head = "server | before | after | after as many again | lost";
        table_of(&mut text, head, table, |Entry { outcome, .. }| {
            let mebibytes =
                |kib: Option<u64>| kib.map_or("–".to_owned(), |kib| format!("{:.1}", kib as f64 / 1024.0));
            let one = outcome.measurements().first();
            vec![
                mebibytes(one.map(|one| one.before_kib)),
                mebibytes(one.map(|one| one.after_kib)),
                mebibytes(one.map(|one| one.after_second_kib)),
                one.map_or("–".to_owned(), |one| one.lost.to_string()),
            ]
        });
    }
    text
}

/// The tables of clients that stop reading.
#[must_use]
pub fn stalled_tables(results: &Results) -> String {
    let mut text = "A third of the clients stops reading, as a frozen browser tab does.\n".to_owned();
    for table in &results.stalled {
        let _ = write!(text, "\n### {} clients\n\n", table.scenario);
        let head =
            "server | that stop reading | MB to each | memory growth MiB | clients closed | lost by readers";
        table_of(&mut text, head, table, |Entry { outcome, .. }| {
            let Some(one) = outcome.measurements().first() else { return vec!["–".to_owned(); 5] };
            vec![
                one.stalled.to_string(),
                (one.bytes_each / 1_000_000).to_string(),
                one.growth_kib.div_ceil(1024).to_string(),
                one.closed.to_string(),
                one.lost.to_string(),
            ]
        });
    }
    text
}

/// Appends a table with a line for each server, and the reasons of failures below it.
pub(crate) fn table_of<S, M>(
    text: &mut String,
    head: &str,
    table: &Table<S, M>,
    cells: impl Fn(&Entry<M>) -> Vec<String>,
) {
    let columns = head.split('|').count();
    let _ = writeln!(text, "| {head} |\n|---|{}", "---:|".repeat(columns - 1));
    let mut reasons = Vec::new();
    for entry in &table.entries {
        let server = entry.server;
        let mut line = match &entry.outcome {
            Outcome::Measured { measurements, .. } if !measurements.is_empty() => cells(entry),
            Outcome::Measured { .. } => vec!["failed, see below".to_owned()],
            Outcome::Absent(reason) => vec![reason.clone()],
        };
        line.resize(columns - 1, "–".to_owned());
        let _ = writeln!(text, "| {server} | {} |", line.join(" | "));
        if let Outcome::Measured { measurements, failures } = &entry.outcome
            && let Some(reason) = failures.first()
        {
            let attempts = measurements.len() + failures.len();
            reasons.push(format!(
                "{server} failed {} of {attempts} times: {}",
                failures.len(),
                shorten(reason)
            ));
        }
    }
    for reason in reasons {
        let _ = writeln!(text, "\n{reason}");
    }
}

/// The first line of a reason, as far as it fits.
fn shorten(reason: &str) -> String {
    reason.lines().next().unwrap_or_default().chars().take(MAX_REASON_CHARACTERS).collect()
}

fn cell(spread: Option<Spread>) -> String {
    spread.map_or("–".to_owned(), |Spread { least, median, greatest }| {
        if least == greatest {
            format!("{median:.1}")
        } else {
            format!("{median:.1} ({least:.1}–{greatest:.1})")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Connecting, Hour, Idle, Slow, Stalled};

    fn fan_out(cpu_seconds_per_million: f64, lost: u64) -> FanOut {
        FanOut {
            connecting: Connecting { kib_each: 10.0, micros_each: 30.0 },
            cpu_seconds_per_million,
            loaded_kib: 10.5,
            p50_millis: 1.25,
            p99_millis: 9.0,
            others_percent: 4.0,
            lost,
            gaps: 1,
            misplaced: 0,
        }
    }

    fn entry<M>(server: &str, measurements: Vec<M>, failures: &[&str]) -> Entry<M> {
        let failures = failures.iter().map(|reason| (*reason).to_owned()).collect();
        Entry { server: server.parse().unwrap(), outcome: Outcome::Measured { measurements, failures } }
    }

    fn table(pace: &str, freshet_cpu: f64) -> Table<Pace, FanOut> {
        Table {
            scenario: pace.parse().unwrap(),
            entries: vec![
                entry("freshet-ws", vec![fan_out(9.0, 0), fan_out(freshet_cpu, 2), fan_out(1.0, 1)], &[]),
                entry("floor-ws", vec![fan_out(5.0, 0)], &[]),
                entry("floor-sse", vec![fan_out(1.0, 0)], &[]),
                entry("nchan-ws", vec![], &["status 503\nlog", "other"]),
                entry("node-ws", vec![fan_out(6.0, 0)], &["late"]),
                Entry {
                    server: "centrifugo-ws".parse().unwrap(),
                    outcome: Outcome::Absent("absent: install".into()),
                },
            ],
        }
    }

    #[test]
    fn a_line_shows_medians_the_ratio_to_the_floor_of_its_transport_and_sums_of_losses() {
        let results =
            Results { fan_out: vec![table("10@1", 8.0), table("10@1x20", 2.0)], ..Results::default() };
        let text = fan_out_tables(&results, 600, 3);
        assert!(
            text.contains(
                "\n| freshet-ws | 8.0 (1.0–9.0) | 1.60 | 1.2 | 9.0 | 3 | 3 | 0 | 10.0 | 10.5 | 30.0 | 4.0 |\n"
            ),
            "{text}"
        );
        assert!(text.contains("### 10 clients, 1 events/s, 20 at once\n"), "{text}");
        assert!(text.contains("\n| freshet-ws | 2.0 (1.0–9.0) | 0.40 | 1.2 | 9.0 | 3 | 3 | 0 | 10.0 | 10.5 | 30.0 | 4.0 | 0.25 |\n"));
    }

    #[test]
    fn who_is_absent_or_failed_has_a_line_and_a_reason() {
        let results = Results { fan_out: vec![table("10@1", 8.0)], ..Results::default() };
        let text = fan_out_tables(&results, 600, 3);
        assert!(text.contains("\n| centrifugo-ws | absent: install | – |"), "{text}");
        assert!(text.contains("\n| nchan-ws | failed, see below | – |"), "{text}");
        assert!(text.contains("\nnchan-ws failed 2 of 2 times: status 503\n"), "{text}");
        assert!(text.contains("\nnode-ws failed 1 of 2 times: late\n"), "{text}");
    }

    #[test]
    fn each_line_of_each_table_has_as_many_cells_as_its_head() {
        let connecting = Connecting { kib_each: 1.0, micros_each: 1.0 };
        let slow = Slow { p99_before_millis: 2.0, p99_millis: 3.0, closed: 1, lost: 0 };
        let hour = Hour { before_kib: 1024, after_kib: 2048, after_second_kib: 2048, lost: 0 };
        let stalled = Stalled { stalled: 20, bytes_each: 20_000_000, growth_kib: 1025, closed: 1, lost: 0 };
        let results = Results {
            fan_out: vec![table("10@1", 8.0), table("10@1x20", 8.0)],
            idle: vec![Table {
                scenario: 10,
                entries: vec![entry("node-ws", vec![Idle { connecting, cpu_percent: 0.5 }], &[])],
            }],
            slow: vec![Table {
                scenario: "100@1".parse().unwrap(),
                entries: vec![entry("node-ws", vec![slow], &[])],
            }],
            hour: vec![Table { scenario: 10, entries: vec![entry("node-ws", vec![hour], &[])] }],
            stalled: vec![Table {
                scenario: 60,
                entries: vec![entry("node-ws", vec![stalled], &[]), entry("node-sse", vec![], &["late"])],
            }],
            ..Results::default()
        };
        for (text, lines) in [
            (fan_out_tables(&results, 600, 3), vec![13; 8].into_iter().chain(vec![14; 8]).collect()),
            (idle_tables(&results, 3), vec![5; 3]),
            (slow_tables(&results, 3), vec![7; 3]),
            (hour_tables(&results), vec![6; 3]),
            (stalled_tables(&results), vec![7; 4]),
            (targets_table(&results), vec![7; 2 + 2 * 19]),
        ] {
            let widths: Vec<usize> = text
                .lines()
                .filter(|line| line.starts_with('|'))
                .map(|line| line.matches('|').count())
                .collect();
            assert_eq!(widths, lines, "{text}");
        }
        assert!(slow_tables(&results, 3).contains("| node-ws | 2.0 | 3.0 | +50 % | 1 | 0 |"));
        assert!(hour_tables(&results).contains("| node-ws | 1.0 | 2.0 | 2.0 | 0 |"));
        assert!(stalled_tables(&results).contains("| node-ws | 20 | 20 | 2 | 1 | 0 |"));
    }
}
