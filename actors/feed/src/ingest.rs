//! Turns what a source hands over into events: the body of `POST /api/v2/events`, or one message of a broker.
//!
//! | content type | body |
//! |---|---|
//! | `application/json`, or another that ends in `+json` | one event; an array of events; or several events, each on a line of its own |
//! | `application/x-ndjson` (also `ndjson`, `jsonl`, `jsonlines`, with and without `x-`) | one event on each line; empty lines count for nothing |
//! | `application/cloudevents+json` | one CloudEvent in structured mode |
//! | `application/cloudevents-batch+json` | an array of them; it may be empty |
//! | JSON, and a header `ce-specversion` | one CloudEvent in binary mode |
//!
//! A request must name one of these types. A page of another site cannot send them from a browser without asking
//! first, and it could send a request without a type, as a form or as plain text.
//!
//! What is wrong with one event rejects this event, and the others are read. What is wrong with the request
//! (its type, its size, an array that is not JSON) refuses the whole, and nothing of it is taken.

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::cloud_events::{Binding, decode_binary, decode_structured};
use crate::decode::trim;
use crate::limits::Limits;
use crate::{Event, Intake, Rejection};

/// Why a request was refused whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// `unsupported_media_type`: the content type is none that carries events, or the charset is not UTF-8.
    #[error("the content type must be JSON, NDJSON or CloudEvents in JSON, in UTF-8")]
    UnsupportedMediaType,
    /// `request_empty`: there is no event in it.
    #[error("the body has no event")]
    Empty,
    /// `request_too_large`: the body has more bytes than the limit.
    #[error("the body has {found_bytes} bytes, the limit is {limit_bytes}")]
    TooLarge {
        /// The size of the body.
        found_bytes: usize,
        /// [`Limits::max_request_bytes`].
        limit_bytes: usize,
    },
    /// `request_too_many_events`: it has more events than the limit.
    #[error("the body has more than {limit} events")]
    TooManyEvents {
        /// [`Limits::max_request_events`].
        limit: usize,
    },
    /// `request_not_utf8`: an array that is not UTF-8.
    #[error("the array is not UTF-8")]
    NotUtf8,
    /// `request_not_json`: it should be an array, but is not JSON, or is another JSON value.
    #[error("not a JSON array: line {line}, column {column}")]
    NotJson {
        /// Counted from 1.
        line: usize,
        /// In bytes, counted from 1.
        column: usize,
    },
}

impl RequestError {
    /// The codes of all these errors.
    pub const CODES: [&'static str; 6] = [
        "unsupported_media_type",
        "request_empty",
        "request_too_large",
        "request_too_many_events",
        "request_not_utf8",
        "request_not_json",
    ];

    /// The stable machine code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::Empty => "request_empty",
            Self::TooLarge { .. } => "request_too_large",
            Self::TooManyEvents { .. } => "request_too_many_events",
            Self::NotUtf8 => "request_not_utf8",
            Self::NotJson { .. } => "request_not_json",
        }
    }
}

/// Media type without its parameters, in lower case; `None` when it names a charset other than UTF-8.
fn essence(content_type: &str) -> Option<String> {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next()?.to_ascii_lowercase();
    let utf8 = |value: &str| {
        let value = value.trim_matches('"');
        value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
    };
    let other_charset = parts
        .filter_map(|parameter| parameter.split_once('='))
        .any(|(name, value)| name.trim().eq_ignore_ascii_case("charset") && !utf8(value.trim()));
    (!other_charset).then_some(essence)
}

/// Whether a content type is JSON in UTF-8.
pub(crate) fn is_json(content_type: &str) -> bool {
    essence(content_type).is_some_and(|essence| {
        matches!(&*essence, "application/json" | "text/json") || essence.ends_with("+json")
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Lines,
    CloudEvent,
    CloudEvents,
}

fn format_of(content_type: &str) -> Option<Format> {
    let essence = essence(content_type)?;
    match &*essence {
        "application/cloudevents+json" => Some(Format::CloudEvent),
        "application/cloudevents-batch+json" => Some(Format::CloudEvents),
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonl"
        | "application/jsonlines"
        | "application/x-jsonlines" => Some(Format::Lines),
        _ => is_json(&essence).then_some(Format::Json),
    }
}

/// Reads the body of a request. The answers stand in the order of the events.
///
/// # Errors
/// When the request is refused whole.
pub fn decode_request<'a>(
    content_type: Option<&str>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    body: &Bytes,
    intake: &Intake,
) -> Result<Vec<Result<Event, Rejection>>, RequestError> {
    let limits = &intake.limits;
    let format = content_type.and_then(format_of).ok_or(RequestError::UnsupportedMediaType)?;
    if body.len() > limits.max_request_bytes {
        return Err(RequestError::TooLarge {
            found_bytes: body.len(),
            limit_bytes: limits.max_request_bytes,
        });
    }
    let content = trim(body);
    if content.is_empty() {
        return Err(RequestError::Empty);
    }
    let events = |parts: Vec<Bytes>| parts.iter().map(|part| intake.decode(part)).collect();
    match format {
        Format::CloudEvent => Ok(vec![decode_structured(&content, intake)]),
        Format::CloudEvents => {
            let envelopes = elements(&content, limits)?;
            Ok(envelopes.iter().map(|envelope| decode_structured(envelope, intake)).collect())
        }
        Format::Json if Binding::HTTP.is_binary(headers.clone()) => {
            Ok(vec![decode_binary(Binding::HTTP, headers, content_type, &content, intake)])
        }
        Format::Json if content.starts_with(b"[") => match elements(&content, limits)? {
            none if none.is_empty() => Err(RequestError::Empty),
            parts => Ok(events(parts)),
        },
        Format::Json if !is_lines(&content) => Ok(vec![intake.decode(&content)]),
        Format::Json | Format::Lines => Ok(events(lines(&content, limits)?)),
    }
}

/// Reads one message of a broker: a CloudEvent when its content type or its headers say so, otherwise an event.
/// Other content types say nothing, since brokers set them as they like.
///
/// # Errors
/// When the message is no event.
pub fn decode_message<'a>(
    binding: Binding,
    content_type: Option<&str>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    body: &Bytes,
    intake: &Intake,
) -> Result<Event, Rejection> {
    if content_type.and_then(format_of) == Some(Format::CloudEvent) {
        return decode_structured(body, intake);
    }
    if binding.is_binary(headers.clone()) {
        return decode_binary(binding, headers, content_type.filter(|given| is_json(given)), body, intake);
    }
    intake.decode(body)
}

/// The elements of a JSON array, as they stand in it.
fn elements(content: &Bytes, limits: &Limits) -> Result<Vec<Bytes>, RequestError> {
    let limit = limits.max_request_events;
    let text = std::str::from_utf8(content).map_err(|_| RequestError::NotUtf8)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut parts = Vec::new();
    // Stops at the limit, so that an array of a million ones never becomes a million slices.
    let read = Elements { content, parts: &mut parts, limit }.deserialize(&mut deserializer);
    if parts.len() > limit {
        return Err(RequestError::TooManyEvents { limit });
    }
    read.and_then(|()| deserializer.end())
        .map_err(|error| RequestError::NotJson { line: error.line(), column: error.column() })?;
    Ok(parts)
}

struct Elements<'a> {
    content: &'a Bytes,
    parts: &'a mut Vec<Bytes>,
    limit: usize,
}

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while self.parts.len() <= self.limit
            && let Some(part) = sequence.next_element::<&'de RawValue>()?
        {
            self.parts.push(self.content.slice_ref(part.get().as_bytes()));
        }
        Ok(())
    }
}

/// Whether the first line is a JSON value of its own and other lines follow. A single event that is printed over
/// several lines has a first line that is no value.
fn is_lines(content: &[u8]) -> bool {
    let Some(end) = content.iter().position(|byte| *byte == b'\n') else { return false };
    serde_json::from_slice::<&RawValue>(&content[..end]).is_ok()
}

fn lines(content: &Bytes, limits: &Limits) -> Result<Vec<Bytes>, RequestError> {
    let mut parts = Vec::new();
    for line in content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        if parts.len() == limits.max_request_events {
            return Err(RequestError::TooManyEvents { limit: limits.max_request_events });
        }
        parts.push(content.slice_ref(line));
    }
    Ok(parts)
}
