//! Reads a table-commit event: strictly enough to be trusted, leniently enough to be useful.
//!
//! | field | rule |
//! |---|---|
//! | `eventId`, `tableIdentifier`, `eventType` | required texts |
//! | `eventTimestamp` | required, RFC 3339 with an offset. A number is refused: clients read a text, and seconds, milliseconds and microseconds look alike |
//! | `sourceApplication` | optional text; empty is absent |
//! | `payload` | an object; required for `COMMIT_SUCCESS` |
//! | `payload.operation` | a text; required for `COMMIT_SUCCESS`, otherwise optional |
//! | `payload.snapshotId` | optional; an integer of 64 bits as a number or a decimal text. A fraction or an exponent is refused, whatever its value |
//! | `payload.schemaChanged` | optional boolean |
//! | `payload.summary` | optional object. A count is a text, or a number that is an integer. A text that is no whole number of 0 or more within 64 bits makes the count unknown and stays in the body |
//!
//! Texts have no control characters and no white space at an end, and have a length limit: they go into lines
//! and headers, from which they must come back as they were. `null` counts as absent. A field that stands twice
//! in one of these three objects is refused, since readers would disagree on it. Other fields, and entries of
//! the summary that are not read here, are kept whatever they are.

use std::borrow::Cow;

use bytes::Bytes;

use crate::channel::ChannelName;
use crate::event::{Commit, Event, Summary, iceberg_mutation};
use crate::limits::{Limits, MAX_EVENT_ID_BYTES, MAX_TABLE_BYTES, MAX_TEXT_BYTES};
use crate::members::{Members, NotMembers, is_deeper_than, string_of};
use crate::rejection::{Rejection, RejectionCode};
use crate::timestamp;

/// The event type of a commit that went through; such an event names its operation.
pub const COMMIT_SUCCESS: &str = "COMMIT_SUCCESS";

/// Every field that is read, by its path.
pub const FIELDS: [&str; 14] = [
    "eventId",
    "eventTimestamp",
    "sourceApplication",
    "tableIdentifier",
    "eventType",
    "payload",
    "payload.operation",
    "payload.snapshotId",
    "payload.schemaChanged",
    "payload.summary",
    "payload.summary.added-records",
    "payload.summary.deleted-records",
    "payload.summary.added-data-files",
    "payload.summary.deleted-data-files",
];

/// Reads one event. Its body shares the memory of `bytes`, without white space and byte order mark around it.
///
/// # Errors
/// When the bytes are no event by the rules of this module.
pub fn decode_event(bytes: &Bytes, limits: &Limits) -> Result<Event, Rejection> {
    check_size(bytes, limits)?;
    let body = body_of(bytes, limits)?;
    let members = members_of(&body)?;
    check_duplicates(&members, None)?;

    let event_id = required(text_of(&members, "eventId", MAX_EVENT_ID_BYTES)?, "eventId")?;
    let timestamp = timestamp_of(&members)?;
    let source_application = optional_text(&members, "sourceApplication")?;
    let table = required(text_of(&members, "tableIdentifier", MAX_TABLE_BYTES)?, "tableIdentifier")?;
    let event_type = required(text_of(&members, "eventType", MAX_TEXT_BYTES)?, "eventType")?;
    let payload = Payload::read(&members)?;
    let table = table.into_owned();
    if event_type == COMMIT_SUCCESS {
        required(members.get("payload"), "payload")?;
        required(payload.operation.as_ref(), "payload.operation")?;
    }
    Ok(Event {
        event_id: event_id.into_owned(),
        channel: ChannelName::iceberg(),
        name: iceberg_mutation(),
        key: Some(table.clone()),
        room: None,
        timestamp,
        source_application,
        commit: Some(Commit {
            table,
            event_type: event_type.into_owned(),
            operation: payload.operation,
            snapshot_id: payload.snapshot_id,
            schema_changed: payload.schema_changed,
            summary: payload.summary,
        }),
        body,
    })
}

/// The bytes without white space and byte order mark around them; UTF-8, and not too deep.
pub(crate) fn body_of(bytes: &Bytes, limits: &Limits) -> Result<Bytes, Rejection> {
    let body = trim(bytes);
    let text = std::str::from_utf8(&body).map_err(|error| {
        Rejection::whole(RejectionCode::NotUtf8, format!("not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    if is_deeper_than(text, limits.max_event_depth) {
        let message = format!("more than {} levels of objects and arrays", limits.max_event_depth);
        return Err(Rejection::whole(RejectionCode::TooDeep, message));
    }
    Ok(body)
}

/// The members of an object that [`body_of`] has checked.
pub(crate) fn members_of(body: &[u8]) -> Result<Members<'_>, Rejection> {
    Members::read(std::str::from_utf8(body).unwrap_or_default()).map_err(|error| match error {
        NotMembers::NotJson { line, column } => Rejection::whole(
            RejectionCode::NotJson,
            format!("not one JSON value: line {line}, column {column}"),
        ),
        NotMembers::NotObject => Rejection::whole(RejectionCode::NotObject, "not a JSON object"),
    })
}

pub(crate) fn check_size(bytes: &Bytes, limits: &Limits) -> Result<(), Rejection> {
    if bytes.len() <= limits.max_event_bytes {
        return Ok(());
    }
    let message = format!("{} bytes, the limit is {}", bytes.len(), limits.max_event_bytes);
    Err(Rejection::whole(RejectionCode::TooLarge, message))
}

/// The bytes without a byte order mark before them and without JSON's white space around them.
pub(crate) fn trim(bytes: &Bytes) -> Bytes {
    let content = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.slice_ref(content.trim_ascii())
}

#[derive(Default)]
struct Payload {
    operation: Option<String>,
    snapshot_id: Option<i64>,
    schema_changed: Option<bool>,
    summary: Summary,
}

impl Payload {
    fn read(event: &Members<'_>) -> Result<Self, Rejection> {
        let Some(payload) = object_of(event, "payload")? else { return Ok(Self::default()) };
        let schema_changed = match payload.get("schemaChanged") {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(wrong_type("payload.schemaChanged", "neither true nor false")),
        };
        let summary = match object_of(&payload, "payload.summary")? {
            None => Summary::default(),
            Some(summary) => Summary {
                added_records: count_of(&summary, "payload.summary.added-records")?,
                deleted_records: count_of(&summary, "payload.summary.deleted-records")?,
                added_data_files: count_of(&summary, "payload.summary.added-data-files")?,
                deleted_data_files: count_of(&summary, "payload.summary.deleted-data-files")?,
            },
        };
        Ok(Self {
            operation: optional_text(&payload, "payload.operation")?,
            snapshot_id: id_of(&payload, "payload.snapshotId")?,
            schema_changed,
            summary,
        })
    }
}

/// The value of a field in the object that holds it, by the field's path.
fn value_of<'a>(object: &Members<'a>, path: &'static str) -> Option<&'a str> {
    object.get(path.rsplit('.').next().unwrap_or(path))
}

fn required<T>(value: Option<T>, field: &'static str) -> Result<T, Rejection> {
    value.ok_or_else(|| Rejection::field(RejectionCode::MissingField, field, "required, but absent"))
}

fn wrong_type(field: &'static str, message: &'static str) -> Rejection {
    Rejection::field(RejectionCode::WrongType, field, message)
}

/// Refuses a name that stands twice. Names it when the contract does, and otherwise the object around it.
pub(crate) fn check_duplicates(object: &Members<'_>, path: Option<&'static str>) -> Result<(), Rejection> {
    let Some(name) = object.duplicate() else { return Ok(()) };
    let full = path.map_or_else(|| name.to_owned(), |path| format!("{path}.{name}"));
    let field = FIELDS.into_iter().find(|field| *field == full).or(path);
    Err(Rejection { code: RejectionCode::DuplicateField, field, message: "a field stands twice".into() })
}

fn object_of<'a>(object: &Members<'a>, field: &'static str) -> Result<Option<Members<'a>>, Rejection> {
    let Some(raw) = value_of(object, field) else { return Ok(None) };
    let members = Members::read(raw).map_err(|error| match error {
        NotMembers::NotObject => wrong_type(field, "not an object"),
        // The outer read takes strings as they are; a name that is not Unicode shows only here.
        NotMembers::NotJson { .. } => {
            Rejection::field(RejectionCode::InvalidText, field, "the name of a field is not Unicode")
        }
    })?;
    check_duplicates(&members, Some(field))?;
    Ok(Some(members))
}

fn string_at<'a>(object: &Members<'a>, field: &'static str) -> Result<Option<Cow<'a, str>>, Rejection> {
    let Some(raw) = value_of(object, field) else { return Ok(None) };
    match string_of(raw) {
        None => Err(wrong_type(field, "not a text")),
        Some(Err(_)) => Err(Rejection::field(RejectionCode::InvalidText, field, "not Unicode")),
        Some(Ok(text)) => Ok(Some(text)),
    }
}

fn text_of<'a>(
    object: &Members<'a>,
    field: &'static str,
    max_bytes: usize,
) -> Result<Option<Cow<'a, str>>, Rejection> {
    let Some(text) = string_at(object, field)? else { return Ok(None) };
    let invalid = |message| Err(Rejection::field(RejectionCode::InvalidText, field, message));
    if text.is_empty() {
        return invalid("empty");
    }
    if text.len() > max_bytes {
        let message = format!("{} bytes, the limit is {max_bytes}", text.len());
        return Err(Rejection::field(RejectionCode::TextTooLong, field, message));
    }
    if text.contains(char::is_control) {
        return invalid("has control characters");
    }
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return invalid("begins or ends with white space");
    }
    Ok(Some(text))
}

fn optional_text(object: &Members<'_>, field: &'static str) -> Result<Option<String>, Rejection> {
    if value_of(object, field) == Some("\"\"") {
        return Ok(None);
    }
    Ok(text_of(object, field, MAX_TEXT_BYTES)?.map(Cow::into_owned))
}

fn timestamp_of(event: &Members<'_>) -> Result<jiff::Timestamp, Rejection> {
    let text = required(string_at(event, "eventTimestamp")?, "eventTimestamp")?;
    timestamp::parse(&text).ok_or_else(|| {
        let message = "not an RFC 3339 time with an offset, such as 2023-10-27T10:25:40.123Z";
        Rejection::field(RejectionCode::InvalidTimestamp, "eventTimestamp", message)
    })
}

/// Whether it is an integer by JSON's grammar.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = digits == "0" || !digits.starts_with('0');
    canonical && !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

fn id_of(payload: &Members<'_>, field: &'static str) -> Result<Option<i64>, Rejection> {
    let Some(raw) = value_of(payload, field) else { return Ok(None) };
    let text = if is_number(raw) { Some(Cow::Borrowed(raw)) } else { string_at(payload, field)? };
    let Some(text) = text else { return Ok(None) };
    if !is_integer(&text) {
        // A text such as "1e3" is a float that was printed; other texts are no number at all.
        let is_float = text.contains(['.', 'e', 'E']) && serde_json::from_str::<f64>(&text).is_ok();
        return Err(if is_float || is_number(raw) {
            let message =
                "written with a fraction or an exponent; send all its digits, as a number or a text";
            Rejection::field(RejectionCode::InexactId, field, message)
        } else {
            wrong_type(field, "neither an integer nor a text of decimal digits")
        });
    }
    text.parse().map(Some).map_err(|_| {
        Rejection::field(RejectionCode::IdOutOfRange, field, "does not fit a signed 64-bit integer")
    })
}

fn count_of(summary: &Members<'_>, field: &'static str) -> Result<Option<i64>, Rejection> {
    let Some(raw) = value_of(summary, field) else { return Ok(None) };
    let text = if is_number(raw) {
        if !is_integer(raw) {
            return Err(wrong_type(field, "a number, but not an integer"));
        }
        Cow::Borrowed(raw)
    } else {
        let Some(text) = string_at(summary, field)? else { return Ok(None) };
        text
    };
    Ok(Some(text)
        .filter(|text| is_integer(text))
        .and_then(|text| text.parse().ok())
        .filter(|count| *count >= 0))
}
