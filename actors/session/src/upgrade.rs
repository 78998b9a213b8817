//! `GET /ws`: the opening handshake of RFC 6455, section 4.2.

use actix_http::ws::{HandshakeError, handshake};
use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};

use crate::events::{HandOver, admit, principal_of, start};
use crate::interest::Transport;
use crate::protocol::SUBPROTOCOL;
use crate::protocol::answer::Answer;
use crate::refusal::refuse;
use crate::session::Kind;
use crate::sessions::Sessions;
use crate::websocket::Websocket;

/// Opens a WebSocket of the subprotocol `freshet.v1`. A client that offers no subprotocol speaks it as well.
///
/// | answer | `code` | when |
/// |---|---|---|
/// | 101 | | the WebSocket |
/// | 400 | `invalid_handshake` | the request is no handshake |
/// | 400 | `unknown_subprotocol` | the client offers subprotocols, and `freshet.v1` is none of them |
/// | 426 | `upgrade_required` | not a WebSocket, or of another version than 13 |
/// | 503 with `Retry-After` | `too_many_sessions`, `draining`, `store_unavailable` | not now |
pub async fn websocket(request: HttpRequest, sessions: web::Data<Sessions>) -> HttpResponse {
    let mut response = match handshake(request.head()) {
        Ok(response) => response,
        Err(error) => return refuse_handshake(&error),
    };
    // A ticket was taken out before, by the layer that knows who asks.
    if !request.query_string().is_empty() {
        let error = "this address takes no parameters";
        return refuse(StatusCode::BAD_REQUEST, error, "unknown_parameter");
    }
    let offered = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let mut offers = false;
    let mut is_known = false;
    for value in offered {
        offers = true;
        is_known |= value
            .as_bytes()
            .split(|byte| *byte == b',')
            .any(|name| name.trim_ascii() == SUBPROTOCOL.as_bytes());
    }
    if offers && !is_known {
        let error = format!("the only subprotocol is {SUBPROTOCOL}");
        return refuse(StatusCode::BAD_REQUEST, &error, "unknown_subprotocol");
    }
    sessions.log_is_read().await;
    let (hub, door) = match admit(&request, &sessions) {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.response(&sessions.shared.config),
    };
    let principal = principal_of(&request);
    let expires_at = principal.expires_at;
    let connection = hub.connect(Transport::Websocket, principal);
    let welcome = Answer::Welcome {
        client_id: connection.client_id,
        protocol: SUBPROTOCOL,
        heartbeat_secs: sessions.shared.config.heartbeat_secs,
        expires_at,
    };
    hub.say(&connection, welcome.frame());
    let websocket = Box::new(Websocket::new(&hub));
    if let Err(refusal) = start(&sessions, &hub, &connection, Kind::Websocket(websocket)) {
        hub.disconnect(&connection);
        return refusal.response(&sessions.shared.config);
    }
    if is_known {
        response.insert_header((header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL));
    }
    response.message_body(HandOver::new(door, connection)).map_or_else(
        |_| refuse(StatusCode::INTERNAL_SERVER_ERROR, "the handshake cannot be answered", "internal_error"),
        |response| HttpResponse::from(response.map_body(|_, body| actix_web::body::BoxBody::new(body))),
    )
}

fn refuse_handshake(error: &HandshakeError) -> HttpResponse {
    let is_no_upgrade = matches!(
        error,
        HandshakeError::NoWebsocketUpgrade
            | HandshakeError::NoConnectionUpgrade
            | HandshakeError::NoVersionHeader
            | HandshakeError::UnsupportedVersion
    );
    if !is_no_upgrade {
        return refuse(StatusCode::BAD_REQUEST, &error.to_string(), "invalid_handshake");
    }
    let mut response =
        refuse(StatusCode::UPGRADE_REQUIRED, "this address speaks WebSocket, version 13", "upgrade_required");
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, header::HeaderValue::from_static("13"));
    response
}
