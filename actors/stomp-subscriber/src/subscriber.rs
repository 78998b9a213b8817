//! The actor: it connects, keeps connecting, and stops in order.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext as _, ActorFutureExt as _, AsyncContext as _, Context, Running, WrapFuture as _,
};
use freshet_kernel::{Child, Link};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::{Config, split_broker};
use crate::connection::{self, Ending, stop_wanted};
use crate::failure::Failure;
use crate::retry::{Backoff, Rotation};
use crate::socket::{self, Socket};
use crate::state::{Health, Monitor};

pub use crate::acknowledge::Decode;
pub use crate::connection::Ports;

/// One subscription. It takes no messages: it lives by its socket, and is seen through its state.
///
/// When its supervisor stops it, it takes no more messages, stores and acknowledges the batch in hand, and says
/// goodbye to the broker; then it ends. Give it some seconds for that (`shutdown_within`).
pub struct StompSubscriber {
    config: Arc<Config>,
    ports: Ports,
    monitor: Monitor,
    stop: watch::Sender<bool>,
    finished: bool,
}

impl StompSubscriber {
    /// Builds it, for the factory of its child specification.
    #[must_use]
    pub fn new(config: Arc<Config>, ports: Ports, link: Link<Self>) -> Self {
        let monitor = Monitor::new(&config.name, Rc::new(link));
        Self { config, ports, monitor, stop: watch::Sender::new(false), finished: false }
    }
}

impl Health for Link<StompSubscriber> {
    fn degraded(&self, code: &'static str, reason: String) {
        Link::degraded(self, code, reason);
    }

    fn healthy(&self) {
        Link::healthy(self);
    }
}

impl Actor for StompSubscriber {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let serving =
            serve(Arc::clone(&self.config), self.ports.clone(), self.monitor.clone(), self.stop.subscribe());
        ctx.spawn(serving.into_actor(self).map(|(), actor, ctx| {
            actor.finished = true;
            ctx.stop();
        }));
    }

    fn stopping(&mut self, _: &mut Self::Context) -> Running {
        if self.finished {
            return Running::Stop;
        }
        self.stop.send_replace(true);
        Running::Continue
    }
}

impl Child for StompSubscriber {
    fn observe(&self) -> serde_json::Value {
        serde_json::to_value(self.monitor.state()).unwrap_or_default()
    }
}

/// Connects again and again, until `stop` becomes true.
///
/// Cancel safety: when the future is dropped the messages in hand are not acknowledged, and come again.
pub async fn serve(config: Arc<Config>, ports: Ports, monitor: Monitor, stop: watch::Receiver<bool>) {
    let dial = async |broker: &str| socket::open(broker, &config).await;
    serve_through(dial, &config, &ports, &monitor, stop).await;
}

/// As [`serve`], with sockets that come from `dial`, which is given `host:port`.
pub async fn serve_through(
    dial: impl AsyncFn(&str) -> Result<Box<dyn Socket>, Failure>,
    config: &Config,
    ports: &Ports,
    monitor: &Monitor,
    mut stop: watch::Receiver<bool>,
) {
    let min = Duration::from_millis(config.backoff_min_millis);
    let max = Duration::from_millis(config.backoff_max_millis);
    let mut rotation = Rotation::new(config.brokers.len(), Backoff::new(min, max, fastrand::u64(..)));
    while !*stop.borrow() {
        let broker = config.brokers.get(rotation.current()).map_or("", String::as_str);
        let host = split_broker(broker).map_or("", |(host, _)| host);
        monitor.connecting(broker);
        let begun = Instant::now();
        let acknowledged_before = monitor.state().acknowledged;
        let opening = tokio::select! {
            opening = dial(broker) => opening,
            () = stop_wanted(&mut stop) => return,
        };
        let (failure, subscribed) = match opening {
            Ok(socket) => {
                let session = connection::run(socket, host, config, ports, monitor, &mut stop);
                match Box::pin(session).await {
                    Ending::Stopped => return,
                    Ending::Failed { failure, subscribed } => (failure, subscribed),
                }
            }
            Err(failure) => (failure, false),
        };
        // A session that ends as soon as it is there must not be opened anew twice a second for ever.
        let of_use =
            subscribed && (monitor.state().acknowledged > acknowledged_before || begun.elapsed() >= max);
        let delay = if of_use { rotation.broke() } else { rotation.failed() };
        monitor.failed(&failure, delay);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = stop_wanted(&mut stop) => return,
        }
    }
}
