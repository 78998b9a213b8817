//! The command line of the benchmark; the library says what it measures.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use freshet_load::bench::{Options, measure_all};
use freshet_load::client::Target;
use freshet_load::floor::Floor;
use freshet_load::process::Programs;
use freshet_load::report::{Circumstances, Section, replace_sections, sections};
use freshet_load::scenario::MAX_CLIENTS;
use freshet_load::server::{Product, Server, Transport};
use freshet_load::swarm::Swarm;
use freshet_load::system::{describe_machine, raise_open_files};
use freshet_load::tally::Tally;

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Measures the fan-out to SSE and WebSocket clients against a plain loop of send() and other servers"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the daemon, the floor and other servers side by side, and print the tables.
    Bench(Box<Options>),
    /// Open clients of a running daemon and count what they receive; the result is one line of JSON.
    Clients {
        /// Address of the server, on loopback.
        #[arg(long)]
        target: SocketAddr,
        /// How the clients receive.
        #[arg(long, value_enum, default_value = "sse")]
        transport: Transport,
        /// Path and query of the stream [default: /events for SSE, /ws for WebSocket].
        #[arg(long)]
        path: Option<String>,
        /// `Sec-WebSocket-Protocol` of the upgrade.
        #[arg(long, default_value = "freshet.v1")]
        subprotocol: String,
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
        Command::Clients { target, transport, path, subprotocol, clients, connects_per_second, seconds } => {
            let server = Server { transport, product: Product::Freshet };
            let standard = server.target(target, connects_per_second);
            let path = path.unwrap_or(standard.path);
            count(Target { path, subprotocol, ..standard }, clients, Duration::from_secs(seconds))
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
        let document = read_document(path, options)?;
        replace_sections(&document, Section::of(&options.rows).into_iter().map(|section| (section, "")))
            .with_context(|| path.display().to_string())?;
    }
    let machine = describe_machine();
    let versions = versions(options, &options.programs()?)?;
    let results = measure_all(options)?;
    // The name of a binary is enough: where it lies on this machine helps nobody.
    let name = |argument: String| match Path::new(&argument).file_name() {
        Some(name) if Path::new(&argument).is_absolute() => name.to_string_lossy().into_owned(),
        _ => argument,
    };
    let arguments: Vec<String> = std::env::args().skip(1).map(name).collect();
    let command = format!("freshet-load {}", arguments.join(" "));
    let sections = sections(&Circumstances { command, machine, versions }, options, &results);
    for (_, text) in &sections {
        println!("{text}");
    }
    if let Some(path) = &options.out {
        let texts = sections.iter().map(|(section, text)| (*section, text.as_str()));
        // Read again: a benchmark takes long, and somebody may have written meanwhile.
        let document = replace_sections(&read_document(path, options)?, texts)?;
        std::fs::write(path, document).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The document, or an empty one with the sections that these rows fill.
fn read_document(path: &Path, options: &Options) -> Result<String> {
    if path.exists() {
        return std::fs::read_to_string(path).with_context(|| path.display().to_string());
    }
    let sections = Section::of(&options.rows).into_iter();
    let marks: Vec<String> =
        sections.map(|section| format!("{}\n{}\n", section.begin(), section.end())).collect();
    Ok(format!("# Benchmarks\n\n{}", marks.join("\n")))
}

/// Names and versions of the servers that are here, each once.
fn versions(options: &Options, programs: &Programs) -> Result<Vec<String>> {
    let mut products: Vec<Product> = options.servers.iter().map(|server| server.product).collect();
    products.sort_unstable();
    products.dedup();
    products
        .into_iter()
        .filter(|product| programs.absence(*product).is_none())
        .map(|product| programs.version(product))
        .collect()
}

fn count(target: Target, clients: usize, duration: Duration) -> Result<()> {
    ensure!(target.address.ip().is_loopback(), "only loopback addresses are allowed");
    ensure!((1..=MAX_CLIENTS).contains(&clients), "1 to {MAX_CLIENTS} clients");
    ensure!(target.connects_per_second > 0, "at least one connection a second");
    raise_open_files(clients)?;
    let mut swarm = Swarm::new(target)?;
    swarm.connect(clients)?;
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
