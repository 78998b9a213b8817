//! Building the supervision tree: which actor stands where, and what happens when one fails.
//!
//! Children start in the order in which they stand here and stop in the reverse one: what takes work in stops before
//! what stores it.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_broadcaster::{Backlog, Broadcaster, BroadcasterHandle, Live};
use freshet_dead_letter::{self as dead_letter, DeadLetters};
use freshet_event_log::{DirectoryLock, Retention};
use freshet_feed::cloud_events::Binding;
use freshet_feed::ingest::decode_message;
use freshet_feed::port::{DeadLetterStore, EventLog, Publisher};
use freshet_feed::{Channel, Channels, Intake, RejectionCode};
use freshet_identity::config::Mode;
use freshet_identity::{Authenticator, IdentityError, MemoryTicketStore, TicketStore};
use freshet_kernel::{Backoff, ChildSpec, Nursery, SupervisorSpec};
use freshet_session::Sessions;
use freshet_stomp_subscriber::acknowledge::Refusal;
use freshet_stomp_subscriber::{Ports, StompSubscriber};

use crate::config::Configuration;
use crate::counted::{BuriedCounts, CountedDeadLetters};
use crate::demo;
use crate::http::{Gate, IngestCounters, Services, TokenRenewer, listener};
use crate::lifecycle::Lifecycle;
use crate::run::Feed;
use crate::shared_log::SharedLog;

/// The class of the subscriptions in the tree.
pub const STOMP_SUBSCRIBER_CLASS: &str = "StompSubscriber";
/// The class of the clients' sessions.
const SESSION_CLASS: &str = "SessionActor";
/// The file of the dead letters in the data directory.
const DEAD_LETTER_FILE: &str = "dead-letters.sqlite";

/// The root allows few restarts, since those of the levels multiply: five of a supervisor that itself allowed ten.
const ROOT_INTENSITY: (u32, Duration) = (5, Duration::from_secs(60));
/// Each supervisor below it.
const GROUP_INTENSITY: (u32, Duration) = (10, Duration::from_secs(60));

/// A tree that is ready to start, and what the shell needs of it.
pub struct Plan {
    /// The tree.
    pub root: SupervisorSpec,
    /// The live feed's clients, to close them gently.
    pub sessions: Sessions,
}

/// A store in the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The event log.
    #[error(transparent)]
    EventLog(#[from] freshet_event_log::OpenError),
    /// The dead letters.
    #[error("the dead letters in {DEAD_LETTER_FILE} cannot be used: {0}")]
    DeadLetters(#[from] dead_letter::StoreFailure),
    /// Who clients are: a key or a file of `[identity]`.
    #[error("identity: {0}")]
    Identity(#[from] IdentityError),
    /// The log that several instances share.
    #[error("the shared log cannot be used: {0}")]
    SharedLog(#[from] freshet_redis_log::Failure),
}

/// Opens the stores and builds the tree.
///
/// # Errors
/// When a store cannot be opened.
pub fn build(
    configuration: &Configuration,
    feed: Feed,
    lock: &DirectoryLock,
    socket: TcpListener,
    lifecycle: &Lifecycle,
) -> Result<Plan, BuildError> {
    let limits = configuration.event.clone();
    let channels = Channels::new(&configuration.channel);
    let (log_writer, history) =
        freshet_event_log::open(&configuration.event_log, &Retention::of(&channels), lock)?;
    let shared_log = SharedLog::configured(&configuration.redis)?;
    let dead_letter_file = lock.directory().join(DEAD_LETTER_FILE);
    // The room itself lives through an outage of its file; at the start a person is there who can put it right.
    dead_letter::Store::open(&dead_letter_file, configuration.dead_letters.clone())?;
    let dead_letter =
        dead_letter::child("dead-letters", dead_letter_file, configuration.dead_letters.clone());
    let dead_letters = DeadLetters::new(dead_letter.address());
    let buried = BuriedCounts::beginning_with(RejectionCode::ALL.iter().map(|code| code.as_str()));
    let counted: Arc<dyn DeadLetterStore> =
        Arc::new(CountedDeadLetters { store: Arc::new(dead_letters.clone()), counts: buried.clone() });
    let live = Live::new(&configuration.broadcaster);
    let log: Arc<dyn EventLog> = match &shared_log {
        Some(shared_log) => shared_log.log(),
        None => Arc::new(history.clone()),
    };
    let specification = if shared_log.is_some() { Broadcaster::spec_followed } else { Broadcaster::spec };
    let broadcaster = specification(configuration.broadcaster.clone(), Arc::clone(&log), Arc::clone(&live));
    let publisher: Arc<dyn Publisher> = Arc::new(BroadcasterHandle::new(broadcaster.address()));
    let backlog = Arc::new(Backlog::new(&configuration.broadcaster, Arc::clone(&live), log));
    let nursery = Nursery::new(SESSION_CLASS, configuration.sessions.max_sessions);
    let sessions = Sessions::new(
        configuration.sessions.clone(),
        channels.clone(),
        Arc::clone(&live),
        backlog,
        nursery.clone(),
    );

    let identity = &configuration.identity;
    let tickets: Arc<dyn TicketStore> = match &shared_log {
        Some(shared_log) => shared_log.tickets(),
        None => Arc::new(MemoryTicketStore::new(identity.tickets_max)),
    };
    let authenticator = Authenticator::new(identity, tickets)?;
    let asks_for_tokens = identity.mode != Mode::None;
    if asks_for_tokens {
        sessions.renew_by(Arc::new(TokenRenewer(authenticator.clone())));
    }

    let mut ingest = group("ingest");
    for subscription in &configuration.stomp {
        let ports = Ports {
            publisher: Arc::clone(&publisher),
            dead_letters: Arc::clone(&counted),
            decode: stomp_decoder(Intake {
                channel: channel_of(&channels, &subscription.channel),
                limits: limits.clone(),
            }),
        };
        ingest = ingest.child(stomp_subscriber(subscription, ports));
    }
    if feed == Feed::Demo {
        let intake = Intake { channel: channels.iceberg(), limits: limits.clone() };
        ingest = ingest.child(demo::child(&configuration.demo, intake, Arc::clone(&publisher)));
    }
    let mut live_group = group("live").child(broadcaster);
    if let Some(shared_log) = shared_log {
        live_group = shared_log.follow(live_group, &live, history.clone());
    }
    let key_keeper = freshet_identity::keeper::child("keys", &authenticator);
    let services = Services {
        gate: Gate::new(&configuration.server),
        authenticator,
        asks_for_tokens,
        limits,
        channels,
        publisher,
        page_limit: configuration.event_log.search_page_limit,
        log: history,
        dead_letters,
        buried,
        sessions: sessions.clone(),
        live,
        ingest: IngestCounters::default(),
        request_body_timeout: Duration::from_secs(configuration.server.request_body_timeout_secs),
        unready_when_degraded: configuration.server.unready_when_degraded,
        lifecycle: lifecycle.clone(),
    };
    let (max_restarts, period) = ROOT_INTENSITY;
    let mut root = SupervisorSpec::new("root")
        .intensity(max_restarts, period)
        .supervisor(group("storage").child(log_writer).child(dead_letter))
        .supervisor(live_group.nursery(&nursery))
        .supervisor(ingest);
    if let Some(key_keeper) = key_keeper {
        root = root.supervisor(group("identity").child(key_keeper));
    }
    let root = root.child(listener::child(socket, services, configuration));
    Ok(Plan { root, sessions })
}

/// The channel that a source names. A name that is none does not pass the check of the configuration.
fn channel_of(channels: &Channels, name: &str) -> Arc<Channel> {
    channels.get(name).map_or_else(|| channels.iceberg(), Arc::clone)
}

/// A supervisor whose children fail alone.
fn group(id: &str) -> SupervisorSpec {
    let (max_restarts, period) = GROUP_INTENSITY;
    SupervisorSpec::new(id).intensity(max_restarts, period)
}

/// One subscription. It finishes its batch and takes its leave of the broker when it is stopped.
fn stomp_subscriber(
    subscription: &freshet_stomp_subscriber::Config,
    ports: Ports,
) -> ChildSpec<StompSubscriber> {
    let name = subscription.name.clone();
    let subscription = Arc::new(subscription.clone());
    ChildSpec::new(name, STOMP_SUBSCRIBER_CLASS, move |link| {
        StompSubscriber::new(Arc::clone(&subscription), ports.clone(), link)
    })
    .backoff(Backoff { min: Duration::from_millis(500), max: Duration::from_secs(30) })
    .shutdown_within(Duration::from_secs(10))
}

/// Reads a message of a STOMP broker as an event, or says why it is none. CloudEvents has no binding for STOMP; a bridge
/// from Kafka or JMS keeps the header names of those, `ce_…`.
fn stomp_decoder(intake: Intake) -> Arc<freshet_stomp_subscriber::Decode> {
    Arc::new(move |headers: &[(String, String)], body: &Bytes| {
        let texts = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let content_type = texts.clone().find(|(name, _)| *name == "content-type").map(|(_, value)| value);
        decode_message(Binding::KAFKA, content_type, texts, body, &intake).map_err(|rejection| Refusal {
            code: rejection.code.as_str().to_owned(),
            reason: rejection.to_string(),
        })
    })
}
