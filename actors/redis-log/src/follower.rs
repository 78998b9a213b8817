//! The actor that announces the events of all instances, in their order.
//!
//! It reads the stream on a connection of its own, blocking, from the event that it announced last. When anything fails it
//! is degraded, makes another connection, and before it goes on it makes sure that the log is still the one it knew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, WrapFuture};
use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use freshet_feed::port::Announce;
use freshet_kernel::{Backoff, Child, ChildSpec, Link};
use redis::{Cmd, Value};
use tokio::time::Instant;

use crate::connection::{array, count, no_answer, text};
use crate::decide::{Announcement, Append, Found, Known, Recent, Verdict, announcement, new_start};
use crate::entry::{self, Entry};
use crate::error::Failure;
use crate::log::{RedisEventLog, epoch, number};
use crate::{Config, scripts};

/// How long one read waits for events before the log is looked at again: so soon a log is missed that was wiped while its
/// server went on.
const BLOCK: Duration = Duration::from_secs(1);
/// How often events that are too old are looked for.
const TRIM_EVERY: Duration = Duration::from_secs(60);
/// How many events one removal takes at most: Redis serves nobody else meanwhile.
const TRIM_EVENTS: u64 = 10_000;
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

/// What outlives a restart of the actor, so that it goes on where it stood.
#[derive(Default)]
struct Progress {
    known: Option<Known>,
    recent: Recent,
    announced: u64,
    removed_unread: u64,
    outages: u64,
    epochs: u64,
    trimmed: u64,
}

/// What the actor's loop and its account share.
#[derive(Clone)]
struct Shared {
    log: RedisEventLog,
    announce: Arc<dyn Announce>,
    progress: Arc<Mutex<Progress>>,
    read_batch_events: usize,
    tick: Duration,
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows a [`RedisEventLog`] and announces its events. It takes no messages.
pub struct Follower {
    link: Link<Self>,
    shared: Shared,
}

impl Follower {
    /// A permanent child that announces to `announce` from the log's newest event on.
    #[must_use]
    pub fn specification(
        id: impl Into<String>,
        log: RedisEventLog,
        config: &Config,
        announce: Arc<dyn Announce>,
    ) -> ChildSpec<Self> {
        let shared = Shared {
            log,
            announce,
            progress: Arc::default(),
            read_batch_events: config.read_batch_events.max(1),
            tick: Duration::from_millis(config.tick_millis),
        };
        ChildSpec::new(id, "Follower", move |link| Self { link, shared: shared.clone() })
            .backoff(Backoff { min: RECONNECT_MIN, max: Duration::from_secs(30) })
            .shutdown_within(Duration::from_secs(5))
    }
}

impl Actor for Follower {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        // An announcement that a panic cut short is not made again: what it left out is read from the log.
        let known = self.shared.progress().known;
        if let Some(known) = known {
            self.shared.announce.stands_at(known.position);
        }
        let follow = follow(self.shared.clone(), self.link.clone());
        ctx.spawn(follow.into_actor(self));
    }
}

impl Child for Follower {
    fn observe(&self) -> serde_json::Value {
        let progress = self.shared.progress();
        serde_json::json!({
            "position": progress.known.as_ref().map(|known| known.position.to_string()),
            "announced": progress.announced,
            "removedUnread": progress.removed_unread,
            "outages": progress.outages,
            "epochs": progress.epochs,
            "trimmed": progress.trimmed,
        })
    }
}

/// Follows for ever. Each time something fails it waits, longer and longer, and begins with another connection.
async fn follow(shared: Shared, link: Link<Follower>) {
    let mut backoff = delays();
    let mut is_in_outage = false;
    loop {
        let mut was_of_use = false;
        let Err(failure) = follow_on_one_connection(&shared, || {
            if is_in_outage {
                tracing::info!("redis is available again");
            }
            was_of_use = true;
            is_in_outage = false;
            link.healthy();
        })
        .await;
        if was_of_use {
            backoff = delays();
        }
        if !is_in_outage {
            is_in_outage = true;
            shared.progress().outages += 1;
            tracing::warn!(class = failure.class, reason = %failure.reason, "redis is unavailable");
        }
        link.degraded(failure.class, failure.reason);
        tokio::time::sleep(backoff.next().unwrap_or(RECONNECT_MAX)).await;
    }
}

fn delays() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(RECONNECT_MIN)
        // Jitter adds up to the delay itself.
        .with_max_delay(RECONNECT_MAX / 2)
        .with_factor(2.0)
        .with_jitter()
        // Given here because without `std` the crate uses one seed for all.
        .with_jitter_seed(fastrand::u64(..))
        .without_max_times()
        .build()
}

/// Reads and announces until something fails.
async fn follow_on_one_connection(
    shared: &Shared,
    mut is_up: impl FnMut(),
) -> Result<std::convert::Infallible, Failure> {
    let patience = BLOCK + shared.log.server().call_timeout();
    let mut connection = shared.log.server().connect(patience).await?;
    let mut known = verify(shared).await?;
    is_up();
    let mut trimmed_at = None;
    loop {
        if trimmed_at.is_none_or(|when: Instant| when.elapsed() >= TRIM_EVERY) {
            let removed = shared.log.trim(TRIM_EVENTS).await?;
            shared.progress().trimmed += removed;
            if removed < TRIM_EVENTS {
                trimmed_at = Some(Instant::now());
            }
        }
        let command = read_command(&shared.log.stream(), known.position.offset, shared.read_batch_events);
        let answer = tokio::time::timeout(patience, connection.query(&command)).await;
        let entries = entries(answer.map_err(|_| no_answer(patience))??)?;
        if entries.is_empty() {
            known = verify(shared).await?;
            continue;
        }
        let Announcement { stands_at, events, is_other_epoch } = announcement(&mut known, entries);
        {
            let mut progress = shared.progress();
            progress.announced += events.len() as u64;
            if let (Some(before), Some(position)) = (&progress.known, stands_at) {
                let removed = position.offset.saturating_sub(before.position.offset);
                progress.removed_unread += removed;
                tracing::error!(
                    events = removed,
                    "events were removed from the log before they could be announced"
                );
            }
            progress.known = Some(known);
            events.iter().for_each(|logged| progress.recent.push(Append::of(logged)));
        }
        if let Some(position) = stands_at {
            shared.announce.stands_at(position);
        }
        if !events.is_empty() {
            shared.announce.announce(known.position.epoch, events);
        }
        if is_other_epoch {
            known = verify(shared).await?;
        } else if !shared.tick.is_zero() {
            tokio::time::sleep(shared.tick).await;
        }
    }
}

/// Makes sure that the log is the one that is known, and says so when it is not. Answers what is known from now on.
async fn verify(shared: &Shared) -> Result<Known, Failure> {
    let (known, append) = {
        let progress = shared.progress();
        let known = progress.known;
        (known, known.and_then(|known| progress.recent.at(known.position.offset).cloned()))
    };
    let found = ask(&shared.log, known, append).await?;
    let announced = match found.verdict {
        Verdict::Start | Verdict::Same => Vec::new(),
        Verdict::Other | Verdict::Lost => shared.progress().recent.between(found.oldest(), found.last),
    };
    let still_there = newest_of(&shared.log, &announced).await?;
    let Some(start) = new_start(&found, still_there) else {
        return known.ok_or_else(|| Failure::unexpected("a log that is not known is the same"));
    };
    match found.verdict {
        Verdict::Lost => tracing::error!(
            position = %start.position,
            "redis lost the newest events of the log; another epoch begins"
        ),
        Verdict::Other => {
            tracing::warn!(position = %start.position, "the log has another epoch");
        }
        Verdict::Start | Verdict::Same => {}
    }
    {
        let mut progress = shared.progress();
        progress.epochs += 1;
        progress.known = Some(start);
        progress.recent.cut_after(still_there.unwrap_or(0));
        if let Some(newest) = found.newest {
            progress.recent.push(newest);
        }
    }
    shared.announce.stands_at(start.position);
    Ok(start)
}

/// The newest of these appends that the log still has, by halving: when it has one, it has those before it too.
async fn newest_of(log: &RedisEventLog, announced: &[Append]) -> Result<Option<u64>, Failure> {
    let (mut there, mut gone) = (0, announced.len());
    while there < gone {
        let middle = there + (gone - there) / 2;
        let Some(append) = announced.get(middle) else { break };
        if log.has(append).await? {
            there = middle + 1;
        } else {
            gone = middle;
        }
    }
    Ok(there.checked_sub(1).and_then(|index| announced.get(index)).map(|append| append.offset))
}

async fn ask(log: &RedisEventLog, known: Option<Known>, append: Option<Append>) -> Result<Found, Failure> {
    let (epoch_known, offset) = match known {
        Some(known) => (known.position.epoch.to_string(), known.position.offset),
        None => (String::new(), 0),
    };
    let (event_id, appended_at) = match append {
        Some(append) => (append.event_id, append.appended_at.to_string()),
        None => (String::new(), String::new()),
    };
    let arguments = vec![epoch_known.into(), number(offset), event_id.into(), appended_at.into()];
    let answer = array(log.run(&scripts::VERIFY, Vec::new(), arguments).await?)?;
    let Ok([verdict, epoch_found, last, start, held, event_id, appended_at]) = <[Value; 7]>::try_from(answer)
    else {
        return Err(Failure::unexpected("no account of the log"));
    };
    let verdict = match text(verdict)?.as_str() {
        "start" => Verdict::Start,
        "same" => Verdict::Same,
        "other" => Verdict::Other,
        "lost" => Verdict::Lost,
        _ => return Err(Failure::unexpected("an unknown verdict")),
    };
    let (last, event_id) = (count(&last)?, text(event_id)?);
    let appended_at = text(appended_at)?.parse().ok();
    Ok(Found {
        verdict,
        epoch: epoch(Some(epoch_found))?,
        last,
        epoch_start: count(&start)?,
        held: count(&held)?,
        newest: appended_at.map(|appended_at| Append { offset: last, event_id, appended_at }),
    })
}

fn read_command(stream: &str, after: u64, most: usize) -> Cmd {
    let mut command = redis::cmd("XREAD");
    command.arg("COUNT").arg(most).arg("BLOCK").arg(u64::try_from(BLOCK.as_millis()).unwrap_or(u64::MAX));
    command.arg("STREAMS").arg(stream).arg(format!("{after}-0"));
    command
}

/// The entries of the one stream that was read.
fn entries(answer: Value) -> Result<Vec<Entry>, Failure> {
    let Some(stream) = array(answer)?.into_iter().next() else { return Ok(Vec::new()) };
    let Some(entries) = array(stream)?.into_iter().nth(1) else {
        return Err(Failure::unexpected("no stream"));
    };
    array(entries)?.into_iter().map(entry::decode).collect()
}
