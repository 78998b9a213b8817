//! A daemon in this process: the real Broadcaster, sessions and HTTP server over a log in memory.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use actix_web::dev::{ServerHandle, Service as _, ServiceRequest};
use actix_web::{App, HttpMessage, web};
use freshet_broadcaster::{Backlog, Broadcaster, BroadcasterHandle, Live};
use freshet_feed::port::{Outcome, Publisher};
use freshet_feed::{Channels, Event, Principal};
use freshet_kernel::{Nursery, SupervisorSpec, Tree, task};
use freshet_session::server::Options;
use freshet_session::{Config, Sessions, events, serve, websocket};

use crate::memory_log::{MemoryLog, event};

pub struct Daemon {
    pub log: Arc<MemoryLog>,
    pub live: Arc<Live>,
    pub publisher: BroadcasterHandle,
    pub sessions: Sessions,
    pub nursery: Nursery,
    pub address: SocketAddr,
    pub server: ServerHandle,
    /// Kept, since the tree ends with it.
    pub tree: Tree,
}

impl Daemon {
    pub async fn start(config: Config) -> Self {
        Self::start_with(config, Channels::new(&[])).await
    }

    pub async fn start_with(config: Config, channels: Channels) -> Self {
        let broadcaster_config = freshet_broadcaster::Config::default();
        Self::start_in(MemoryLog::new(), config, channels, broadcaster_config).await
    }

    pub async fn start_on(
        log: Arc<MemoryLog>,
        config: Config,
        broadcaster_config: freshet_broadcaster::Config,
    ) -> Self {
        Self::start_in(log, config, Channels::new(&[]), broadcaster_config).await
    }

    pub async fn start_in(
        log: Arc<MemoryLog>,
        config: Config,
        channels: Channels,
        broadcaster_config: freshet_broadcaster::Config,
    ) -> Self {
        let live = Live::new(&broadcaster_config);
        let spec = Broadcaster::spec(broadcaster_config.clone(), log.clone(), Arc::clone(&live));
        let publisher = BroadcasterHandle::new(spec.address());
        let tree = freshet_kernel::start(SupervisorSpec::new("root").child(spec));
        let backlog = Arc::new(Backlog::new(&broadcaster_config, Arc::clone(&live), log.clone()));
        let nursery = Nursery::new("session", config.max_sessions);
        let sessions = Sessions::new(config.clone(), channels, Arc::clone(&live), backlog, nursery.clone());
        live.watch().wait_for(Option::is_some).await.unwrap();

        let shared = web::Data::new(sessions.clone());
        let application = move || {
            App::new()
                .app_data(shared.clone())
                .wrap_fn(|request, next| {
                    request.extensions_mut().insert(principal_of(&request));
                    next.call(request)
                })
                .service(web::resource("/events").route(web::to(events)))
                .service(web::resource("/ws").route(web::get().to(websocket)))
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let options = Options {
            workers: Some(2),
            max_connections_per_worker: 25_000,
            keep_alive: Duration::from_secs(5),
            request_head_timeout: Duration::from_secs(5),
            shutdown_timeout: Duration::from_secs(1),
        };
        let server = serve(listener, &options, &config, application).unwrap();
        let handle = server.handle();
        task::spawn("test server", server).detach();
        Self { log, live, publisher, sessions, nursery, address, server: handle, tree }
    }

    pub async fn publish(&self, numbers: impl IntoIterator<Item = u64>) {
        self.publish_events(numbers.into_iter().map(event).collect()).await;
    }

    /// Publishes new events, and waits until they are announced: who comes now begins after them.
    pub async fn publish_events(&self, events: Vec<Event>) {
        let newest = self.publish_without_waiting(events).await;
        self.until(|daemon| daemon.live.position().is_some_and(|position| position.offset >= newest)).await;
    }

    /// The same as fast as it goes, for many publications in a row. Returns the offset of the last one.
    pub async fn publish_without_waiting(&self, events: Vec<Event>) -> u64 {
        let outcomes = self.publisher.publish(events).await.unwrap();
        let offsets = outcomes.into_iter().map(|outcome| match outcome {
            Outcome::Accepted { position } => position.offset,
            Outcome::Duplicate => panic!("an event of the test is not new"),
        });
        offsets.max().unwrap()
    }

    /// The numbers that rise or fall with sessions, for conditions.
    pub fn open_sessions(&self) -> usize {
        self.sessions.counters().sessions.load(Relaxed)
    }

    /// Waits for a condition that other threads bring about.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        crate::sse::within(async {
            while !condition(self) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// Who asks may do everything, unless it says whose tenant it is, or that it is nobody's.
fn principal_of(request: &ServiceRequest) -> Principal {
    let everything = Principal::everything();
    match request.headers().get("X-Tenant") {
        Some(tenant) => {
            let tenant = tenant.to_str().ok().filter(|tenant| !tenant.is_empty()).map(Into::into);
            Principal { subject: Some("ada".into()), tenant, is_administrator: false, ..everything }
        }
        None => everything,
    }
}

pub fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("e{number}")).collect()
}
