//! `POST /api/v2/events`: events by HTTP.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{HttpRequest, HttpResponse, web};
use freshet_feed::Intake;
use freshet_feed::channel::ICEBERG;
use freshet_feed::ingest::{RequestError, decode_request};
use freshet_feed::port::{Outcome, StoreError};
use freshet_feed::scope::{Denied, may_publish};
use freshet_feed::{Event, Rejection};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Services;
use super::error::ApiError;
use super::identity::principal_of;
use super::query::Parameters;

/// Requests whose bodies are held in memory at once, for each thread. Further ones wait with their bodies unread,
/// so that memory is bounded by this number times the largest body.
pub const CONCURRENT_REQUESTS: usize = 8;

/// The permits of one thread.
pub struct IngestPermits(Semaphore);

impl Default for IngestPermits {
    fn default() -> Self {
        Self(Semaphore::new(CONCURRENT_REQUESTS))
    }
}

/// The answer for one request; the results stand in the order of its events.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Answer {
    /// Only when no event was accepted, as every error has them.
    #[serde(flatten)]
    error: Option<NoneAccepted>,
    accepted: usize,
    duplicate: usize,
    rejected: usize,
    results: Vec<EventResult>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct NoneAccepted {
    error: &'static str,
    code: &'static str,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum EventResult {
    /// It is durable.
    Accepted { event_id: String, position: String },
    /// It is known.
    Duplicate { event_id: String },
    /// It is no event; it was not kept.
    Rejected {
        code: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        field: Option<&'static str>,
        error: String,
    },
}

/// `POST /api/v2/events`
pub async fn post(
    request: HttpRequest,
    payload: web::Payload,
    services: web::Data<Services>,
    permits: web::Data<IngestPermits>,
) -> Result<HttpResponse, ApiError> {
    let parameters = Parameters::of(&request, &["channel"])?;
    let channel = services.channels.get(parameters.text("channel").unwrap_or(ICEBERG));
    // Where nobody may publish who asks, there is nothing for them.
    let principal = principal_of(&request);
    let Some(channel) = channel.filter(|channel| principal.may_publish(&channel.name)) else {
        return Err(Denied::UnknownChannel.into());
    };
    let intake = Intake { channel: Arc::clone(channel), limits: services.limits.clone() };
    let Ok(permit) = timeout(services.request_body_timeout, permits.0.acquire()).await else {
        return Err(ApiError {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "too_many_requests_at_once",
            message: "Too many requests send events now. Try again later.".to_owned(),
        });
    };
    let _held_until_answered = permit.map_err(|_| StoreError::Stopping)?;
    let limit = services.limits.max_request_bytes;
    let Ok(read) = timeout(services.request_body_timeout, payload.to_bytes_limited(limit)).await else {
        return Err(ApiError {
            status: StatusCode::REQUEST_TIMEOUT,
            code: "body_timed_out",
            message: "The body did not arrive in time.".to_owned(),
        });
    };
    let body = match read {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return Err(ApiError::bad_request("body_incomplete", "The body did not arrive whole.")),
        Err(_) => {
            return Err(ApiError {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                code: "request_too_large",
                message: format!("The body is larger than {limit} bytes. Send fewer events at once."),
            });
        }
    };
    let headers = request.headers();
    // A header that is no text is none that CloudEvents defines; it is left out rather than guessed.
    let texts: Vec<(&str, &str)> =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let decoded = decode_request(content_type, texts.iter().copied(), &body, &intake).map_err(refused)?;
    for event in decoded.iter().flatten() {
        may_publish(&principal, channel, event.room.as_deref())?;
    }
    services.ingest.count(&decoded);
    let (events, places) = separate(decoded);
    let outcomes = if events.is_empty() { Vec::new() } else { services.publisher.publish(events).await? };
    let answer = answer(places, outcomes)?;
    Ok(HttpResponse::build(status(&answer)).json(answer))
}

fn refused(error: RequestError) -> ApiError {
    let status = match error {
        RequestError::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RequestError::TooLarge { .. } | RequestError::TooManyEvents { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        RequestError::Empty | RequestError::NotUtf8 | RequestError::NotJson { .. } => StatusCode::BAD_REQUEST,
    };
    ApiError { status, code: error.code(), message: error.to_string() }
}

/// What is known of one place in the request before the log has answered.
enum Place {
    Event(String),
    Rejected(Rejection),
}

fn separate(decoded: Vec<Result<Event, Rejection>>) -> (Vec<Event>, Vec<Place>) {
    let mut events = Vec::with_capacity(decoded.len());
    let places = decoded.into_iter().map(|item| match item {
        Ok(event) => {
            let place = Place::Event(event.event_id.clone());
            events.push(event);
            place
        }
        Err(rejection) => Place::Rejected(rejection),
    });
    let places = places.collect();
    (events, places)
}

fn answer(places: Vec<Place>, outcomes: Vec<Outcome>) -> Result<Answer, StoreError> {
    let results = Vec::with_capacity(places.len());
    let mut answer = Answer { error: None, accepted: 0, duplicate: 0, rejected: 0, results };
    let mut outcomes = outcomes.into_iter();
    for place in places {
        let result = match place {
            Place::Rejected(rejection) => {
                answer.rejected += 1;
                EventResult::Rejected {
                    code: rejection.code.as_str(),
                    field: rejection.field,
                    error: rejection.message.into_owned(),
                }
            }
            Place::Event(event_id) => match outcomes.next() {
                Some(Outcome::Accepted { position }) => {
                    answer.accepted += 1;
                    EventResult::Accepted { event_id, position: position.to_string() }
                }
                Some(Outcome::Duplicate) => {
                    answer.duplicate += 1;
                    EventResult::Duplicate { event_id }
                }
                None => {
                    let reason = "the log answered for fewer events than it was given";
                    return Err(StoreError::Unavailable(reason.to_owned()));
                }
            },
        };
        answer.results.push(result);
    }
    if status(&answer) == StatusCode::BAD_REQUEST {
        let error = "No event was accepted; each result says why.";
        answer.error = Some(NoneAccepted { error, code: "no_event_accepted" });
    }
    Ok(answer)
}

/// 200 when every event is kept or known, 400 when none is an event, 207 when it is some of each.
fn status(answer: &Answer) -> StatusCode {
    match (answer.rejected, answer.accepted + answer.duplicate) {
        (0, _) => StatusCode::OK,
        (_, 0) => StatusCode::BAD_REQUEST,
        _ => StatusCode::MULTI_STATUS,
    }
}

#[cfg(test)]
mod tests {
    use freshet_feed::{Epoch, Position};

    use super::*;

    fn event(id: &str) -> Place {
        Place::Event(id.to_owned())
    }

    #[test]
    fn answers_stand_in_the_order_of_the_events() {
        let position = Position { epoch: Epoch(1), offset: 9 };
        let rejection =
            freshet_feed::decode::decode_event(&"7".into(), &freshet_feed::Limits::default()).unwrap_err();
        let places = vec![event("a"), Place::Rejected(rejection), event("b")];
        let answer = answer(places, vec![Outcome::Duplicate, Outcome::Accepted { position }]).unwrap();
        assert_eq!((answer.accepted, answer.duplicate, answer.rejected), (1, 1, 1));
        assert_eq!(answer.results[0], EventResult::Duplicate { event_id: "a".to_owned() });
        assert!(matches!(answer.results[1], EventResult::Rejected { .. }));
        assert_eq!(
            answer.results[2],
            EventResult::Accepted { event_id: "b".to_owned(), position: position.to_string() }
        );
        assert_eq!(status(&answer), StatusCode::MULTI_STATUS);
    }
}
