//! `GET /events`: the one place of this room that answers HTTP.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::{Method, StatusCode, header};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, HttpResponseBuilder, web};
use bytes::Bytes;
use freshet_feed::Principal;
use freshet_feed::scope::Denied;
use serde_json::json;

use crate::connection::Connection;
use crate::door::DoorHandle;
use crate::hub::Hub;
use crate::interest::{Interest, Transport};
use crate::notice;
use crate::refusal::{Refusal, refuse};
use crate::request::{BadRequest, SessionRequest};
use crate::session::{Kind, SessionActor};
use crate::sessions::Sessions;
use crate::subscription::Stage;

const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// Opens a stream of server-sent events.
///
/// | answer | `code` | when |
/// |---|---|---|
/// | 200 | | the stream; for HEAD its headers only |
/// | 204 | | OPTIONS |
/// | 400 | `invalid_filter`, `unknown_parameter`, `invalid_last_event_id`, `invalid_query`, `too_many_channels` | the request cannot be understood |
/// | 404 | `unknown_channel`, `unknown_room` | it does not exist, or is not the client's |
/// | 405 | `method_not_allowed` | another method |
/// | 503 with `Retry-After` | `too_many_sessions`, `draining`, `store_unavailable` | not now. Who accepts `text/event-stream` and nothing else, as browsers do, gets 200 with a `close` and a `retry` instead |
pub async fn events(request: HttpRequest, sessions: web::Data<Sessions>) -> HttpResponse {
    match *request.method() {
        Method::GET => {
            sessions.log_is_read().await;
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
    let principal = principal_of(request);
    let names = wish.channels.iter().map(String::as_str);
    let rooms = wish.rooms.iter().map(String::as_str);
    let scope = match shared.channels.scope(&principal, names, rooms) {
        Ok(scope) => scope,
        Err(denied) => return refuse(denied_status(denied), &denied.to_string(), denied.code()),
    };
    let (hub, door) = match admit(request, sessions) {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.for_event_source(request, &shared.config),
    };
    let expires_at = principal.expires_at;
    let connection = hub.connect(Transport::Sse, principal);
    let is_new = wish.last_event_id.is_none();
    let interest = Interest::new(Transport::Sse, scope, wish.filter, &shared.channels);
    let stage = if is_new { Stage::Live } else { Stage::CatchingUp };
    let subscription = hub.subscribe(&connection, interest, None, stage);
    let newest_id = hub.id_for(&subscription.interest.scope);
    let id = wish.last_event_id.as_deref().unwrap_or(&newest_id);
    let connected = notice::connected(connection.client_id, expires_at, shared.config.retry(), id);
    hub.say(&connection, connected);
    let resume = wish.last_event_id.map(String::into_boxed_str);
    let started =
        start(sessions, &hub, &connection, Kind::Sse { subscription: subscription.clone(), resume });
    if let Err(refusal) = started {
        hub.unsubscribe(&subscription);
        hub.disconnect(&connection);
        return refusal.for_event_source(request, &shared.config);
    }
    let mut response = stream_headers();
    response.force_close();
    let mut response = response.body(HandOver::new(door, connection));
    // The end of the connection is the end of the stream: no chunk is framed for each write.
    response.head_mut().no_chunking(true);
    response
}

fn denied_status(denied: Denied) -> StatusCode {
    match denied {
        Denied::UnknownChannel | Denied::UnknownRoom => StatusCode::NOT_FOUND,
        Denied::TooMany => StatusCode::BAD_REQUEST,
    }
}

/// Who asks, as the layer that authenticates has found. Without such a layer it is someone unknown.
pub(crate) fn principal_of(request: &HttpRequest) -> Principal {
    request.extensions().get::<Principal>().cloned().unwrap_or_default()
}

/// Whether one more client may come in now.
pub(crate) fn admit(request: &HttpRequest, sessions: &Sessions) -> Result<(Rc<Hub>, DoorHandle), Refusal> {
    if sessions.shared.refuses_new() {
        return Err(Refusal::Draining);
    }
    let Some(hub) = sessions.hub() else {
        return Err(Refusal::StoreUnavailable);
    };
    let Some(door) = request.conn_data::<DoorHandle>() else {
        return Err(Refusal::ForeignServer);
    };
    Ok((hub, door.clone()))
}

/// Starts the actor of a client.
pub(crate) fn start(
    sessions: &Sessions,
    hub: &Rc<Hub>,
    connection: &Rc<Connection>,
    kind: Kind,
) -> Result<(), Refusal> {
    let shared = &sessions.shared;
    let (hub, connection) = (Rc::clone(hub), Rc::clone(connection));
    // Made inside, since an actor that is dropped unstarted would count as a session that failed.
    shared.nursery.start(move || SessionActor::new(hub, connection, kind)).map(drop).map_err(|_| {
        shared.counters.refused.fetch_add(1, Relaxed);
        Refusal::TooManySessions
    })
}

/// The body of a response that is a stream: it ends when the socket has changed hands.
pub(crate) struct HandOver {
    door: DoorHandle,
    taker: Option<Taker>,
}

/// Takes the socket. Dropped without one, the client has left meanwhile.
struct Taker(Rc<Connection>);

impl HandOver {
    pub(crate) fn new(door: DoorHandle, connection: Rc<Connection>) -> Self {
        Self { door, taker: Some(Taker(connection)) }
    }
}

impl MessageBody for HandOver {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if let Some(taker) = self.taker.take() {
            self.door.hand_over(move |socket| taker.0.attach(socket));
        }
        Poll::Pending
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        if !self.0.has_socket() {
            self.0.is_over();
        }
    }
}

fn read(request: &HttpRequest) -> Result<SessionRequest, BadRequest> {
    let query = web::Query::<Vec<(String, String)>>::from_query(request.query_string())
        .map_err(|_| BadRequest::Query)?
        .into_inner();
    let header = request.headers().get("Last-Event-ID").map(header::HeaderValue::as_bytes);
    SessionRequest::read(header, &query)
}

pub(crate) fn stream_headers() -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-cache, no-transform"))
        .insert_header(("X-Accel-Buffering", "no"));
    response
}
