//! The same pace twice on one server: ordinary clients alone, then beside clients that do not keep up.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::counters::Counters;
use crate::laggard::{Fate, Kind, Laggard};
use crate::measure::{Conditions, Stage, millis};
use crate::scenario::Pace;
use crate::server::Server;

/// From one look at the server's memory to the next; in a short run a tenth of it.
const MEMORY_INTERVAL: Duration = Duration::from_secs(60);
const MEMORY_LOOKS: u32 = 10;
/// A server that does not hold the pace has as much more time as the run should take, and this.
const GRACE: Duration = Duration::from_secs(60);
/// How much the others' latency may rise, in parts.
pub const MOST_OF_LATENCY: f64 = 1.1;
/// How much memory may grow from the first look of a run to its greatest and still be called flat, in parts.
pub const MOST_OF_MEMORY: f64 = 1.1;
const TURN: Duration = Duration::from_millis(10);

/// What the ordinary clients and the server's memory were like in one of the two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Latency that half of the deliveries do not exceed, in milliseconds.
    pub p50_millis: f64,
    /// Latency that 99 of 100 deliveries do not exceed, in milliseconds.
    pub p99_millis: f64,
    /// Events a second that were published and delivered: less than the pace when the machine could not hold it.
    pub events_per_second: f64,
    /// Deliveries that did not come.
    pub lost: u64,
    /// Deliveries that came twice.
    pub duplicates: u64,
    /// Deliveries after a later event.
    pub out_of_order: u64,
    /// The server's resident memory, each minute or each tenth of a shorter run, in KiB.
    pub resident_kib: Vec<u64>,
}

impl Observed {
    /// Whether each event came once and in order to everyone.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.lost + self.duplicates + self.out_of_order == 0
    }

    /// The greatest memory in parts of that at the first look; `None` when there was none.
    #[must_use]
    pub fn memory_growth(&self) -> Option<f64> {
        let first = *self.resident_kib.first().filter(|first| **first > 0)?;
        Some(*self.resident_kib.iter().max()? as f64 / first as f64)
    }
}

/// Ordinary clients alone, and beside laggards.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// Alone.
    pub alone: Observed,
    /// With laggards.
    pub beside: Observed,
    /// What became of each laggard.
    pub fates: Vec<Fate>,
    /// What the daemon counted from before the laggards came until after they left.
    pub counted: Counters,
}

impl Beside {
    /// The median and the 99th percentile of the latency beside laggards, in parts of those alone.
    #[must_use]
    pub fn latency_ratios(&self) -> [f64; 2] {
        let ratio = |figure: fn(&Observed) -> f64| figure(&self.beside) / figure(&self.alone);
        [ratio(|one| one.p50_millis), ratio(|one| one.p99_millis)]
    }

    /// Whether the ordinary clients have lost nothing, and no latency has risen by more than a tenth.
    #[must_use]
    pub fn others_are_unaffected(&self) -> bool {
        self.beside.is_exact() && self.latency_ratios().iter().all(|ratio| *ratio <= MOST_OF_LATENCY)
    }

    /// Whether the memory was flat beside laggards.
    #[must_use]
    pub fn memory_is_flat(&self) -> bool {
        self.beside.memory_growth().is_some_and(|growth| growth <= MOST_OF_MEMORY)
    }
}

/// Measures what clients that do not keep up do to the others, and what becomes of them.
///
/// # Errors
/// When the server cannot be started, refuses clients or events, takes more than twice the time, or does not end.
pub fn laggards(server: Server, pace: &Pace, conditions: &Conditions) -> Result<Beside> {
    let mut stage = Stage::prepare(server, pace.clients, conditions)?;
    stage.warm_up(pace.batch_events, conditions.event_bytes)?;
    let alone = observe(&mut stage, pace, conditions, &mut [])?;
    let before = Counters::of(stage.process.address())?;
    let target = server.target(stage.process.address(), conditions.connects_per_second);
    let now = Instant::now();
    let mut crowd: Vec<Laggard> =
        Kind::of(server.transport).iter().map(|kind| Laggard::new(*kind, target.clone(), now)).collect();
    let beside = observe(&mut stage, pace, conditions, &mut crowd)?;
    crowd.iter_mut().for_each(|laggard| laggard.leave(Instant::now()));
    while !crowd.iter().all(Laggard::is_gone) {
        stage.swarm.idle(TURN)?;
        crowd.iter_mut().try_for_each(|laggard| laggard.look(Instant::now()))?;
    }
    let counted = Counters::of(stage.process.address())?.since(&before);
    stage.end()?;
    let fates = crowd.iter().map(|laggard| laggard.fate().clone()).collect();
    Ok(Beside { alone, beside, fates, counted })
}

fn observe(
    stage: &mut Stage,
    pace: &Pace,
    conditions: &Conditions,
    crowd: &mut [Laggard],
) -> Result<Observed> {
    let duration = conditions.laggards_duration;
    let batches = pace.batches_in(duration);
    let plan = stage.plan(batches, pace.batch_events, pace.interval(), conditions.event_bytes);
    let interval = MEMORY_INTERVAL.min(duration / MEMORY_LOOKS);
    let started = Instant::now();
    let mut next_look = started + interval;
    let mut resident_kib = Vec::new();
    let tally = stage.run_watched(&plan, |process| {
        let now = Instant::now();
        ensure!(now - started < 2 * duration + GRACE, "the pace cannot be held, by far");
        if now >= next_look {
            resident_kib.push(process.memory()?.resident_kib);
            next_look += interval;
        }
        crowd.iter_mut().try_for_each(|laggard| laggard.look(now))
    })?;
    let events = plan.batches * plan.batch_events;
    Ok(Observed {
        p50_millis: millis(&tally, 500),
        p99_millis: millis(&tally, 990),
        events_per_second: events as f64 / started.elapsed().as_secs_f64(),
        lost: (pace.clients as u64 * events).saturating_sub(tally.delivered),
        duplicates: tally.duplicates,
        out_of_order: tally.out_of_order,
        resident_kib,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::laggard::Ending;

    pub(crate) fn observed(p50_millis: f64, p99_millis: f64, resident_kib: &[u64]) -> Observed {
        Observed {
            p50_millis,
            p99_millis,
            events_per_second: 1000.0,
            lost: 0,
            duplicates: 0,
            out_of_order: 0,
            resident_kib: resident_kib.to_vec(),
        }
    }

    pub(crate) fn beside() -> Beside {
        let fate = |kind, endings: &[(Ending, u64)]| Fate {
            kind,
            endings: endings.iter().copied().collect(),
            events: 7,
            told_left_out: 5,
        };
        Beside {
            alone: observed(10.0, 20.0, &[1024, 1024]),
            beside: observed(10.5, 22.0, &[2048, 2150, 2100]),
            fates: vec![
                fate(Kind::Slow, &[(Ending::Cut, 2), (Ending::Open, 1)]),
                fate(Kind::WithoutAcknowledgement, &[(Ending::Code(4001), 9)]),
            ],
            counted: Counters {
                closed: BTreeMap::from([("outbox_full".to_owned(), 11)]),
                coalesced: 3,
                dropped: 4,
            },
        }
    }

    #[test]
    fn a_tenth_more_latency_is_allowed_and_no_more() {
        let mut result = beside();
        assert!((result.latency_ratios()[0] - 1.05).abs() < 1e-9);
        assert!(result.others_are_unaffected());
        result.beside.p99_millis = 22.3;
        assert!(!result.others_are_unaffected());
        result.beside.p99_millis = 20.0;
        result.beside.p50_millis = 11.2;
        assert!(!result.others_are_unaffected());
    }

    #[test]
    fn one_event_that_is_lost_or_misplaced_affects_the_others() {
        let spoils: [fn(&mut Observed); 3] =
            [|one| one.lost = 1, |one| one.duplicates = 1, |one| one.out_of_order = 1];
        for spoil in spoils {
            let mut result = beside();
            spoil(&mut result.beside);
            assert!(!result.others_are_unaffected());
        }
    }

    #[test]
    fn memory_is_flat_when_it_grows_by_a_tenth_at_most_and_was_looked_at() {
        let mut result = beside();
        for (resident_kib, is_flat) in [
            (vec![100, 90, 110], true),
            (vec![100, 111, 100], false),
            (vec![100], true),
            (vec![], false),
            (vec![0], false),
        ] {
            result.beside.resident_kib = resident_kib;
            assert_eq!(result.memory_is_flat(), is_flat, "{:?}", result.beside.resident_kib);
        }
    }
}
