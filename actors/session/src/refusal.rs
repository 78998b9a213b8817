//! Why a client cannot come in now, and how each kind of client is told.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use crate::close_code::CloseCode;
use crate::config::Config;
use crate::events::stream_headers;
use crate::notice;

/// Why one more client cannot come in now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The daemon is stopping.
    Draining,
    /// The event log was not read yet.
    StoreUnavailable,
    /// As many clients are connected as may be.
    TooManySessions,
    /// The server cannot give its sockets away: it was not built by [`serve`](crate::serve).
    ForeignServer,
}

impl Refusal {
    fn error(self) -> &'static str {
        match self {
            Self::Draining => "the daemon is stopping",
            Self::StoreUnavailable => "the event log cannot be read yet",
            Self::TooManySessions => "as many clients are connected as may be",
            Self::ForeignServer => "this server cannot give its sockets away",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::StoreUnavailable => "store_unavailable",
            Self::TooManySessions => "too_many_sessions",
            Self::ForeignServer => "internal_error",
        }
    }

    fn close_code(self) -> CloseCode {
        match self {
            Self::Draining => CloseCode::ShuttingDown,
            Self::StoreUnavailable => CloseCode::StoreUnavailable,
            Self::TooManySessions => CloseCode::TooManySessions,
            Self::ForeignServer => CloseCode::InternalError,
        }
    }

    /// The answer with its status, and when to come back.
    pub(crate) fn response(self, config: &Config) -> HttpResponse {
        if self == Self::ForeignServer {
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, self.error(), self.code());
        }
        let seconds = config.retry().as_millis().div_ceil(1000);
        HttpResponse::ServiceUnavailable()
            .insert_header((header::RETRY_AFTER, seconds.to_string()))
            .json(json!({ "error": self.error(), "code": self.code() }))
    }

    /// A browser's `EventSource` gives up for good at any status but 200. It gets a stream that says when to come back,
    /// and ends; others get the refusal with its status.
    pub(crate) fn for_event_source(self, request: &HttpRequest, config: &Config) -> HttpResponse {
        let accepts = request.headers().get(header::ACCEPT);
        if accepts.is_none_or(|accepted| accepted.as_bytes() != b"text/event-stream") {
            return self.response(config);
        }
        stream_headers().body(notice::close(self.close_code(), config.retry()))
    }
}

/// A request that is refused for good, with a sentence and a stable code.
pub(crate) fn refuse(status: StatusCode, error: &str, code: &str) -> HttpResponse {
    HttpResponse::build(status).json(json!({ "error": error, "code": code }))
}
