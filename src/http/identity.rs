//! Who asks: the layer in front of every route.
//!
//! | answer | `code` | when |
//! |---|---|---|
//! | 400 | `several_tickets` | two tickets in one address |
//! | 401 | `token_expired`, `token_invalid` | a credential that is refused is never taken for none |
//! | 401 | `token_required` | nobody is known, where somebody must be |
//! | 403 | `origin_not_allowed` | the page of another site, or a cookie without a page |
//! | 421 | `unknown_host` | the request is addressed to a name that is not the daemon's |
//! | 503 | `identity_unavailable` | keys or tickets cannot be read now |

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode, Uri};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpRequest, HttpResponse, ResponseError, web};
use freshet_feed::Principal;
use freshet_identity::{AuthenticationError, Authenticator, Credentials, Refusal, Renewal, Source};
use freshet_session::renewal::{Credential, RenewalRefused, Renewer};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use jiff::Timestamp;

use super::Services;
use super::error::ApiError;
use super::gate::Origin;

/// Where a ticket in the address stands for a token: what browsers open without headers of their own.
const TICKET_PATHS: [&str; 2] = ["/events", "/ws"];
/// What every probe may ask, whatever it brings along.
const OPEN_PATHS: [&str; 2] = ["/livez", "/readyz"];
/// How long a browser remembers what another site's page may send, in seconds.
const PREFLIGHT_SECS: &str = "600";

/// Who asks, as the layer that authenticates has found. Without such a layer it is someone unknown, who may read
/// what is public.
pub fn principal_of(request: &HttpRequest) -> Principal {
    request.extensions().get::<Principal>().cloned().unwrap_or_default()
}

/// Lets administrators pass. For others there is nothing at the address.
///
/// # Errors
/// When it is somebody else.
pub fn only_administrators(principal: &Principal) -> Result<(), ApiError> {
    if principal.is_administrator {
        return Ok(());
    }
    somebody(principal)?;
    Err(ApiError::not_found("There is nothing at this address."))
}

/// Lets everyone pass who is known.
///
/// # Errors
/// When it is nobody.
pub fn somebody(principal: &Principal) -> Result<(), ApiError> {
    if principal.subject.is_some() {
        return Ok(());
    }
    Err(ApiError {
        status: StatusCode::UNAUTHORIZED,
        code: "token_required",
        message: "This needs a token: send it as Authorization: Bearer.".to_owned(),
    })
}

/// The layer. It checks where the request is addressed to and where it comes from, finds who it is from, and tells
/// browsers whose pages may read the answer.
pub async fn identify(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(services) = request.app_data::<web::Data<Services>>().cloned() else {
        return Ok(request.into_response(HttpResponse::InternalServerError().finish()));
    };
    let host = text(&request, &header::HOST);
    let origin = services.gate.origin_of(text(&request, &header::ORIGIN), host);
    // Where the target names a host, it counts beside the header (RFC 9112, section 3.2.2).
    let target = request.uri().host();
    let knows_host = services.gate.knows_host(host) && services.gate.knows_host(target);
    let refused = if !knows_host || has_broken(&request, &header::HOST) {
        Some(unknown_host())
    } else if origin == Origin::Foreign || has_broken(&request, &header::ORIGIN) {
        Some(origin_not_allowed())
    } else {
        None
    };
    if let Some(refusal) = refused {
        return Ok(request.into_response(refusal.error_response()));
    }
    let allowed =
        (origin == Origin::Allowed).then(|| request.headers().get(header::ORIGIN).cloned()).flatten();
    let mut response = if allowed.is_some() && is_preflight(&request) {
        request.into_response(preflight())
    } else {
        match admit(&mut request, &services.authenticator, origin).await {
            Ok(principal) => {
                request.extensions_mut().insert(principal);
                next.call(request).await?.map_into_boxed_body()
            }
            Err(refusal) => request.into_response(refusal),
        }
    };
    if let Some(origin) = allowed {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Retry-After"));
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    Ok(response)
}

async fn admit(
    request: &mut ServiceRequest,
    authenticator: &Authenticator,
    origin: Origin,
) -> Result<Principal, HttpResponse> {
    if OPEN_PATHS.contains(&request.path()) {
        return Ok(Principal::default());
    }
    let ticket = take_ticket(request).map_err(|error| error.error_response())?;
    let authorization: Vec<&[u8]> = values(request, &header::AUTHORIZATION);
    let cookies: Vec<&[u8]> = values(request, &header::COOKIE);
    let credentials =
        Credentials { authorization: &authorization, cookies: &cookies, ticket: ticket.as_deref() };
    let authenticated = authenticator.authenticate(credentials, Timestamp::now()).await;
    let authenticated = authenticated.map_err(|error| refuse(&error))?;
    // A browser sends a cookie along with whatever any page asks for; only where the page is known may it count for
    // more than reading what no other page can see.
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !request.headers().contains_key(header::UPGRADE);
    if authenticated.source == Source::Cookie && !is_safe && origin == Origin::Unsaid {
        return Err(origin_not_allowed().error_response());
    }
    Ok(authenticated.principal)
}

fn refuse(error: &AuthenticationError) -> HttpResponse {
    tracing::debug!(code = error.code(), "a request is refused");
    refusal_response(error.refusal())
}

/// What a client is told whose credential is refused.
pub fn refusal_response(refusal: Refusal) -> HttpResponse {
    let status = StatusCode::from_u16(refusal.http_status()).unwrap_or(StatusCode::UNAUTHORIZED);
    let error = ApiError { status, code: refusal.code(), message: format!("Refused: {refusal}.") };
    let mut response = error.error_response();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Takes the ticket out of the address, so that nothing behind this layer can print it.
fn take_ticket(request: &mut ServiceRequest) -> Result<Option<String>, ApiError> {
    if !TICKET_PATHS.contains(&request.path()) {
        return Ok(None);
    }
    let is_ticket = |pair: &&str| pair.split('=').next() == Some("ticket");
    let query = request.query_string();
    let mut tickets = query.split('&').filter(is_ticket);
    let Some(first) = tickets.next() else { return Ok(None) };
    if tickets.next().is_some() {
        return Err(ApiError::bad_request("several_tickets", "An address may hold one ticket."));
    }
    // Tickets are made of characters that need no escape.
    let ticket = first.split_once('=').map(|(_, value)| value).unwrap_or_default().to_owned();
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_ticket(pair)).collect();
    let path = request.path();
    let address = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
    let uri: Uri = address
        .parse()
        .map_err(|_| ApiError::bad_request("invalid_query", "The query string cannot be read."))?;
    request.match_info_mut().get_mut().update(&uri);
    request.head_mut().uri = uri;
    Ok(Some(ticket))
}

fn text<'a>(request: &'a ServiceRequest, name: &HeaderName) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

/// Whether the header is there more than once, or is no text: it must not pass for absent.
fn has_broken(request: &ServiceRequest, name: &HeaderName) -> bool {
    let mut values = request.headers().get_all(name);
    let is_text = values.next().is_none_or(|value| value.to_str().is_ok());
    !is_text || values.next().is_some()
}

fn values<'a>(request: &'a ServiceRequest, name: &HeaderName) -> Vec<&'a [u8]> {
    request.headers().get_all(name).map(HeaderValue::as_bytes).collect()
}

fn is_preflight(request: &ServiceRequest) -> bool {
    *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> HttpResponse {
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, DELETE"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, last-event-id"))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECS))
        .finish()
}

fn unknown_host() -> ApiError {
    ApiError {
        status: StatusCode::MISDIRECTED_REQUEST,
        code: "unknown_host",
        message: "The request is addressed to another host; server.allowed_hosts names those that are known."
            .to_owned(),
    }
}

fn origin_not_allowed() -> ApiError {
    ApiError {
        status: StatusCode::FORBIDDEN,
        code: "origin_not_allowed",
        message: "Pages of this origin may not do this; server.allowed_origins names those that may."
            .to_owned(),
    }
}

/// Lets WebSocket clients go on with another token or ticket.
pub struct TokenRenewer(pub Authenticator);

impl Renewer for TokenRenewer {
    fn renew<'a>(
        &'a self,
        current: &'a Principal,
        credential: &'a Credential,
    ) -> LocalBoxFuture<'a, Result<Principal, RenewalRefused>> {
        let renewal = match credential {
            Credential::Token(token) => Renewal::Token(token.expose()),
            Credential::Ticket(ticket) => Renewal::Ticket(ticket.expose()),
        };
        async move {
            self.0.renew(current, renewal, Timestamp::now()).await.map_err(|error| {
                let refusal = error.refusal();
                RenewalRefused { code: refusal.code(), error: refusal.to_string() }
            })
        }
        .boxed_local()
    }
}
