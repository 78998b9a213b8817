//! The HTTP surface: routes, errors, and the actor that owns the server.

mod dead_letters;
mod error;
mod families;
mod health;
mod history;
mod ingest;
pub mod listener;
mod metrics;
mod page;
mod query;

use std::sync::Arc;

use actix_web::{HttpResponse, web};
use freshet_dead_letter::DeadLetters;
use freshet_event_log::SqliteEventLog;
use freshet_feed::Limits;
use freshet_feed::port::Publisher;
use freshet_session::Sessions;

pub use error::ApiError;
pub use metrics::IngestCounters;

use crate::counted::BuriedCounts;
use crate::lifecycle::Lifecycle;

/// What the routes need. Every worker thread shares it.
pub struct Services {
    /// The limits of one event and one request.
    pub limits: Limits,
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
    /// Whether an outage makes the instance unready.
    pub unready_when_degraded: bool,
    /// The daemon's own life.
    pub lifecycle: Lifecycle,
}

/// Every route of the daemon.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/", web::get().to(page::live))
        .route("/events", web::get().to(freshet_session::events))
        .service(
            web::resource("/api/v2/events")
                .route(web::get().to(history::events))
                .route(web::post().to(ingest::post))
                .default_service(web::to(method_not_allowed)),
        )
        .route("/api/v2/tables", web::get().to(history::tables))
        .route("/api/v2/tables/{table}/events", web::get().to(history::table_events))
        .route("/api/v2/dead-letters", web::get().to(dead_letters::list))
        .route("/api/v2/dead-letters/{id}", web::get().to(dead_letters::one))
        .route("/api/v2/dead-letters/{id}/body", web::get().to(dead_letters::body))
        .route("/livez", web::get().to(health::livez))
        .route("/readyz", web::get().to(health::readyz))
        .route("/actors", web::get().to(health::actors))
        .route("/metrics", web::get().to(metrics::metrics))
        .default_service(web::to(nowhere));
}

async fn nowhere() -> Result<HttpResponse, ApiError> {
    Err(ApiError::not_found("There is nothing at this address."))
}

async fn method_not_allowed() -> Result<HttpResponse, ApiError> {
    Err(ApiError {
        status: actix_web::http::StatusCode::METHOD_NOT_ALLOWED,
        code: "method_not_allowed",
        message: "This address takes GET and POST.".to_owned(),
    })
}
