//! The actor that writes. It owns the write connection, on a thread of its own, so a wait for the disk holds up
//! nobody else; senders wait in its mailbox.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, AsyncContext, Context, Handler, Message};
use freshet_feed::port::{Logged, Outcome, StoreError};
use freshet_feed::{Epoch, Event};
use freshet_kernel::{Child, Link};
use jiff::Timestamp;

use crate::statistics::Counters;
use crate::store::{self, Store};
use crate::{Config, Retention, error};

/// The code of the writer's outage in the actor tree.
const OUTAGE: &str = "store_unavailable";
/// How long the writer serves its mailbox between two steps of maintenance when there is more to remove.
const BETWEEN_STEPS: Duration = Duration::from_millis(20);

/// Appends these events in one transaction. The answer comes when they are durable; an error means that none is.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<Outcome>, StoreError>")]
pub struct Append(pub Vec<Event>);

/// Takes over these events of another log in one transaction. The answer comes when they are durable, and says how many
/// were not known yet; an error means that none was taken.
#[derive(Debug, Message)]
#[rtype(result = "Result<usize, StoreError>")]
pub struct Project {
    /// The life of the other log.
    pub epoch: Epoch,
    /// Its events; their offsets rise.
    pub events: Vec<Logged>,
}

/// The writer of the log: one for each file. A failure is an outage: it stays alive, says so in the tree, and
/// tries again with each append and each maintenance.
pub struct Writer {
    link: Link<Self>,
    file: PathBuf,
    config: Arc<Config>,
    retention: Arc<Retention>,
    counters: Arc<Counters>,
    /// `None` before the first use, and after an error that spoils the connection.
    store: Option<Store>,
    in_outage: bool,
}

impl Writer {
    pub(crate) fn new(
        link: Link<Self>,
        file: PathBuf,
        config: Arc<Config>,
        retention: Arc<Retention>,
        counters: Arc<Counters>,
    ) -> Self {
        Self { link, file, config, retention, counters, store: None, in_outage: false }
    }

    /// Does `work` with the store, and keeps the tree informed of how it went.
    fn with_store<T>(
        &mut self,
        work: impl FnOnce(&mut Store) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let opened = match self.store.take() {
            Some(store) => Ok(store),
            None => Store::open(&self.file, &self.config, &self.retention),
        };
        let answer = opened.and_then(|mut store| {
            let answer = work(&mut store);
            if answer.as_ref().err().is_none_or(store::keeps_connection) {
                self.counters.holds(&store.log());
                self.store = Some(store);
            }
            answer
        });
        match answer {
            Ok(answer) => {
                if self.in_outage {
                    self.in_outage = false;
                    self.link.healthy();
                    tracing::info!("event log is available again");
                }
                Ok(answer)
            }
            Err(error) => {
                let error = error::unavailable(&error);
                if !self.in_outage {
                    self.in_outage = true;
                    tracing::warn!(error = %error, "event log is unavailable");
                }
                self.link.degraded(OUTAGE, error.to_string());
                Err(error)
            }
        }
    }

    /// One step of maintenance, and the next one later. In an outage it also finds out whether that is over.
    fn maintain(&mut self, ctx: &mut Context<Self>) {
        let in_outage = self.in_outage;
        let more = self.with_store(|store| {
            let more = store.maintain(Timestamp::now())?;
            if in_outage {
                store.probe()?;
            }
            Ok(more)
        });
        let pause =
            if more == Ok(true) { BETWEEN_STEPS } else { Duration::from_secs(self.config.maintenance_secs) };
        ctx.run_later(pause, Self::maintain);
    }
}

impl Actor for Writer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.maintain(ctx);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        // After a panic the file counts as not closed in order.
        if std::thread::panicking() {
            return;
        }
        if let Some(store) = self.store.take()
            && let Err(error) = store.close()
        {
            tracing::warn!(error = %error, "event log could not be closed in order");
        }
    }
}

impl Child for Writer {
    fn observe(&self) -> serde_json::Value {
        serde_json::to_value(self.counters.read(&self.file)).unwrap_or_default()
    }
}

impl Handler<Append> for Writer {
    type Result = Result<Vec<Outcome>, StoreError>;

    fn handle(&mut self, Append(events): Append, _: &mut Context<Self>) -> Self::Result {
        let start = Instant::now();
        let answer = self.with_store(|store| store.append(&events, Timestamp::now()));
        match &answer {
            Ok(outcomes) => self.counters.appended(outcomes, start.elapsed()),
            Err(_) => {
                self.counters.append_failed();
                self.link.count_failure();
            }
        }
        answer
    }
}

impl Handler<Project> for Writer {
    type Result = Result<usize, StoreError>;

    fn handle(&mut self, Project { epoch, events }: Project, _: &mut Context<Self>) -> Self::Result {
        let start = Instant::now();
        let answer = self.with_store(|store| store.project(epoch, &events, Timestamp::now()));
        match &answer {
            Ok(added) => self.counters.projected(*added, start.elapsed()),
            Err(_) => {
                self.counters.append_failed();
                self.link.count_failure();
            }
        }
        answer
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
