//! The actor: it gathers, appends, answers and hands over.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use actix::dev::{MessageResponse, OneshotSender};
use actix::fut::ActorFuture;
use actix::{Actor, AsyncContext, Context, Handler, Message};
use freshet_feed::port::{Announce, Bounds, EventLog, Logged, Outcome, StoreError};
use freshet_feed::{Event, Position};
use freshet_kernel::{Backoff, Child, ChildSpec, Link, Restart, task};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::Config;
use crate::gather::{Answer, Gathered, Shares};
use crate::live::Live;

/// How many publishers may wait in the mailbox.
const MAILBOX: usize = 1024;
/// How long to wait before the log's bounds are read again after a failure.
const BOUNDS_RETRY: Duration = Duration::from_millis(500);

/// How long a call to the log may take before it counts as an outage.
const SLOW_AFTER: Duration = Duration::from_secs(10);

/// Publishes events in their order; the answers stand in the order of the events.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<Outcome>, StoreError>")]
pub struct Publish(pub Vec<Event>);

/// Appends events to the log, one append at a time, and hands them to the worker threads in the order of their
/// offsets.
pub struct Broadcaster {
    config: Config,
    log: Arc<dyn EventLog>,
    live: Arc<Live>,
    link: Link<Self>,
    gathered: Gathered,
    work: Option<Work>,
    /// Whether the log may hold events that were never announced: at the start, and after a failed append, since
    /// nobody knows how far it came.
    must_read_bounds: bool,
    accepted: Vec<Logged>,
    delivered_at: Option<Instant>,
    delivery_is_planned: bool,
    retry_is_planned: bool,
    is_degraded: bool,
    /// Whether somebody else announces what is appended.
    is_followed: bool,
}

/// The log's bounds, and whether it takes appends.
type Probed = Result<(Bounds, Result<(), StoreError>), StoreError>;

/// The one call to the log that is in flight.
enum Work {
    /// Appends nothing, and then reads the bounds. The log takes appends in their order, so a former one that is
    /// still on its way, since its Broadcaster was lost, is over by then and within the bounds.
    Bounds(BoxFuture<'static, Probed>),
    Append {
        call: BoxFuture<'static, Result<Vec<Outcome>, StoreError>>,
        events: Vec<Event>,
        shares: Shares,
    },
}

impl Broadcaster {
    /// A child specification: permanent, and no backoff, since sources wait for it.
    #[must_use]
    pub fn spec(config: Config, log: Arc<dyn EventLog>, live: Arc<Live>) -> ChildSpec<Self> {
        Self::specification(config, log, live, false)
    }

    /// The same for a log to which others append too. What this Broadcaster appends is announced by whoever follows the
    /// log, together with what the others append: two that announce could not keep one order.
    #[must_use]
    pub fn spec_followed(config: Config, log: Arc<dyn EventLog>, live: Arc<Live>) -> ChildSpec<Self> {
        Self::specification(config, log, live, true)
    }

    fn specification(
        config: Config,
        log: Arc<dyn EventLog>,
        live: Arc<Live>,
        is_followed: bool,
    ) -> ChildSpec<Self> {
        let factory = move |link| Self {
            is_followed,
            ..Self::new(config.clone(), Arc::clone(&log), Arc::clone(&live), link)
        };
        ChildSpec::new("broadcaster", "Broadcaster", factory)
            .restart(Restart::Permanent)
            .backoff(Backoff::NONE)
            .mailbox(MAILBOX)
    }

    fn new(config: Config, log: Arc<dyn EventLog>, live: Arc<Live>, link: Link<Self>) -> Self {
        Self {
            config,
            log,
            live,
            link,
            gathered: Gathered::default(),
            work: None,
            must_read_bounds: true,
            accepted: Vec::new(),
            delivered_at: None,
            delivery_is_planned: false,
            retry_is_planned: false,
            is_degraded: false,
            is_followed: false,
        }
    }

    /// Starts the next call to the log, unless one is in flight or there is none to make.
    fn start_work(&mut self) {
        if self.work.is_some() {
            return;
        }
        let log = Arc::clone(&self.log);
        if self.must_read_bounds {
            let call = async move {
                let appended = log.append(Vec::new()).await;
                Ok((log.bounds().await?, appended.map(drop)))
            };
            self.work = Some(Work::Bounds(Box::pin(watched(self.link.clone(), call))));
        } else if !self.gathered.is_empty() {
            let (events, shares) = std::mem::take(&mut self.gathered).into_parts();
            let appended = events.clone();
            self.live.counters().appends.fetch_add(1, Relaxed);
            let call = async move { log.append(appended).await };
            let call = Box::pin(watched(self.link.clone(), call));
            self.work = Some(Work::Append { call, events, shares });
        }
    }

    /// Polls the call in flight; when it ends, deals with its answer. Ready when none is in flight.
    fn poll_work(&mut self, ctx: &mut Context<Self>, task: &mut TaskContext<'_>) -> Poll<()> {
        match self.work.take() {
            None => Poll::Ready(()),
            Some(Work::Bounds(mut call)) => match call.as_mut().poll(task) {
                Poll::Pending => {
                    self.work = Some(Work::Bounds(call));
                    Poll::Pending
                }
                Poll::Ready(answer) => {
                    self.bounds_read(answer, ctx);
                    Poll::Ready(())
                }
            },
            Some(Work::Append { mut call, events, shares }) => match call.as_mut().poll(task) {
                Poll::Pending => {
                    self.work = Some(Work::Append { call, events, shares });
                    Poll::Pending
                }
                Poll::Ready(answer) => {
                    self.appended(answer, events, shares, ctx);
                    Poll::Ready(())
                }
            },
        }
    }

    fn bounds_read(&mut self, answer: Probed, ctx: &mut Context<Self>) {
        // Whatever became of the append: what can be read is announced.
        let appended = answer.and_then(|(Bounds { epoch, last, .. }, appended)| {
            if !self.is_followed {
                self.deliver();
                self.live.stands_at(Position { epoch, offset: last });
            }
            appended
        });
        match appended {
            Ok(()) => {
                self.must_read_bounds = false;
                self.heal();
                self.start_work();
            }
            Err(error) => {
                self.degrade(&error);
                let (_, shares) = std::mem::take(&mut self.gathered).into_parts();
                shares.refuse(&error);
                if !self.retry_is_planned {
                    self.retry_is_planned = true;
                    ctx.run_later(BOUNDS_RETRY, |broadcaster, ctx| {
                        broadcaster.retry_is_planned = false;
                        broadcaster.work_on(ctx);
                    });
                }
            }
        }
    }

    fn appended(
        &mut self,
        answer: Result<Vec<Outcome>, StoreError>,
        events: Vec<Event>,
        shares: Shares,
        ctx: &mut Context<Self>,
    ) {
        match answer {
            Ok(outcomes) => {
                self.heal();
                let counters = self.live.counters();
                let appended_at = Timestamp::now();
                for (event, outcome) in events.into_iter().zip(&outcomes) {
                    match outcome {
                        Outcome::Accepted { position } => {
                            counters.published.fetch_add(1, Relaxed);
                            if !self.is_followed {
                                self.accepted.push(Logged { offset: position.offset, appended_at, event });
                            }
                        }
                        Outcome::Duplicate => {
                            counters.duplicates.fetch_add(1, Relaxed);
                        }
                    }
                }
                shares.answer(outcomes);
                self.plan_delivery(ctx);
            }
            Err(error) => {
                self.live.counters().append_failures.fetch_add(1, Relaxed);
                self.link.count_failure();
                self.must_read_bounds = true;
                self.degrade(&error);
                shares.refuse(&error);
            }
        }
        self.start_work();
    }

    /// Delivers at once, or with the next tick when the last delivery is younger than a tick.
    fn plan_delivery(&mut self, ctx: &mut Context<Self>) {
        if self.accepted.is_empty() || self.delivery_is_planned {
            return;
        }
        let tick = Duration::from_millis(self.config.tick_millis);
        let wait = self.delivered_at.map_or(Duration::ZERO, |at| tick.saturating_sub(at.elapsed()));
        if wait.is_zero() {
            self.deliver();
        } else {
            self.delivery_is_planned = true;
            ctx.run_later(wait, |broadcaster, _| {
                broadcaster.delivery_is_planned = false;
                broadcaster.deliver();
            });
        }
    }

    fn deliver(&mut self) {
        let Some(epoch) = self.live.position().map(|position| position.epoch) else { return };
        self.live.announce(epoch, std::mem::take(&mut self.accepted));
        self.delivered_at = Some(Instant::now());
    }

    fn work_on(&mut self, ctx: &mut Context<Self>) {
        self.start_work();
        ctx.spawn(AllWork);
    }

    fn degrade(&mut self, error: &StoreError) {
        self.link.degraded(error.code(), error.to_string());
        if !self.is_degraded {
            self.is_degraded = true;
            tracing::warn!(code = error.code(), %error, "event log cannot be used, sources wait");
        }
    }

    fn heal(&mut self) {
        if self.is_degraded {
            self.is_degraded = false;
            self.link.healthy();
            tracing::info!("event log can be used again");
        }
    }
}

/// Makes a call to the log, and shows it as an outage while it takes too long. Nothing is given up by that: a call
/// that was begun may still make events durable.
async fn watched<T>(link: Link<Broadcaster>, call: impl Future<Output = T>) -> T {
    // However long the log takes, the Broadcaster is not stuck: it waits.
    let _busy = link.busy();
    let mut call = pin!(call);
    if let Ok(answer) = tokio::time::timeout(SLOW_AFTER, call.as_mut()).await {
        return answer;
    }
    link.degraded("store_slow", format!("the event log has not answered for {} s", SLOW_AFTER.as_secs()));
    tracing::warn!(code = "store_slow", "event log does not answer, sources wait");
    let answer = call.await;
    // When the answer is an error, that is the next outage.
    link.healthy();
    tracing::info!("event log answers again");
    answer
}

/// Ends when the call in flight has ended: what the mailbox waits for when as much is gathered as may be.
struct OneCall;

impl ActorFuture<Broadcaster> for OneCall {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        broadcaster: &mut Broadcaster,
        ctx: &mut Context<Broadcaster>,
        task: &mut TaskContext<'_>,
    ) -> Poll<()> {
        broadcaster.poll_work(ctx, task)
    }
}

/// Ends when no call is left to make.
struct AllWork;

impl ActorFuture<Broadcaster> for AllWork {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        broadcaster: &mut Broadcaster,
        ctx: &mut Context<Broadcaster>,
        task: &mut TaskContext<'_>,
    ) -> Poll<()> {
        while broadcaster.work.is_some() {
            ready!(broadcaster.poll_work(ctx, task));
        }
        Poll::Ready(())
    }
}

impl Actor for Broadcaster {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.work_on(ctx);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        // What is durable and not yet handed over goes out with the last delivery.
        self.deliver();
    }
}

impl Child for Broadcaster {
    fn observe(&self) -> serde_json::Value {
        json!({
            "position": self.live.position().map(|position| position.to_string()),
            "appending": self.work.is_some(),
            "gathered_events": self.gathered.len(),
        })
    }
}

impl Handler<Publish> for Broadcaster {
    type Result = Answered;

    fn handle(&mut self, Publish(events): Publish, ctx: &mut Context<Self>) -> Self::Result {
        let (answer, answered) = oneshot::channel();
        self.gathered.add(events, answer);
        if self.work.is_none() {
            self.work_on(ctx);
        } else if self.gathered.is_full(self.config.gather_max_events, self.config.gather_max_bytes) {
            ctx.wait(OneCall);
        }
        Answered(answered)
    }
}

/// The answer to a [`Publish`], which comes with the end of its append. When the Broadcaster is lost before that,
/// none is given, and the kernel tells the sender whether the Broadcaster comes back.
pub struct Answered(oneshot::Receiver<Answer>);

impl MessageResponse<Broadcaster, Publish> for Answered {
    fn handle(self, _: &mut Context<Broadcaster>, sender: Option<OneshotSender<Answer>>) {
        let Some(sender) = sender else { return };
        let pass_on = async move {
            if let Ok(answer) = self.0.await {
                let _ = sender.send(answer);
            }
        };
        task::spawn("publish answer", pass_on).detach();
    }
}
