//! The tables of the report, and their place in a document.

use std::fmt::Write;

use anyhow::{Context, Result};

use crate::scenario::Scenario;
use crate::statistics::Spread;

/// What stands before the generated part of a document.
pub const BEGIN: &str = "<!-- fan-out benchmark: begin -->";
/// What stands behind it.
pub const END: &str = "<!-- fan-out benchmark: end -->";

/// One measurement of one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// CPU seconds of the server from the first publication to the last delivery, for a million deliveries.
    pub cpu_seconds_per_million: f64,
    /// Growth of its resident memory while the clients connected, in KiB for each.
    pub connected_kib: f64,
    /// The same, up to the end of the run.
    pub loaded_kib: f64,
    /// Latency that half of the deliveries do not exceed, in milliseconds.
    pub p50_millis: f64,
    /// Latency that 99 of 100 deliveries do not exceed, in milliseconds.
    pub p99_millis: f64,
    /// CPU time that neither the server nor the clients used, in hundredths of the whole machine: how busy others
    /// kept it.
    pub others_percent: f64,
    /// Deliveries that did not come.
    pub lost: u64,
    /// Deliveries that came twice or in the wrong order.
    pub misplaced: u64,
}

/// All measurements of one server in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The scenario.
    pub scenario: Scenario,
    /// The server's name.
    pub server: String,
    /// One for each repetition.
    pub measurements: Vec<Measurement>,
    /// Those of the floor in the same run.
    pub floor: Vec<Measurement>,
}

/// What a server does with clients that do not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRow {
    /// The server's name.
    pub server: String,
    /// All clients.
    pub clients: usize,
    /// Those that stopped reading.
    pub stalled: usize,
    /// What was sent to each, in bytes.
    pub bytes_each: u64,
    /// The greatest growth of the server's resident memory, in KiB.
    pub growth_kib: u64,
    /// Clients that the server closed.
    pub closed: usize,
    /// Deliveries that did not come to the clients that went on reading.
    pub lost: u64,
}

/// How the figures came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// The command line.
    pub command: String,
    /// The machine and the date.
    pub machine: String,
    /// Size of an event of the first table, in bytes.
    pub event_bytes: usize,
    /// Repetitions of each row of the first table.
    pub repetitions: usize,
}

/// The report in Markdown.
#[must_use]
pub fn markdown(circumstances: &Circumstances, rows: &[Row], slow_rows: &[SlowRow]) -> String {
    let Circumstances { command, machine, event_bytes, repetitions } = circumstances;
    let mut text = format!(
        "Machine: {machine}\n\n    {command}\n\n\
         Events of {event_bytes} bytes over loopback; the clients run on the same cores. Median of {repetitions}, \
         least and greatest in parentheses. CPU is the server's, user and kernel, from the first publication to the \
         last delivery, receiving the events included. KiB a connection is the growth of resident memory until all \
         clients are connected, and until the end of the run. The last column says how busy other work kept the machine: \
         where it is high, trust only the ratio.\n\n\
         | clients | events/s | events a request | server | CPU s per million deliveries | ratio to floor \
         | KiB a connection | after load | p50 ms | p99 ms | lost | twice or out of order | others' CPU % |\n\
         |---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for row in rows {
        text.push_str(&row.markdown());
    }
    if !slow_rows.is_empty() {
        text.push_str(
            "\n| server | clients | that stop reading | MB to each | memory growth MiB | clients closed | lost by readers |\n\
             |---|---:|---:|---:|---:|---:|---:|\n",
        );
    }
    for row in slow_rows {
        let SlowRow { server, clients, stalled, bytes_each, growth_kib, closed, lost } = row;
        let megabytes = bytes_each / 1_000_000;
        let mebibytes = growth_kib.div_ceil(1024);
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "| {server} | {clients} | {stalled} | {megabytes} | {mebibytes} | {closed} | {lost} |"
        );
    }
    text
}

impl Row {
    fn markdown(&self) -> String {
        let Scenario { clients, events_per_second, batch_events } = self.scenario;
        let of = |measurements: &[Measurement], value: fn(&Measurement) -> f64| {
            Spread::of(measurements.iter().map(value))
        };
        let cpu = of(&self.measurements, |one| one.cpu_seconds_per_million);
        let floor_cpu = of(&self.floor, |one| one.cpu_seconds_per_million);
        let ratio = cpu
            .zip(floor_cpu)
            .filter(|(_, floor)| floor.median > 0.0)
            .map_or("–".to_owned(), |(cpu, floor)| format!("{:.2}", cpu.median / floor.median));
        let lost: u64 = self.measurements.iter().map(|one| one.lost).sum();
        let misplaced: u64 = self.measurements.iter().map(|one| one.misplaced).sum();
        format!(
            "| {clients} | {events_per_second} | {batch_events} | {} | {} | {ratio} | {} | {} | {} | {} | {lost} | {misplaced} | {} |\n",
            self.server,
            cell(cpu),
            cell(of(&self.measurements, |one| one.connected_kib)),
            cell(of(&self.measurements, |one| one.loaded_kib)),
            cell(of(&self.measurements, |one| one.p50_millis)),
            cell(of(&self.measurements, |one| one.p99_millis)),
            cell(of(&self.measurements, |one| one.others_percent)),
        )
    }
}

fn cell(spread: Option<Spread>) -> String {
    spread.map_or("–".to_owned(), |Spread { least, median, greatest }| {
        format!("{median:.1} ({least:.1}–{greatest:.1})")
    })
}

/// The document with a new text between [`BEGIN`] and [`END`]; all else stays as it is.
///
/// # Errors
/// When the document has not both marks in that order.
pub fn replace_section(document: &str, section: &str) -> Result<String> {
    let (before, rest) =
        document.split_once(BEGIN).with_context(|| format!("the document has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no {END} follows the beginning"))?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", section.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(cpu_seconds_per_million: f64, lost: u64) -> Measurement {
        Measurement {
            cpu_seconds_per_million,
            connected_kib: 10.0,
            loaded_kib: 10.5,
            p50_millis: 1.25,
            p99_millis: 9.0,
            others_percent: 4.0,
            lost,
            misplaced: 0,
        }
    }

    #[test]
    fn a_row_shows_medians_the_ratio_of_medians_and_the_sum_of_losses() {
        let row = Row {
            scenario: "1000@100x20".parse().unwrap(),
            server: "freshet".into(),
            measurements: vec![measurement(9.0, 0), measurement(6.0, 2), measurement(8.0, 1)],
            floor: vec![measurement(5.0, 0)],
        };
        assert_eq!(
            row.markdown(),
            "| 1000 | 100 | 20 | freshet | 8.0 (6.0–9.0) | 1.60 | 10.0 (10.0–10.0) | 10.5 (10.5–10.5) | 1.2 (1.2–1.2) | 9.0 (9.0–9.0) | 3 | 0 | 4.0 (4.0–4.0) |\n"
        );
    }

    #[test]
    fn each_line_of_a_table_has_as_many_cells_as_its_head() {
        let row = Row {
            scenario: "1@1".parse().unwrap(),
            server: "floor".into(),
            measurements: vec![],
            floor: vec![],
        };
        let slow_row = SlowRow {
            server: "floor".into(),
            clients: 60,
            stalled: 20,
            bytes_each: 20_000_000,
            growth_kib: 1025,
            closed: 1,
            lost: 0,
        };
        let circumstances = Circumstances {
            command: "freshet-load bench".into(),
            machine: "2 cores".into(),
            event_bytes: 600,
            repetitions: 3,
        };
        let text = markdown(&circumstances, &[row], &[slow_row]);
        let widths: Vec<usize> =
            text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
        assert_eq!(widths, [14, 14, 14, 8, 8, 8]);
        assert!(text.contains("| floor | 60 | 20 | 20 | 2 | 1 | 0 |"), "{text}");
    }

    #[test]
    fn only_the_section_between_the_marks_changes() {
        let document = format!("# Title\n{BEGIN}\nold\n{END}\nmore\n");
        let replaced = replace_section(&document, "new\n").unwrap();
        assert_eq!(replaced, format!("# Title\n{BEGIN}\n\nnew\n\n{END}\nmore\n"));
        assert_eq!(replace_section(&replaced, "new").unwrap(), replaced);
        assert!(replace_section(BEGIN, "new").is_err());
        assert!(replace_section(&format!("{END}{BEGIN}"), "new").is_err());
    }
}
