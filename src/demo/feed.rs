//! The actor that commits.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, WrapFuture};
use bytes::Bytes;
use freshet_feed::ingest::decode_request;
use freshet_feed::port::Publisher;
use freshet_feed::{Event, Intake};
use freshet_kernel::{Child, ChildSpec, ExitReason, Link};
use jiff::Timestamp;
use serde_json::json;

use super::{Commit, Scenario};
use crate::config::DemoConfig;

/// The class of the actor in the tree.
pub const CLASS: &str = "DemoFeed";

/// How long the feed waits before it offers a commit again that could not be stored.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Makes commits and publishes them through the same path as HTTP ingest.
pub struct DemoFeed {
    link: Link<Self>,
    publisher: Arc<dyn Publisher>,
    intake: Intake,
    interval: Duration,
    scenario: Scenario,
    random: fastrand::Rng,
    commits: u64,
    last_table: Option<&'static str>,
}

/// The child that commits for as long as the daemon runs.
pub fn child(config: &DemoConfig, intake: Intake, publisher: Arc<dyn Publisher>) -> ChildSpec<DemoFeed> {
    let interval = Duration::from_millis(config.interval_millis);
    ChildSpec::new("demo", CLASS, move |link| DemoFeed {
        link,
        publisher: Arc::clone(&publisher),
        intake: intake.clone(),
        interval,
        // Each start tells another story: a commit that was told before would be a duplicate.
        scenario: Scenario::new(fastrand::u64(..)),
        random: fastrand::Rng::new(),
        commits: 0,
        last_table: None,
    })
}

impl DemoFeed {
    fn commit(&mut self, context: &mut Context<Self>) {
        let made = self.scenario.next_commit(Timestamp::now()).map_err(|error| error.to_string());
        match made.and_then(|commit| Ok((decode(&commit, &self.intake)?, commit))) {
            Ok((events, commit)) => self.publish(events, commit, context),
            Err(reason) => self.link.exit(context, ExitReason::Error(reason)),
        }
    }

    fn publish(&mut self, events: Vec<Event>, commit: Commit, context: &mut Context<Self>) {
        let publisher = Arc::clone(&self.publisher);
        let again = events.clone();
        let published = async move { publisher.publish(events).await };
        context.spawn(published.into_actor(self).map(move |outcome, actor, context| match outcome {
            Ok(_) => {
                actor.link.healthy();
                actor.told(&commit);
                // Between half and one and a half of the interval: commits of a real lake keep no beat.
                let pause = actor.interval.mul_f64(0.5 + actor.random.f64());
                context.run_later(pause, Self::commit);
            }
            Err(error) => {
                actor.link.degraded(error.code(), error.to_string());
                context.run_later(RETRY_AFTER, move |actor, context| actor.publish(again, commit, context));
            }
        }));
    }

    fn told(&mut self, commit: &Commit) {
        self.commits += 1;
        self.last_table = Some(commit.table);
        tracing::info!(
            table = commit.table,
            operation = commit.operation,
            added_records = commit.added_records,
            schema_changed = commit.schema_changed,
            "demo commit"
        );
    }
}

fn decode(commit: &Commit, intake: &Intake) -> Result<Vec<Event>, String> {
    let body = Bytes::copy_from_slice(&commit.body);
    let decoded =
        decode_request(Some("application/json"), [], &body, intake).map_err(|error| error.to_string())?;
    decoded.into_iter().map(|event| event.map_err(|rejection| rejection.message.into_owned())).collect()
}

impl Actor for DemoFeed {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        self.commit(context);
    }
}

impl Child for DemoFeed {
    fn observe(&self) -> serde_json::Value {
        json!({ "commits": self.commits, "lastTable": self.last_table })
    }
}
