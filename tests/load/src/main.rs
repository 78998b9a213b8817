//! The command line of the benchmark; the library says what it measures.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use freshet_load::bench::{Options, measure_all};
use freshet_load::floor::Floor;
use freshet_load::report::{BEGIN, Circumstances, END, markdown, replace_section};
use freshet_load::scenario::MAX_CLIENTS;
use freshet_load::swarm::{Swarm, Target};
use freshet_load::system::{describe_machine, raise_open_files};
use freshet_load::tally::Tally;

#[derive(Debug, Parser)]
#[command(version, about = "Measures the fan-out to SSE clients against a plain loop of send()")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the daemon against the floor and print the tables.
    Bench(Box<Options>),
    /// Open SSE clients and count what they receive; the result is one line of JSON.
    Clients {
        /// Address of the server, on loopback.
        #[arg(long)]
        target: SocketAddr,
        /// Path and query of the stream.
        #[arg(long, default_value = "/events")]
        path: String,
        /// How many clients.
        #[arg(long, default_value_t = 1000)]
        clients: usize,
        /// New connections a second.
        #[arg(long, default_value_t = 2000)]
        connects_per_second: u32,
        /// How long to count, once all are connected.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Serve the floor until the process ends: GET subscribes, POST publishes.
    Floor {
        /// Where to listen, on loopback.
        #[arg(long, default_value = "127.0.0.1:8085")]
        listen: SocketAddr,
    },
}

fn main() -> Result<()> {
    match CommandLine::parse().command {
        Command::Bench(options) => bench(&options),
        Command::Clients { target, path, clients, connects_per_second, seconds } => {
            let target = Target { address: target, path, connects_per_second };
            count(&target, clients, Duration::from_secs(seconds))
        }
        Command::Floor { listen } => {
            ensure!(listen.ip().is_loopback(), "only loopback addresses are allowed");
            raise_open_files(0)?;
            let floor = Floor::bind(listen)?;
            println!("listening on {}", floor.address()?);
            std::io::stdout().flush()?;
            floor.serve()
        }
    }
}

fn bench(options: &Options) -> Result<()> {
    // A document that cannot take the report should be known before the measurement, not after it.
    if let Some(path) = &options.out {
        write_section(path, None)?;
    }
    let machine = describe_machine();
    let (rows, slow_rows) = measure_all(options)?;
    // The name of a binary is enough: where it lies on this machine helps nobody.
    let name = |argument: String| match Path::new(&argument).file_name() {
        Some(name) if Path::new(&argument).is_absolute() => name.to_string_lossy().into_owned(),
        _ => argument,
    };
    let arguments: Vec<String> = std::env::args().skip(1).map(name).collect();
    let circumstances = Circumstances {
        command: format!("freshet-load {}", arguments.join(" ")),
        machine,
        event_bytes: usize::try_from(options.event_bytes)?,
        repetitions: usize::try_from(options.repeat)?,
    };
    let report = markdown(&circumstances, &rows, &slow_rows);
    println!("{report}");
    options.out.as_deref().map_or(Ok(()), |path| write_section(path, Some(&report)))
}

/// Replaces the section of the document, or only checks that it could.
fn write_section(path: &Path, report: Option<&str>) -> Result<()> {
    let document = if path.exists() {
        std::fs::read_to_string(path).with_context(|| path.display().to_string())?
    } else {
        format!("# Benchmarks\n\n{BEGIN}\n{END}\n")
    };
    let replaced =
        replace_section(&document, report.unwrap_or_default()).with_context(|| path.display().to_string())?;
    if report.is_some() {
        std::fs::write(path, replaced).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn count(target: &Target, clients: usize, duration: Duration) -> Result<()> {
    ensure!(target.address.ip().is_loopback(), "only loopback addresses are allowed");
    ensure!((1..=MAX_CLIENTS).contains(&clients), "1 to {MAX_CLIENTS} clients");
    ensure!(target.connects_per_second > 0, "at least one connection a second");
    raise_open_files(clients)?;
    let mut swarm = Swarm::new()?;
    swarm.connect(target, clients)?;
    swarm.count(Tally::of(0..u64::MAX));
    swarm.idle(duration)?;
    let tally = swarm.tally();
    let result = serde_json::json!({
        "clients": clients,
        "closed_by_server": swarm.closed(),
        "delivered": tally.delivered,
        "missing": swarm.missing(),
        "duplicates": tally.duplicates,
        "out_of_order": tally.out_of_order,
        "p50_micros": tally.latency_nanos.quantile(500).map(|nanos| nanos / 1000),
        "p99_micros": tally.latency_nanos.quantile(990).map(|nanos| nanos / 1000),
    });
    println!("{result}");
    Ok(())
}
