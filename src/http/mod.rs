//! The HTTP surface: routes, errors, and the actor that owns the server.

mod dead_letters;
mod error;
mod families;
mod gate;
mod health;
mod history;
mod identity;
mod ingest;
pub mod listener;
mod metrics;
mod page;
mod query;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::{FromRequest, Handler, HttpResponse, Resource, Responder, ResponseError, web};
use freshet_dead_letter::DeadLetters;
use freshet_event_log::SqliteEventLog;
use freshet_feed::port::Publisher;
use freshet_feed::{Channels, Limits};
use freshet_identity::Authenticator;
use freshet_session::Sessions;

pub use error::ApiError;
pub use gate::Gate;
pub use identity::TokenRenewer;
pub use metrics::IngestCounters;

use crate::counted::BuriedCounts;
use crate::lifecycle::Lifecycle;

/// What the routes need. Every worker thread shares it.
pub struct Services {
    /// The limits of one event and one request.
    pub limits: Limits,
    /// What there is to read and to publish to.
    pub channels: Channels,
    /// Which hosts and pages may ask.
    pub gate: Gate,
    /// Who asks.
    pub authenticator: Authenticator,
    /// Whether clients must prove who they are.
    pub asks_for_tokens: bool,
    /// Takes events in.
    pub publisher: Arc<dyn Publisher>,
    /// The most answers of one page of the history.
    pub page_limit: usize,
    /// The history.
    pub log: SqliteEventLog,
    /// What could not be processed.
    pub dead_letters: DeadLetters,
    /// How many were buried.
    pub buried: BuriedCounts,
    /// The live feed's clients.
    pub sessions: Sessions,
    /// The live stream.
    pub live: Arc<freshet_broadcaster::Live>,
    /// What ingest counts.
    pub ingest: IngestCounters,
    /// How long the body of a request may take to arrive.
    pub request_body_timeout: Duration,
    /// Whether an outage makes the instance unready.
    pub unready_when_degraded: bool,
    /// The daemon's own life.
    pub lifecycle: Lifecycle,
}

/// Every route of the daemon.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .service(read("/", page::live))
        // It answers every method itself.
        .service(web::resource("/events").route(web::to(freshet_session::events)))
        .service(
            web::resource("/ws")
                .route(web::get().to(freshet_session::websocket))
                .default_service(web::to(async || method_not_allowed("GET"))),
        )
        .service(
            web::resource("/api/v2/events")
                .route(web::get().to(history::events))
                .route(web::head().to(history::events))
                .route(web::post().to(ingest::post))
                .default_service(web::to(async || method_not_allowed("GET, HEAD, POST"))),
        )
        .service(read("/api/v2/tables", history::tables))
        .service(read("/api/v2/tables/{table}/events", history::table_events))
        .service(
            web::resource("/api/v2/tickets")
                .route(web::post().to(sessions::ticket))
                .default_service(web::to(async || method_not_allowed("POST"))),
        )
        .service(
            web::resource("/api/v2/sessions")
                .route(web::get().to(sessions::list))
                .route(web::head().to(sessions::list))
                .route(web::delete().to(sessions::disconnect))
                .default_service(web::to(async || method_not_allowed("GET, HEAD, DELETE"))),
        )
        .service(
            web::resource("/api/v2/sessions/{clientId}")
                .route(web::delete().to(sessions::disconnect_one))
                .default_service(web::to(async || method_not_allowed("DELETE"))),
        )
        .service(
            web::resource("/api/v2/sessions/{clientId}/renew")
                .route(web::post().to(sessions::renew))
                .default_service(web::to(async || method_not_allowed("POST"))),
        )
        .service(read("/api/v2/dead-letters", dead_letters::list))
        .service(read("/api/v2/dead-letters/{id}", dead_letters::one))
        .service(read("/api/v2/dead-letters/{id}/body", dead_letters::body))
        .service(read("/livez", health::livez))
        .service(read("/readyz", health::readyz))
        .service(read("/actors", health::actors))
        .service(read("/metrics", metrics::metrics))
        .default_service(web::to(nowhere));
}

/// An address that is only read. Probes ask with HEAD too.
fn read<F, Arguments>(path: &str, handler: F) -> Resource
where
    F: Handler<Arguments> + Clone,
    F::Output: Responder + 'static,
    Arguments: FromRequest + 'static,
{
    web::resource(path)
        .route(web::get().to(handler.clone()))
        .route(web::head().to(handler))
        .default_service(web::to(async || method_not_allowed("GET, HEAD")))
}

async fn nowhere() -> Result<HttpResponse, ApiError> {
    Err(ApiError::not_found("There is nothing at this address."))
}

fn method_not_allowed(allowed: &'static str) -> HttpResponse {
    let error = ApiError {
        status: StatusCode::METHOD_NOT_ALLOWED,
        code: "method_not_allowed",
        message: format!("This address takes {allowed}."),
    };
    let mut response = error.error_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}
