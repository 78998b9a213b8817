//! `GET /metrics`: one scrape turns the counters of the rooms into metric families.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::{HttpRequest, HttpResponse, web};
use freshet_broadcaster::counters::LATENCY_BOUNDS_MILLIS;
use freshet_feed::{Event, Rejection, RejectionCode};
use freshet_kernel::{NodeState, Snapshot};
use freshet_session::CloseCode;

use super::Services;
use super::error::ApiError;
use super::families::Families;
use super::identity::{only_administrators, principal_of};
use crate::tree::STOMP_SUBSCRIBER_CLASS;

/// The content type of the text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What HTTP ingest counts.
#[derive(Default)]
pub struct IngestCounters {
    rejected: [AtomicU64; RejectionCode::ALL.len()],
}

impl IngestCounters {
    /// Counts what was refused.
    pub fn count(&self, decoded: &[Result<Event, Rejection>]) {
        for rejection in decoded.iter().filter_map(|item| item.as_ref().err()) {
            let index = RejectionCode::ALL.iter().position(|code| *code == rejection.code);
            if let Some(counter) = index.and_then(|index| self.rejected.get(index)) {
                counter.fetch_add(1, Relaxed);
            }
        }
    }
}

/// `GET /metrics`
pub async fn metrics(request: HttpRequest, services: web::Data<Services>) -> Result<HttpResponse, ApiError> {
    only_administrators(&principal_of(&request))?;
    let mut families = Families::default();
    families
        .gauge("freshet_build_info", "Always 1; its label names the version.")
        .count(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    if let Some(tree) = services.lifecycle.snapshot() {
        actors(&mut families, &tree);
    }
    events(&mut families, &services);
    sessions(&mut families, &services);
    let text = families.encode().map_err(|error| ApiError {
        status: actix_web::http::StatusCode::INTERNAL_SERVER_ERROR,
        code: "metrics_unavailable",
        message: error.to_string(),
    })?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, TEXT_FORMAT))
        .insert_header((CACHE_CONTROL, "no-store"))
        .body(text))
}

fn actors(families: &mut Families, tree: &Snapshot) {
    let classes = freshet_kernel::stats::classes();
    let mut each = |name: &str, help: &str, read: &dyn Fn(&freshet_kernel::ClassStats) -> u64| {
        let mut family =
            if name.ends_with("_total") { families.counter(name, help) } else { families.gauge(name, help) };
        for (class, stats) in &classes {
            family.count(&[("class", class)], read(stats));
        }
    };
    each("freshet_actors", "Actors that run now.", &|stats| stats.running);
    each("freshet_actor_restarts_total", "Starts that followed a failure.", &|stats| stats.restarts);
    each("freshet_actor_panics_total", "Panics that were caught.", &|stats| stats.panics);
    each("freshet_mailbox_depth", "Messages that wait in mailboxes now.", &|stats| stats.mailbox_depth);
    each("freshet_mailbox_waits_total", "Sends that had to wait for room.", &|stats| stats.mailbox_waits);
    each("freshet_messages_handled_total", "Messages that were handled.", &|stats| stats.handled);
    each("freshet_messages_failed_total", "Messages that were handled and failed.", &|stats| stats.failed);
    let mut each_seconds = |name: &str, help: &str, read: &dyn Fn(&freshet_kernel::ClassStats) -> u64| {
        let mut family = families.counter(name, help);
        for (class, stats) in &classes {
            family.value(&[("class", class)], seconds(read(stats)));
        }
    };
    each_seconds("freshet_mailbox_wait_seconds_total", "Time that senders waited for room.", &|stats| {
        stats.mailbox_wait_nanos
    });
    each_seconds("freshet_mailbox_queued_seconds_total", "Time that messages lay in mailboxes.", &|stats| {
        stats.mailbox_queued_nanos
    });
    each_seconds("freshet_messages_processing_seconds_total", "Time that handlers took.", &|stats| {
        stats.processing_nanos
    });

    let mut nodes = Vec::new();
    tree.each(&mut |node| nodes.push(node));
    let mut capacity = std::collections::BTreeMap::<&str, u64>::new();
    for node in &nodes {
        if let Some(mailbox) = &node.mailbox {
            *capacity.entry(node.class).or_default() += mailbox.capacity as u64;
        }
    }
    let mut family = families.gauge("freshet_mailbox_capacity", "Messages that may wait in mailboxes.");
    for (class, capacity) in capacity {
        family.count(&[("class", class)], capacity);
    }
    let mut family = families.gauge("freshet_actor_degraded", "1 for an actor that lives through an outage.");
    for node in nodes.iter().filter(|node| node.mailbox.is_some()) {
        let degraded = matches!(node.state, NodeState::Degraded { .. });
        family.count(&[("class", node.class), ("id", &node.id)], degraded.into());
    }
    let mut family = families.gauge("freshet_broker_connected", "1 while the subscription receives.");
    for node in nodes.iter().filter(|node| node.class == STOMP_SUBSCRIBER_CLASS) {
        family.count(&[("subscription", &node.id)], (node.state == NodeState::Running).into());
    }
}

fn events(families: &mut Families, services: &Services) {
    let live = services.live.counters();
    let mut counter = |name: &str, help: &str, value: &AtomicU64| {
        families.counter(name, help).count(&[], value.load(Relaxed));
    };
    counter("freshet_events_published_total", "Events that became durable.", &live.published);
    counter("freshet_events_duplicate_total", "Events that were known already.", &live.duplicates);
    counter("freshet_event_log_appends_total", "Appends to the log, each with many events.", &live.appends);
    counter("freshet_event_log_append_failures_total", "Appends that failed.", &live.append_failures);
    counter("freshet_broadcast_batches_total", "Batches handed to the worker threads.", &live.batches);

    let mut family =
        families.counter("freshet_events_rejected_total", "Events refused at HTTP ingest, by code.");
    for (code, count) in RejectionCode::ALL.iter().zip(&services.ingest.rejected) {
        family.count(&[("code", code.as_str())], count.load(Relaxed));
    }
    let mut family = families.counter("freshet_dead_letters_total", "Dead letters buried, by code.");
    for (code, count) in services.buried.read() {
        family.count(&[("code", &code)], count);
    }

    let mut cumulative = 0;
    let counts = live.latency.iter().map(|count| count.load(Relaxed)).collect::<Vec<_>>();
    let mut buckets = Vec::with_capacity(LATENCY_BOUNDS_MILLIS.len());
    for (bound, count) in LATENCY_BOUNDS_MILLIS.iter().zip(&counts) {
        cumulative += count;
        buckets.push((millis_as_seconds(*bound), cumulative));
    }
    families
        .histogram("freshet_delivery_latency_seconds", "Time from an event's own timestamp to its push.")
        .distribution(
            &buckets,
            millis_as_seconds(live.latency_sum_millis.load(Relaxed)),
            counts.iter().sum(),
        );

    let log = services.log.statistics();
    families.gauge("freshet_event_log_events", "Events that the log holds.").count(&[], log.held_events);
    families
        .gauge("freshet_event_log_bytes", "Size of the log on disk, in bytes.")
        .count(&[], log.disk_bytes);
}

fn sessions(families: &mut Families, services: &Services) {
    let counters = services.sessions.counters();
    let open = counters.sessions.load(Relaxed) as u64;
    families.gauge("freshet_sessions", "Clients that are connected.").count(&[], open);
    let mut counter = |name: &str, help: &str, value: &AtomicU64| {
        families.counter(name, help).count(&[], value.load(Relaxed));
    };
    counter("freshet_sessions_opened_total", "Clients that connected.", &counters.opened);
    counter("freshet_sessions_refused_total", "Clients refused at the limit of sessions.", &counters.refused);
    counter("freshet_session_sent_events_total", "Events put into outboxes.", &counters.events);
    counter("freshet_session_sent_bytes_total", "Bytes of those events.", &counters.bytes);
    counter("freshet_session_replayed_total", "Events replayed to clients that resumed.", &counters.replayed);
    counter("freshet_session_coalesced_total", "Events left out for slow clients.", &counters.coalesced);
    counter(
        "freshet_session_dropped_total",
        "Events that a session still owed at its end.",
        &counters.dropped,
    );
    counter("freshet_session_gaps_total", "Gaps that clients were told.", &counters.gaps);
    let mut family =
        families.counter("freshet_sessions_closed_total", "Sessions that the daemon ended, by close code.");
    for code in CloseCode::ALL {
        family.count(&[("code", code.reason())], counters.closed(code));
    }
}

#[expect(clippy::cast_precision_loss, reason = "the format has doubles only")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "the format has doubles only")]
fn millis_as_seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}
