//! Runs the servers one after the other and measures them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};

use crate::process::{Server, ServerProcess};
use crate::report::{Measurement, Row, SlowRow};
use crate::scenario::{MAX_CLIENTS, Scenario};
use crate::swarm::{Plan, Swarm, Target};
use crate::system::{cpu_seconds, machine_cpu_seconds, memory, raise_open_files};

/// Files that this process needs beside its clients.
const SPARE_FILES: usize = 64;
/// How long a server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(1);
/// How long late deliveries are waited for.
const DRAIN: Duration = Duration::from_secs(15);
/// Requests before the measured ones, so that neither code nor buffers are touched for the first time.
const WARM_UP_BATCHES: u64 = 3;
const WARM_UP_INTERVAL: Duration = Duration::from_millis(100);
const SLOW_CLIENTS: usize = 60;
const SLOW_STALLED: usize = 20;
const SLOW_EVENT_BYTES: usize = 10_000;
const SLOW_BATCH_EVENTS: u64 = 20;
const SLOW_INTERVAL: Duration = Duration::from_millis(200);
/// From one look at the server's memory to the next.
const MEMORY_INTERVAL: Duration = Duration::from_millis(100);
/// How long stalled clients read again, to see whom the server closed.
const RESUME: Duration = Duration::from_secs(3);

/// What to measure, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The daemon's executable file. Without it only the floor is measured.
    #[arg(long, value_name = "FILE")]
    pub freshet: Option<PathBuf>,
    /// A configuration file for the daemon instead of `tests/load/freshet.toml`; it must admit as many SSE clients as the largest row has.
    #[arg(long, value_name = "FILE", requires = "freshet")]
    pub config: Option<PathBuf>,
    /// The rows to measure: CLIENTS@EVENTS_PER_SECOND, or CLIENTS@EVENTS_PER_SECONDxBATCH for several events in
    /// one request.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1000@50,5000@10,10000@2,10000@5,1000@100x20,10000@10x20"
    )]
    pub rows: Vec<Scenario>,
    /// Deliveries of one measurement, about.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub deliveries: u64,
    /// How often each row is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub repeat: u32,
    /// Size of an event in bytes.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(500..=100_000))]
    pub event_bytes: u32,
    /// New connections a second.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connects_per_second: u32,
    /// Megabytes that are sent to each client while a third of them does not read; 0 leaves that table out.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub slow_megabytes: u32,
    /// A Markdown document whose section between the two marks is replaced by the report.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Measures everything and returns the rows of both tables. Progress goes to the standard error stream.
///
/// # Errors
/// When a server cannot be started, refuses clients or events, or does not end.
pub fn measure_all(options: &Options) -> Result<(Vec<Row>, Vec<SlowRow>)> {
    raise_open_files(MAX_CLIENTS.min(largest(options)) + SPARE_FILES)?;
    let mut servers = vec![Server::Floor];
    if let Some(binary) = options.freshet.clone() {
        servers.push(Server::Freshet { binary, configuration: options.config.clone() });
    }
    let mut rows = Vec::new();
    for scenario in &options.rows {
        let mut measurements = vec![Vec::new(); servers.len()];
        for repetition in 0..options.repeat {
            // Who goes first changes, so that a machine that warms up or is disturbed favours nobody.
            let mut order: Vec<usize> = (0..servers.len()).collect();
            if repetition % 2 == 1 {
                order.reverse();
            }
            for index in order {
                let name = servers[index].name();
                let measurement = measure(&servers[index], scenario, options)
                    .with_context(|| format!("{name} with {scenario} failed"))?;
                eprintln!(
                    "{scenario} {name}: {:.2} CPU s per million, {:.1} KiB a connection, p50 {:.1} ms, p99 {:.1} ms, lost {}",
                    measurement.cpu_seconds_per_million,
                    measurement.connected_kib,
                    measurement.p50_millis,
                    measurement.p99_millis,
                    measurement.lost
                );
                measurements[index].push(measurement);
            }
        }
        let floor = measurements[0].clone();
        for (server, measurements) in servers.iter().zip(measurements) {
            rows.push(Row {
                scenario: *scenario,
                server: server.name().to_owned(),
                measurements,
                floor: floor.clone(),
            });
        }
    }
    let mut slow_rows = Vec::new();
    if options.slow_megabytes > 0 {
        for server in &servers {
            let row = measure_slow(server, options)
                .with_context(|| format!("{} with slow clients failed", server.name()))?;
            eprintln!(
                "{SLOW_STALLED} of {SLOW_CLIENTS} stop reading, {}: {} KiB more",
                row.server, row.growth_kib
            );
            slow_rows.push(row);
        }
    }
    Ok((rows, slow_rows))
}

fn largest(options: &Options) -> usize {
    options.rows.iter().map(|row| row.clients).max().unwrap_or(0).max(SLOW_CLIENTS)
}

/// A server with its clients, connected and warm.
struct Stage {
    process: ServerProcess,
    swarm: Swarm,
    /// Its resident memory without clients, in KiB.
    idle_kib: u64,
    /// With all clients, in KiB.
    connected_kib: u64,
    next_sequence: u64,
}

impl Stage {
    fn prepare(
        server: &Server,
        clients: usize,
        batch_events: u64,
        event_bytes: usize,
        options: &Options,
    ) -> Result<Self> {
        let process = ServerProcess::start(server)?;
        let mut swarm = Swarm::new()?;
        swarm.idle(SETTLE)?;
        let idle_kib = memory(process.process_id())?.resident_kib;
        let target = Target {
            address: process.address(),
            path: "/events".to_owned(),
            connects_per_second: options.connects_per_second,
        };
        swarm.connect(&target, clients).with_context(|| process.end_of_log())?;
        swarm.idle(SETTLE)?;
        let connected_kib = memory(process.process_id())?.resident_kib;
        let warm_up = Plan {
            first_sequence: 1,
            batches: WARM_UP_BATCHES,
            batch_events,
            interval: WARM_UP_INTERVAL,
            event_bytes,
            drain: DRAIN,
        };
        swarm.run(process.address(), &warm_up, || Ok(())).with_context(|| process.end_of_log())?;
        let next_sequence = 1 + WARM_UP_BATCHES * batch_events;
        Ok(Self { process, swarm, idle_kib, connected_kib, next_sequence })
    }
}

fn measure(server: &Server, scenario: &Scenario, options: &Options) -> Result<Measurement> {
    let event_bytes = usize::try_from(options.event_bytes)?;
    let mut stage = Stage::prepare(server, scenario.clients, scenario.batch_events, event_bytes, options)?;
    let process_id = stage.process.process_id();
    let plan = Plan {
        first_sequence: stage.next_sequence,
        batches: scenario.batches(options.deliveries),
        batch_events: scenario.batch_events,
        interval: scenario.interval(),
        event_bytes,
        drain: DRAIN,
    };
    let started = Instant::now();
    let others = || {
        Ok::<_, Error>(machine_cpu_seconds()? - cpu_seconds(process_id)? - cpu_seconds(std::process::id())?)
    };
    let others_before = others()?;
    let cpu_before = cpu_seconds(process_id)?;
    let tally = stage
        .swarm
        .run(stage.process.address(), &plan, || Ok(()))
        .with_context(|| stage.process.end_of_log())?;
    let cpu_used = cpu_seconds(process_id)? - cpu_before;
    let others_used = (others()? - others_before).max(0.0);
    let machine_seconds =
        started.elapsed().as_secs_f64() * std::thread::available_parallelism()?.get() as f64;
    let loaded_kib = memory(process_id)?.resident_kib;
    let expected = scenario.clients as u64 * plan.batches * plan.batch_events;
    ensure!(tally.delivered > 0, "nothing was delivered");
    let kib_each = |kib: u64| kib.saturating_sub(stage.idle_kib) as f64 / scenario.clients as f64;
    let millis = |per_mille| tally.latency_nanos.quantile(per_mille).unwrap_or(0) as f64 / 1e6;
    let measurement = Measurement {
        cpu_seconds_per_million: cpu_used * 1e6 / tally.delivered as f64,
        connected_kib: kib_each(stage.connected_kib),
        loaded_kib: kib_each(loaded_kib),
        p50_millis: millis(500),
        p99_millis: millis(990),
        others_percent: 100.0 * others_used / machine_seconds,
        lost: expected - tally.delivered,
        misplaced: tally.duplicates + tally.out_of_order,
    };
    drop(stage.swarm);
    stage.process.terminate()?;
    Ok(measurement)
}

fn measure_slow(server: &Server, options: &Options) -> Result<SlowRow> {
    let bytes_each = u64::from(options.slow_megabytes) * 1_000_000;
    let mut stage = Stage::prepare(server, SLOW_CLIENTS, SLOW_BATCH_EVENTS, SLOW_EVENT_BYTES, options)?;
    let process_id = stage.process.process_id();
    let before_kib = memory(process_id)?.resident_kib;
    stage.swarm.stall(SLOW_STALLED)?;
    let plan = Plan {
        first_sequence: stage.next_sequence,
        batches: bytes_each / (SLOW_EVENT_BYTES as u64 * SLOW_BATCH_EVENTS),
        batch_events: SLOW_BATCH_EVENTS,
        interval: SLOW_INTERVAL,
        event_bytes: SLOW_EVENT_BYTES,
        drain: DRAIN,
    };
    let mut greatest_kib = before_kib;
    let mut next_look = Instant::now();
    let tally = stage.swarm.run(stage.process.address(), &plan, || {
        if Instant::now() >= next_look {
            greatest_kib = greatest_kib.max(memory(process_id)?.resident_kib);
            next_look = Instant::now() + MEMORY_INTERVAL;
        }
        Ok(())
    })?;
    greatest_kib = greatest_kib.max(memory(process_id)?.resident_kib);
    stage.swarm.resume(RESUME)?;
    let readers = (SLOW_CLIENTS - SLOW_STALLED) as u64;
    let row = SlowRow {
        server: server.name().to_owned(),
        clients: SLOW_CLIENTS,
        stalled: SLOW_STALLED,
        bytes_each,
        growth_kib: greatest_kib - before_kib,
        closed: stage.swarm.closed(),
        lost: readers * plan.batches * plan.batch_events - tally.delivered,
    };
    drop(stage.swarm);
    stage.process.terminate()?;
    Ok(row)
}
