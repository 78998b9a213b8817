//! The supervised actor around the file. It runs on a thread of its own, where SQLite may block.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix::{Actor, AsyncContext, Context, Handler, Message};
use freshet_feed::DeadLetter;
use freshet_feed::port::StoreError;
use freshet_kernel::{Backoff, Child, ChildSpec, Link, Placement};
use serde_json::json;

use crate::Config;
use crate::store::{Buried, CodeCount, Heading, Store, StoreFailure};

/// The code under which the tree and the readiness show an outage of the file.
pub const STORE_UNAVAILABLE: &str = "store_unavailable";

/// How often letters that are too old are looked for.
const AGE_CHECK: Duration = Duration::from_secs(60 * 60);

/// How many messages may wait; further senders wait for room.
const MAILBOX: usize = 256;

/// How long the letter in hand may take to reach the disk when the daemon stops.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);

/// Makes the letters durable, all or none. The answer comes when they are on the disk.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), StoreError>")]
pub struct Bury(pub Vec<DeadLetter>);

/// Asks for headings; see [`Store::list`].
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<Heading>, StoreError>")]
pub struct List {
    /// Only letters with a greater id.
    pub after: Option<i64>,
    /// At most this many.
    pub limit: usize,
}

/// Asks for one letter by its id.
#[derive(Debug, Message)]
#[rtype(result = "Result<Option<Buried>, StoreError>")]
pub struct Get(pub i64);

/// Asks how many letters there are for each code.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<CodeCount>, StoreError>")]
pub struct CountByCode;

/// The room as a child of a supervisor: permanent, on a thread of its own.
///
/// The file need not be usable: the child is up and degraded until it is.
#[must_use]
pub fn child(id: impl Into<String>, path: PathBuf, config: Config) -> ChildSpec<DeadLetterRoom> {
    ChildSpec::new(id, "DeadLetter", move |link| DeadLetterRoom::new(link, path.clone(), config.clone()))
        .mailbox(MAILBOX)
        .backoff(Backoff { min: Duration::from_millis(500), max: Duration::from_secs(10) })
        .shutdown_within(SHUTDOWN_WITHIN)
        .on(Placement::OwnThread)
}

/// Keeps the file and its state. Messages move; the work is done by [`Store`].
pub struct DeadLetterRoom {
    link: Link<Self>,
    path: PathBuf,
    config: Config,
    /// Closed after a failure that the connection may not have survived; the next use opens it again.
    store: Option<Store>,
    /// The class of the failure that keeps letters out, until a write succeeds.
    outage: Option<&'static str>,
    /// Since this run began: letters that were buried, and letters that made room or were too old.
    buried: u64,
    removed: u64,
}

impl DeadLetterRoom {
    fn new(link: Link<Self>, path: PathBuf, config: Config) -> Self {
        Self { link, path, config, store: None, outage: None, buried: 0, removed: 0 }
    }

    /// Does work on the open file; opens it first where it is closed.
    fn with_store<T>(
        &mut self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreFailure>,
    ) -> Result<T, StoreError> {
        let store = match self.store.take() {
            Some(store) => Ok(store),
            None => Store::open(&self.path, self.config.clone()),
        };
        let failure = match store {
            Err(failure) => failure,
            Ok(mut store) => match work(&mut store) {
                Ok(done) => {
                    self.store = Some(store);
                    return Ok(done);
                }
                Err(failure) => {
                    self.store = failure.spares_connection().then_some(store);
                    failure
                }
            },
        };
        self.link.count_failure();
        Err(self.failed(&failure))
    }

    fn failed(&mut self, failure: &StoreFailure) -> StoreError {
        let reason = format!("{}: {failure}", self.path.display());
        if self.outage != Some(failure.class()) {
            tracing::warn!(class = failure.class(), reason, "dead letters cannot be kept now");
        }
        self.outage = Some(failure.class());
        self.link.degraded(STORE_UNAVAILABLE, reason.clone());
        StoreError::Unavailable(reason)
    }

    /// A write went through. Reads do not count: a full disk can be read.
    fn wrote(&mut self) {
        if self.outage.take().is_some() {
            tracing::info!("dead letters can be kept again");
            self.link.healthy();
        }
    }

    fn note_removed(&mut self, letters: u64) {
        if letters > 0 && self.removed == 0 {
            tracing::warn!(letters, "oldest dead letters are being removed, the limits are reached");
        }
        self.removed += letters;
    }

    fn probe(&mut self) {
        // The failure was noted on the way; the next turn of the timer tries again.
        if self.with_store(Store::probe).is_ok() {
            self.wrote();
        }
    }

    fn remove_old(&mut self) {
        if let Ok(letters) = self.with_store(|store| store.remove_old(now_millis())) {
            self.note_removed(letters);
        }
    }
}

fn now_millis() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

impl Actor for DeadLetterRoom {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.remove_old();
        ctx.run_interval(AGE_CHECK, |room, _| room.remove_old());
        ctx.run_interval(Duration::from_secs(self.config.retry_secs), |room, _| {
            if room.outage.is_some() {
                room.probe();
            }
        });
    }
}

impl Child for DeadLetterRoom {
    fn observe(&self) -> serde_json::Value {
        let totals = self.store.as_ref().map(Store::totals);
        json!({
            "letters": totals.map(|totals| totals.letters),
            "bytes": totals.map(|totals| totals.bytes),
            "buried": self.buried,
            "removed": self.removed,
            "outage": self.outage,
        })
    }
}

impl Handler<Bury> for DeadLetterRoom {
    type Result = Result<(), StoreError>;

    fn handle(&mut self, Bury(letters): Bury, _: &mut Self::Context) -> Self::Result {
        let removed = self.with_store(|store| store.bury(&letters, now_millis()))?;
        if !letters.is_empty() {
            self.wrote();
        }
        self.buried += letters.len() as u64;
        self.note_removed(removed);
        Ok(())
    }
}

impl Handler<List> for DeadLetterRoom {
    type Result = Result<Vec<Heading>, StoreError>;

    fn handle(&mut self, List { after, limit }: List, _: &mut Self::Context) -> Self::Result {
        self.with_store(|store| store.list(after, limit))
    }
}

impl Handler<Get> for DeadLetterRoom {
    type Result = Result<Option<Buried>, StoreError>;

    fn handle(&mut self, Get(id): Get, _: &mut Self::Context) -> Self::Result {
        self.with_store(|store| store.get(id))
    }
}

impl Handler<CountByCode> for DeadLetterRoom {
    type Result = Result<Vec<CodeCount>, StoreError>;

    fn handle(&mut self, _: CountByCode, _: &mut Self::Context) -> Self::Result {
        self.with_store(|store| store.count_by_code())
    }
}

/// Makes the disk full, and roomy again.
#[cfg(test)]
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Squeeze(pub Option<u32>);

#[cfg(test)]
impl Handler<Squeeze> for DeadLetterRoom {
    type Result = ();

    fn handle(&mut self, Squeeze(pages): Squeeze, _: &mut Self::Context) {
        self.store.as_ref().expect("the file is open").squeeze(pages);
    }
}

#[cfg(test)]
mod tests;
