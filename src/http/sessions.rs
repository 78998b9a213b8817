//! Tickets, renewals, and who is connected.

use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use freshet_feed::Principal;
use freshet_session::administration::Incomplete;
use freshet_session::presence::{Presence, SessionView, Wanted};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::Services;
use super::error::ApiError;
use super::identity::{only_administrators, principal_of, refusal_response, somebody};
use super::query::Parameters;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;
/// The most rooms, and the most subjects, that are counted in an answer.
const MAX_COUNTED: usize = 1000;
const FILTERS: [&str; 4] = ["channel", "room", "subject", "tenant"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PresenceAnswer {
    sessions: u64,
    transports: std::collections::BTreeMap<&'static str, u64>,
    channels: Vec<ChannelCount>,
    rooms: Vec<RoomCount>,
    subjects: Vec<SubjectCount>,
    /// Whether there are more rooms or subjects than are listed.
    truncated: bool,
    list: Vec<SessionView>,
}

#[derive(Serialize)]
struct ChannelCount {
    channel: String,
    sessions: u64,
}

#[derive(Serialize)]
struct RoomCount {
    channel: String,
    room: String,
    sessions: u64,
}

#[derive(Serialize)]
struct SubjectCount {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Null for clients who are not known.
    subject: Option<String>,
    sessions: u64,
}

impl From<Presence> for PresenceAnswer {
    fn from(presence: Presence) -> Self {
        let channels = presence.channels.into_iter();
        let mut rooms: Vec<RoomCount> = presence
            .rooms
            .into_iter()
            .map(|((channel, room), sessions)| RoomCount { channel, room, sessions })
            .collect();
        let mut subjects: Vec<SubjectCount> = presence
            .subjects
            .into_iter()
            .map(|((tenant, subject), sessions)| SubjectCount { tenant, subject, sessions })
            .collect();
        let truncated = rooms.len() > MAX_COUNTED || subjects.len() > MAX_COUNTED;
        rooms.sort_by_key(|room| std::cmp::Reverse(room.sessions));
        subjects.sort_by_key(|subject| std::cmp::Reverse(subject.sessions));
        rooms.truncate(MAX_COUNTED);
        subjects.truncate(MAX_COUNTED);
        Self {
            sessions: presence.sessions,
            transports: presence.transports,
            channels: channels.map(|(channel, sessions)| ChannelCount { channel, sessions }).collect(),
            rooms,
            subjects,
            truncated,
            list: presence.list,
        }
    }
}

impl From<Incomplete> for ApiError {
    fn from(error: Incomplete) -> Self {
        let message = format!("Not now: {error}. Try again later.");
        Self { status: StatusCode::SERVICE_UNAVAILABLE, code: "sessions_busy", message }
    }
}

/// `POST /api/v2/tickets`: a ticket for who asks.
pub async fn ticket(request: HttpRequest, services: web::Data<Services>) -> Result<HttpResponse, ApiError> {
    Parameters::of(&request, &[])?;
    if !services.asks_for_tokens {
        return Err(ApiError::not_found("Nobody needs a ticket here: clients are not asked who they are."));
    }
    let principal = principal_of(&request);
    somebody(&principal)?;
    match services.authenticator.issue_ticket(&principal, Timestamp::now()).await {
        Ok(ticket) => Ok(HttpResponse::Created().insert_header((CACHE_CONTROL, "no-store")).json(json!({
            "ticket": ticket.expose(),
            "expiresInSecs": services.authenticator.ticket_ttl().as_secs(),
        }))),
        Err(error) => {
            tracing::debug!(code = error.code(), "no ticket was given");
            Ok(refusal_response(error.refusal()))
        }
    }
}

/// `POST /api/v2/sessions/{clientId}/renew`: a session goes on with the token of this request.
pub async fn renew(
    request: HttpRequest,
    client_id: web::Path<String>,
    services: web::Data<Services>,
) -> Result<HttpResponse, ApiError> {
    Parameters::of(&request, &[])?;
    let principal = principal_of(&request);
    somebody(&principal)?;
    let gone = || ApiError::not_found("There is no such session here. Connect anew, and resume.");
    let client_id = client_id.parse().map_err(|_| gone())?;
    let renewed = services.sessions.renew(client_id, &principal).await?.ok_or_else(gone)?;
    renewed.map_err(|refused| ApiError {
        status: StatusCode::CONFLICT,
        code: refused.code,
        message: format!("Refused: {refused}."),
    })?;
    Ok(HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(json!({
        "expiresAt": principal.expires_at.map(|end| end.to_string()),
    })))
}

/// `GET /api/v2/sessions`
pub async fn list(request: HttpRequest, services: web::Data<Services>) -> Result<HttpResponse, ApiError> {
    only_administrators(&principal_of(&request))?;
    let [channel, room, subject, tenant] = FILTERS;
    let parameters = Parameters::of(&request, &[channel, room, subject, tenant, "limit"])?;
    let limit = parameters.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let presence = services.sessions.presence(&wanted(&parameters), limit).await?;
    let answer = PresenceAnswer::from(presence);
    Ok(HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(answer))
}

/// `DELETE /api/v2/sessions?subject=…`
pub async fn disconnect(
    request: HttpRequest,
    services: web::Data<Services>,
) -> Result<HttpResponse, ApiError> {
    let principal = principal_of(&request);
    only_administrators(&principal)?;
    let wanted = wanted(&Parameters::of(&request, &FILTERS)?);
    if wanted == Wanted::default() {
        let message = format!("Name the sessions that are to end, by {}.", FILTERS.join(", "));
        return Err(ApiError::bad_request("missing_parameter", message));
    }
    end(&services, &principal, &wanted).await
}

/// `DELETE /api/v2/sessions/{clientId}`
pub async fn disconnect_one(
    request: HttpRequest,
    client_id: web::Path<String>,
    services: web::Data<Services>,
) -> Result<HttpResponse, ApiError> {
    let principal = principal_of(&request);
    only_administrators(&principal)?;
    Parameters::of(&request, &[])?;
    let gone = || ApiError::not_found("There is no such session on this instance.");
    let client_id = client_id.parse().map_err(|_| gone())?;
    let wanted = Wanted { client_id: Some(client_id), ..Wanted::default() };
    end(&services, &principal, &wanted).await
}

async fn end(services: &Services, by: &Principal, wanted: &Wanted) -> Result<HttpResponse, ApiError> {
    let disconnected = services.sessions.disconnect(wanted).await?;
    if disconnected == 0 {
        return Err(ApiError::not_found("There is no such session on this instance."));
    }
    let by = by.subject.as_deref().unwrap_or("anybody");
    tracing::info!(by, disconnected, "an administrator ended sessions");
    Ok(HttpResponse::Ok().json(json!({ "disconnected": disconnected })))
}

fn wanted(parameters: &Parameters) -> Wanted {
    let text = |name| parameters.text(name).map(str::to_owned);
    let [channel, room, subject, tenant] = FILTERS.map(text);
    Wanted { client_id: None, channel, room, subject, tenant }
}
