//! One measurement of one server in one scenario: start it, connect the clients, publish, read the meters, end it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::process::{Programs, ServerProcess};
use crate::scenario::Pace;
use crate::server::Server;
use crate::swarm::{Plan, Swarm};
use crate::system::{cpu_seconds, machine_cpu_seconds};
use crate::tally::Tally;

/// How long a server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(1);
/// How long late deliveries are waited for.
const DRAIN: Duration = Duration::from_secs(15);
/// Batches before the measured ones, so that neither code nor buffers are touched for the first time.
const WARM_UP_BATCHES: u64 = 3;
const WARM_UP_INTERVAL: Duration = Duration::from_millis(100);
/// How long clients without events are held.
const IDLE: Duration = Duration::from_secs(5);
/// One client in so many is slow.
const CLIENTS_FOR_A_SLOW_ONE: usize = 100;
/// An hour of ten events a second, a hundred times as fast.
const HOUR_BATCHES: u64 = 3600;
const HOUR_BATCH_EVENTS: u64 = 10;
const HOUR_INTERVAL: Duration = Duration::from_millis(10);
const STALLED_EVENT_BYTES: usize = 10_000;
const STALLED_BATCH_EVENTS: u64 = 20;
const STALLED_INTERVAL: Duration = Duration::from_millis(200);
/// From one look at the server's memory to the next.
const MEMORY_INTERVAL: Duration = Duration::from_millis(100);
/// How long stalled clients read again, to see whom the server closed.
const RESUME: Duration = Duration::from_secs(3);

/// What all measurements of a run have in common.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Where the servers' programs are.
    pub programs: Programs,
    /// Size of an event in bytes.
    pub event_bytes: usize,
    /// New connections a second, at most.
    pub connects_per_second: u32,
    /// Deliveries of one measurement, about.
    pub deliveries: u64,
    /// What is sent to each client while a third of them does not read, in bytes.
    pub stalled_bytes: u64,
    /// How long each of the two runs with and without laggards takes.
    pub laggards_duration: Duration,
}

/// What connecting costs the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connecting {
    /// Growth of its resident memory while the clients connected, in KiB for each.
    pub kib_each: f64,
    /// Its CPU time meanwhile, in microseconds for each.
    pub micros_each: f64,
}

/// Events to clients that read at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FanOut {
    /// What connecting cost.
    pub connecting: Connecting,
    /// CPU seconds of the server from the first publication to the last delivery, for a million deliveries.
    pub cpu_seconds_per_million: f64,
    /// Growth of its resident memory up to the end of the run, in KiB for each client.
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
    /// Those among them that a later event followed: holes in a client's numbers.
    pub gaps: u64,
    /// Deliveries that came twice or in the wrong order.
    pub misplaced: u64,
}

/// Clients and no events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Idle {
    /// What connecting cost.
    pub connecting: Connecting,
    /// CPU of the server while nothing happens, in hundredths of a core.
    pub cpu_percent: f64,
}

/// Clients of which, in the second half, one in a hundred is slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// Latency that 99 of 100 deliveries do not exceed while all read at once, in milliseconds.
    pub p99_before_millis: f64,
    /// The same for the others while some are slow.
    pub p99_millis: f64,
    /// Slow clients that the server closed.
    pub closed: usize,
    /// Deliveries that did not come to the others.
    pub lost: u64,
}

/// The server's memory over an hour's worth of events, in KiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hour {
    /// Before.
    pub before_kib: u64,
    /// After.
    pub after_kib: u64,
    /// After as much again.
    pub after_second_kib: u64,
    /// Deliveries that did not come.
    pub lost: u64,
}

/// What a server does with clients that do not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalled {
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

/// A server with its clients, connected.
pub(crate) struct Stage {
    server: Server,
    pub(crate) process: ServerProcess,
    pub(crate) swarm: Swarm,
    /// Its resident memory without clients, in KiB.
    empty_kib: u64,
    connecting: Connecting,
    next_sequence: u64,
}

impl Stage {
    pub(crate) fn prepare(server: Server, clients: usize, conditions: &Conditions) -> Result<Self> {
        let process = ServerProcess::start(server, &conditions.programs)?;
        let target = server.target(process.address(), conditions.connects_per_second);
        let mut swarm = Swarm::new(target)?;
        swarm.idle(SETTLE)?;
        let empty_kib = process.memory()?.resident_kib;
        let cpu_before = process.cpu_seconds()?;
        swarm.connect(clients).inspect_err(|_| eprintln!("{}", process.end_of_log()))?;
        swarm.idle(SETTLE)?;
        let connected_kib = process.memory()?.resident_kib;
        let connecting = Connecting {
            kib_each: connected_kib.saturating_sub(empty_kib) as f64 / clients as f64,
            micros_each: (process.cpu_seconds()? - cpu_before) * 1e6 / clients as f64,
        };
        Ok(Self { server, process, swarm, empty_kib, connecting, next_sequence: 1 })
    }

    pub(crate) fn plan(
        &self,
        batches: u64,
        batch_events: u64,
        interval: Duration,
        event_bytes: usize,
    ) -> Plan {
        Plan {
            publication: self.server.publication(),
            first_sequence: self.next_sequence,
            batches,
            batch_events,
            interval,
            event_bytes,
            drain: DRAIN,
        }
    }

    fn run(&mut self, plan: &Plan) -> Result<Tally> {
        self.run_watched(plan, |_| Ok(()))
    }

    /// Publishes by plan; the observer sees the server meanwhile, as [`Swarm::run`] calls it.
    pub(crate) fn run_watched(
        &mut self,
        plan: &Plan,
        mut observe: impl FnMut(&ServerProcess) -> Result<()>,
    ) -> Result<Tally> {
        self.next_sequence = plan.first_sequence + plan.batches * plan.batch_events;
        let process = &self.process;
        let tally = self
            .swarm
            .run(plan, || observe(process))
            .inspect_err(|_| eprintln!("{}", process.end_of_log()))?;
        ensure!(tally.delivered > 0, "nothing was delivered: {}", self.swarm.failures_in_words());
        Ok(tally)
    }

    pub(crate) fn warm_up(&mut self, batch_events: u64, event_bytes: usize) -> Result<()> {
        let plan = self.plan(WARM_UP_BATCHES, batch_events, WARM_UP_INTERVAL, event_bytes);
        self.run(&plan)?;
        Ok(())
    }

    pub(crate) fn end(self) -> Result<()> {
        drop(self.swarm);
        self.process.terminate()
    }
}

/// Measures the fan-out.
///
/// # Errors
/// When the server cannot be started, refuses clients or events, or does not end.
pub fn fan_out(server: Server, pace: &Pace, conditions: &Conditions) -> Result<FanOut> {
    let mut stage = Stage::prepare(server, pace.clients, conditions)?;
    stage.warm_up(pace.batch_events, conditions.event_bytes)?;
    let plan = stage.plan(
        pace.batches(conditions.deliveries),
        pace.batch_events,
        pace.interval(),
        conditions.event_bytes,
    );
    let started = Instant::now();
    let own_before = cpu_seconds(std::process::id())?;
    let machine_before = machine_cpu_seconds()?;
    let server_before = stage.process.cpu_seconds()?;
    let tally = stage.run(&plan)?;
    let server_used = stage.process.cpu_seconds()? - server_before;
    let own_used = cpu_seconds(std::process::id())? - own_before;
    let others_used = (machine_cpu_seconds()? - machine_before - server_used - own_used).max(0.0);
    let machine_seconds =
        started.elapsed().as_secs_f64() * std::thread::available_parallelism()?.get() as f64;
    let loaded_kib = stage.process.memory()?.resident_kib;
    let expected = pace.clients as u64 * plan.batches * plan.batch_events;
    let measurement = FanOut {
        connecting: stage.connecting,
        cpu_seconds_per_million: server_used * 1e6 / tally.delivered as f64,
        loaded_kib: loaded_kib.saturating_sub(stage.empty_kib) as f64 / pace.clients as f64,
        p50_millis: millis(&tally, 500),
        p99_millis: millis(&tally, 990),
        others_percent: 100.0 * others_used / machine_seconds,
        lost: expected - tally.delivered,
        gaps: stage.swarm.missing() as u64,
        misplaced: tally.duplicates + tally.out_of_order,
    };
    stage.end()?;
    Ok(measurement)
}

/// Measures what clients cost that receive nothing.
///
/// # Errors
/// As [`fan_out`].
pub fn idle(server: Server, clients: usize, conditions: &Conditions) -> Result<Idle> {
    let mut stage = Stage::prepare(server, clients, conditions)?;
    let before = stage.process.cpu_seconds()?;
    stage.swarm.idle(IDLE)?;
    let used = stage.process.cpu_seconds()? - before;
    let closed = stage.swarm.closed();
    ensure!(closed == 0, "{closed} clients were closed: {}", stage.swarm.failures_in_words());
    let measurement = Idle { connecting: stage.connecting, cpu_percent: 100.0 * used / IDLE.as_secs_f64() };
    stage.end()?;
    Ok(measurement)
}

/// Measures whether slow clients harm the others.
///
/// # Errors
/// As [`fan_out`].
pub fn slow(server: Server, pace: &Pace, conditions: &Conditions) -> Result<Slow> {
    let mut stage = Stage::prepare(server, pace.clients, conditions)?;
    stage.warm_up(pace.batch_events, conditions.event_bytes)?;
    // Twice as long as the plain row, since the sockets of the slow clients fill first.
    let batches = pace.batches(2 * conditions.deliveries);
    let plan = stage.plan(batches, pace.batch_events, pace.interval(), conditions.event_bytes);
    let before = stage.run(&plan)?;
    let slow_clients = pace.clients / CLIENTS_FOR_A_SLOW_ONE;
    stage.swarm.slow_down(slow_clients)?;
    let plan = Plan { first_sequence: stage.next_sequence, ..plan };
    let with_slow = stage.run(&plan)?;
    let events = plan.batches * plan.batch_events;
    let expected = (pace.clients + pace.clients - slow_clients) as u64 * events;
    let measurement = Slow {
        p99_before_millis: millis(&before, 990),
        p99_millis: millis(&with_slow, 990),
        closed: stage.swarm.closed(),
        lost: expected - before.delivered - with_slow.delivered,
    };
    stage.end()?;
    Ok(measurement)
}

/// Measures the memory before and after an hour's worth of events, and after as much again.
///
/// # Errors
/// As [`fan_out`].
pub fn hour(server: Server, clients: usize, conditions: &Conditions) -> Result<Hour> {
    let mut stage = Stage::prepare(server, clients, conditions)?;
    stage.warm_up(HOUR_BATCH_EVENTS, conditions.event_bytes)?;
    let mut sizes = [stage.process.memory()?.resident_kib, 0, 0];
    let mut lost = 0;
    for size in &mut sizes[1..] {
        let plan = stage.plan(HOUR_BATCHES, HOUR_BATCH_EVENTS, HOUR_INTERVAL, conditions.event_bytes);
        lost += clients as u64 * HOUR_BATCHES * HOUR_BATCH_EVENTS - stage.run(&plan)?.delivered;
        stage.swarm.idle(SETTLE)?;
        *size = stage.process.memory()?.resident_kib;
    }
    stage.end()?;
    let [before_kib, after_kib, after_second_kib] = sizes;
    Ok(Hour { before_kib, after_kib, after_second_kib, lost })
}

/// Measures what becomes of clients that stop reading, and of the server's memory.
///
/// # Errors
/// As [`fan_out`].
pub fn stalled(server: Server, clients: usize, conditions: &Conditions) -> Result<Stalled> {
    let mut stage = Stage::prepare(server, clients, conditions)?;
    stage.warm_up(STALLED_BATCH_EVENTS, STALLED_EVENT_BYTES)?;
    let stalled = clients / 3;
    let before_kib = stage.process.memory()?.resident_kib;
    stage.swarm.stall(stalled)?;
    let bytes_of_batch = STALLED_EVENT_BYTES as u64 * STALLED_BATCH_EVENTS;
    let batches = (conditions.stalled_bytes / bytes_of_batch).max(1);
    let plan = stage.plan(batches, STALLED_BATCH_EVENTS, STALLED_INTERVAL, STALLED_EVENT_BYTES);
    let mut greatest_kib = before_kib;
    let mut next_look = Instant::now();
    let process = &stage.process;
    let tally = stage.swarm.run(&plan, || {
        if Instant::now() >= next_look {
            greatest_kib = greatest_kib.max(process.memory()?.resident_kib);
            next_look = Instant::now() + MEMORY_INTERVAL;
        }
        Ok(())
    })?;
    greatest_kib = greatest_kib.max(stage.process.memory()?.resident_kib);
    stage.swarm.resume(RESUME)?;
    let readers = (clients - stalled) as u64;
    let measurement = Stalled {
        stalled,
        bytes_each: batches * bytes_of_batch,
        growth_kib: greatest_kib - before_kib,
        closed: stage.swarm.closed(),
        lost: readers * plan.batches * plan.batch_events - tally.delivered,
    };
    stage.end()?;
    Ok(measurement)
}

/// A quantile of the latency, in milliseconds.
pub(crate) fn millis(tally: &Tally, per_mille: u64) -> f64 {
    tally.latency_nanos.quantile(per_mille).unwrap_or(0) as f64 / 1e6
}
