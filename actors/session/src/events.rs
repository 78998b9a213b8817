//! `GET /events`: the one place of this room that answers HTTP.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use actix_web::http::{Method, StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, web};
use serde_json::json;

use crate::body::SessionBody;
use crate::notice;
use crate::request::{BadRequest, SessionRequest};
use crate::session::SessionActor;
use crate::sessions::Sessions;
use crate::slot::State;

const ALLOWED: &str = "GET, HEAD, OPTIONS";
/// How long a client waits for the log to be read when the daemon starts.
const LOG_READ_WITHIN: Duration = Duration::from_secs(5);

/// Opens a stream of server-sent events.
///
/// | answer | `code` | when |
/// |---|---|---|
/// | 200 | | the stream; for HEAD its headers only |
/// | 204 | | OPTIONS |
/// | 400 | `invalid_filter`, `unknown_parameter`, `unknown_channel`, `invalid_last_event_id`, `invalid_query` | the request cannot be understood |
/// | 405 | `method_not_allowed` | another method |
/// | 503 with `Retry-After` | `too_many_sessions`, `draining`, `store_unavailable` | not now |
pub async fn events(request: HttpRequest, sessions: web::Data<Sessions>) -> HttpResponse {
    match *request.method() {
        Method::GET => {
            // In its first moments the daemon has not read the log yet; clients that are early wait for it.
            let mut position = sessions.shared.live.watch();
            let _refused_when_in_vain =
                tokio::time::timeout(LOG_READ_WITHIN, position.wait_for(Option::is_some)).await;
            open(&request, &sessions)
        }
        Method::HEAD => stream_headers().finish(),
        Method::OPTIONS => HttpResponse::NoContent().insert_header((header::ALLOW, ALLOWED)).finish(),
        _ => HttpResponse::MethodNotAllowed().insert_header((header::ALLOW, ALLOWED)).json(json!({
            "error": "method not allowed", "code": "method_not_allowed",
        })),
    }
}

fn open(request: &HttpRequest, sessions: &Sessions) -> HttpResponse {
    let wish = match read(request) {
        Ok(wish) => wish,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error.to_string(), error.code()),
    };
    let shared = &sessions.shared;
    if shared.refuses_new() {
        return not_now(sessions, "the daemon is stopping", "draining");
    }
    let Some(hub) = sessions.hub() else {
        return not_now(sessions, "the event log cannot be read yet", "store_unavailable");
    };
    let is_new = wish.last_event_id.is_none();
    let slot = hub.register(wish.filter, if is_new { State::Live } else { State::CatchingUp });
    let client_id = uuid::Uuid::new_v4();
    let newest_id = hub.newest_id();
    let id = wish.last_event_id.as_deref().unwrap_or(&newest_id);
    let connected = notice::connected(client_id, shared.config.retry(), id);
    let requested = wish.last_event_id.map(String::into_boxed_str);
    let of_actor = (hub.clone(), slot.clone());
    // Made inside, since an actor that is dropped unstarted would count as a session that failed.
    if shared.nursery.start(move || SessionActor::new(of_actor.0, of_actor.1, requested)).is_err() {
        hub.unregister(&slot);
        shared.counters.refused.fetch_add(1, Relaxed);
        return not_now(sessions, "as many clients are connected as may be", "too_many_sessions");
    }
    stream_headers().body(SessionBody::new(hub, slot, connected))
}

fn read(request: &HttpRequest) -> Result<SessionRequest, BadRequest> {
    let query = web::Query::<Vec<(String, String)>>::from_query(request.query_string())
        .map_err(|_| BadRequest::Query)?
        .into_inner();
    let header = request.headers().get("Last-Event-ID").map(header::HeaderValue::as_bytes);
    SessionRequest::read(header, &query)
}

fn stream_headers() -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-cache, no-transform"))
        .insert_header(("X-Accel-Buffering", "no"));
    response
}

fn refuse(status: StatusCode, error: &str, code: &str) -> HttpResponse {
    HttpResponse::build(status).json(json!({ "error": error, "code": code }))
}

fn not_now(sessions: &Sessions, error: &str, code: &str) -> HttpResponse {
    let seconds = sessions.shared.config.retry().as_millis().div_ceil(1000);
    HttpResponse::ServiceUnavailable()
        .insert_header((header::RETRY_AFTER, seconds.to_string()))
        .json(json!({ "error": error, "code": code }))
}
