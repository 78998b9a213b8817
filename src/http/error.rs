//! Errors as clients see them: `{"error": "a sentence", "code": "stable_word"}`.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use freshet_feed::port::StoreError;
use freshet_feed::scope::Denied;
use serde::Serialize;

/// The JSON body of every error.
#[derive(Debug, Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    code: &'a str,
}

/// An error with its status, its stable machine code and a sentence for people.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// The stable machine code.
    pub code: &'static str,
    /// A sentence that says what to do.
    pub message: String,
}

impl ApiError {
    /// The request is wrong, and will be wrong again.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code, message: message.into() }
    }

    /// What was asked for is not here.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, code: "not_found", message: message.into() }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        // The store's own words may name files and hosts: they go to the log of the room, not to clients.
        let message = match error {
            StoreError::Unavailable(_) => "The store cannot take or give events now. Try again later.",
            StoreError::Stopping => "This instance is stopping. Try again, another one will answer.",
        };
        Self { status: StatusCode::SERVICE_UNAVAILABLE, code: error.code(), message: message.into() }
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        let message = format!("{denied}.");
        match denied {
            Denied::UnknownChannel | Denied::UnknownRoom => {
                Self { status: StatusCode::NOT_FOUND, code: denied.code(), message }
            }
            Denied::TooMany => Self::bad_request(denied.code(), message),
        }
    }
}

impl actix_web::ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if self.status == StatusCode::UNAUTHORIZED {
            // RFC 9110, section 15.5.2: it must say how.
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.insert_header((RETRY_AFTER, "2"));
        }
        response.json(ErrorBody { error: &self.message, code: self.code })
    }
}
