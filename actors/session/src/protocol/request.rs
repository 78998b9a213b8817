//! What a client says. Pure: the text of one message in, a request or a refusal out.

use freshet_feed::channel::ChannelName;
use freshet_feed::filter::FilterError;
use freshet_feed::scope::{Denied, MAX_ROOMS};
use freshet_feed::{EventFilter, Position, Secret};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::members::Members;
use crate::renewal::Credential;

/// The longest `id` of a message, in bytes.
pub(crate) const MAX_ID_BYTES: usize = 64;
/// The longest position or event id to start from, in bytes.
pub(crate) const MAX_START_BYTES: usize = 1024;
/// The longest token or ticket, in bytes.
pub(crate) const MAX_CREDENTIAL_BYTES: usize = 16 << 10;
/// The most events that a subscription may have unacknowledged.
pub(crate) const MAX_WINDOW: u32 = 65_536;
/// The most updates a second that a subscription may ask to be held to.
pub(crate) const MAX_RATE: u32 = 1_000;

/// A message of a client, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// What the answer repeats.
    pub(crate) id: Option<String>,
    pub(crate) message: ClientMessage,
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientMessage {
    Subscribe(Box<Subscribe>),
    Unsubscribe {
        channel: ChannelName,
    },
    /// It has everything of the channel up to and with this position.
    Ack {
        channel: ChannelName,
        position: Position,
    },
    Ping,
    /// The session is to go on with this, instead of ending with its token.
    Renew(Credential),
}

/// A channel that a client wants to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscribe {
    pub(crate) channel: ChannelName,
    pub(crate) from: Start,
    /// Empty is every room that it may see. Who may see which, and how long a name may be, is judged with the
    /// channel.
    pub(crate) rooms: Vec<String>,
    pub(crate) filter: EventFilter,
    /// The most events that are sent and not acknowledged; 1 to [`MAX_WINDOW`].
    pub(crate) window: Option<u32>,
    /// The most events a second; 1 to [`MAX_RATE`].
    pub(crate) max_rate_per_sec: Option<u32>,
}

/// Where a subscription starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With what comes from now on.
    Now,
    /// With the newest event of each key.
    Snapshot,
    /// After this position.
    Position(Position),
    /// After the event with this id.
    EventId(String),
}

/// A message is refused. What could be read of it for the answer is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct ProtocolError {
    pub(crate) problem: Problem,
    /// The message's `id`, where it has a valid one.
    pub(crate) id: Option<String>,
    /// The message's channel, where it names one that can be.
    pub(crate) channel: Option<ChannelName>,
}

/// Why a message is refused. No text of the client's is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("the message is not one JSON value")]
    NotJson,
    #[error("the message is not a JSON object")]
    NotAnObject,
    #[error("a member stands twice")]
    DuplicateField,
    #[error("a member is not known in {0}")]
    UnknownField(&'static str),
    #[error("{0} is missing")]
    MissingField(&'static str),
    #[error("unknown type; known are subscribe, unsubscribe, ack, ping and renew")]
    UnknownType,
    #[error("{field} must be {expected}")]
    InvalidField { field: &'static str, expected: &'static str },
    #[error("the position is not 16 hexadecimal digits, a hyphen and a decimal offset")]
    InvalidPosition,
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error(transparent)]
    Denied(#[from] Denied),
}

impl Problem {
    /// The stable machine code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NotJson => "invalid_json",
            Self::NotAnObject => "not_an_object",
            Self::DuplicateField => "duplicate_field",
            Self::UnknownField(_) => "unknown_field",
            Self::MissingField(_) => "missing_field",
            Self::UnknownType => "unknown_type",
            Self::InvalidField { .. } => "invalid_field",
            Self::InvalidPosition => "invalid_position",
            Self::Filter(error) => error.code(),
            Self::Denied(error) => error.code(),
        }
    }
}

/// Reads one message. How long it may be is judged by the frames that it comes in.
///
/// # Errors
/// When it is no message of the protocol.
pub(crate) fn read(text: &[u8]) -> Result<Request, ProtocolError> {
    let refused = |problem| ProtocolError { problem, id: None, channel: None };
    let raw: &RawValue = serde_json::from_slice(text).map_err(|_| refused(Problem::NotJson))?;
    let members = members_of(raw).ok_or(refused(Problem::NotAnObject))?;
    let id = members.text("id").filter(|id| id.len() <= MAX_ID_BYTES);
    match message(&members) {
        Ok(message) => Ok(Request { id, message }),
        Err(problem) => {
            let channel = members.text("channel").and_then(|name| ChannelName::new(&name));
            Err(ProtocolError { problem, id, channel })
        }
    }
}

fn message(members: &Members<'_>) -> Result<ClientMessage, Problem> {
    if members.has_duplicate() {
        return Err(Problem::DuplicateField);
    }
    let type_name: String = required(members, "type", "a text")?;
    match type_name.as_str() {
        "subscribe" => {
            let known = ["type", "id", "channel", "from", "room", "filter", "window", "maxRate"];
            only(members, &known, "subscribe")?;
            Ok(ClientMessage::Subscribe(Box::new(Subscribe {
                channel: channel(members)?,
                from: members.get("from").map_or(Ok(Start::Now), start)?,
                rooms: rooms(members)?,
                filter: members.get("filter").map_or(Ok(EventFilter::default()), filter)?,
                window: number(members, "window", MAX_WINDOW, "a whole number from 1 to 65536")?,
                max_rate_per_sec: number(members, "maxRate", MAX_RATE, "a whole number from 1 to 1000")?,
            })))
        }
        "unsubscribe" => {
            only(members, &["type", "id", "channel"], "unsubscribe")?;
            Ok(ClientMessage::Unsubscribe { channel: channel(members)? })
        }
        "ack" => {
            only(members, &["type", "id", "channel", "position"], "ack")?;
            let channel = channel(members)?;
            let position: String = required(members, "position", "a text")?;
            Ok(ClientMessage::Ack {
                channel,
                position: position.parse().map_err(|_| Problem::InvalidPosition)?,
            })
        }
        "ping" => {
            only(members, &["type", "id"], "ping")?;
            Ok(ClientMessage::Ping)
        }
        "renew" => {
            only(members, &["type", "id", "token", "ticket"], "renew")?;
            Ok(ClientMessage::Renew(credential(members)?))
        }
        _ => Err(Problem::UnknownType),
    }
}

/// Refuses other members, and an `id` that cannot be repeated.
fn only(members: &Members<'_>, known: &[&str], object: &'static str) -> Result<(), Problem> {
    if members.names().any(|name| !known.contains(&name)) {
        return Err(Problem::UnknownField(object));
    }
    let id: Option<String> = optional(members, "id", ID)?;
    if id.is_some_and(|id| id.len() > MAX_ID_BYTES) {
        return Err(Problem::InvalidField { field: "id", expected: ID });
    }
    Ok(())
}

const ID: &str = "a text of at most 64 bytes";

fn channel(members: &Members<'_>) -> Result<ChannelName, Problem> {
    let name: String = required(members, "channel", "a text")?;
    // A name that cannot be is answered like one that is not.
    ChannelName::new(&name).ok_or(Problem::Denied(Denied::UnknownChannel))
}

fn start(value: &RawValue) -> Result<Start, Problem> {
    const EXPECTED: &str = "\"now\", \"snapshot\", {\"position\": text} or {\"eventId\": text}";
    const INVALID: Problem = Problem::InvalidField { field: "from", expected: EXPECTED };
    let Some(members) = members_of(value) else {
        return match serde_json::from_str::<String>(value.get()).as_deref() {
            Ok("now") => Ok(Start::Now),
            Ok("snapshot") => Ok(Start::Snapshot),
            _ => Err(INVALID),
        };
    };
    if members.has_duplicate() {
        return Err(Problem::DuplicateField);
    }
    only(&members, &["position", "eventId"], "from")?;
    match (members.get("position"), members.get("eventId")) {
        (Some(_), None) => {
            let text = members.text("position").ok_or(INVALID)?;
            Ok(Start::Position(text.parse().map_err(|_| Problem::InvalidPosition)?))
        }
        (None, Some(_)) => {
            let event_id = members.text("eventId").ok_or(INVALID)?;
            if event_id.is_empty() || event_id.len() > MAX_START_BYTES {
                return Err(Problem::InvalidField {
                    field: "eventId",
                    expected: "a text of 1 to 1024 bytes",
                });
            }
            Ok(Start::EventId(event_id))
        }
        _ => Err(INVALID),
    }
}

fn rooms(members: &Members<'_>) -> Result<Vec<String>, Problem> {
    const EXPECTED: &str = "a list of 1 to 64 texts; without it, every room";
    let rooms: Option<Vec<String>> = optional(members, "room", EXPECTED)?;
    match rooms {
        None => Ok(Vec::new()),
        Some(rooms) if (1..=MAX_ROOMS).contains(&rooms.len()) => Ok(rooms),
        Some(_) => Err(Problem::InvalidField { field: "room", expected: EXPECTED }),
    }
}

/// The filter of the query parameters of the same names, so that what one wants the other wants: a comma parts
/// alternatives here too. A list must name something, lest a client that wants nothing gets everything.
fn filter(value: &RawValue) -> Result<EventFilter, Problem> {
    const EXPECTED: &str = "a list of texts that are not empty; without it, everything";
    let members =
        members_of(value).ok_or(Problem::InvalidField { field: "filter", expected: "an object" })?;
    if members.has_duplicate() {
        return Err(Problem::DuplicateField);
    }
    only(&members, &["table", "operation", "application", "schemaChanged"], "filter")?;
    let mut parameters = Vec::new();
    for name in ["table", "operation", "application"] {
        let Some(texts) = optional::<Vec<String>>(&members, name, EXPECTED)? else { continue };
        let names_nothing = |text: &String| text.split(',').all(|part| part.trim().is_empty());
        if texts.is_empty() || texts.iter().any(names_nothing) {
            return Err(Problem::InvalidField { field: name, expected: EXPECTED });
        }
        parameters.extend(texts.into_iter().map(|text| (name, text)));
    }
    if let Some(wanted) = optional::<bool>(&members, "schemaChanged", "true or false")? {
        parameters.push(("schemaChanged", wanted.to_string()));
    }
    Ok(EventFilter::from_query(parameters.iter().map(|(name, text)| (*name, text.as_str())))?)
}

fn credential(members: &Members<'_>) -> Result<Credential, Problem> {
    const EXPECTED: &str = "a text of 1 to 16384 bytes";
    let secret = |field| {
        let text: String = required(members, field, EXPECTED)?;
        if text.is_empty() || text.len() > MAX_CREDENTIAL_BYTES {
            return Err(Problem::InvalidField { field, expected: EXPECTED });
        }
        Ok(Secret::new(text))
    };
    match (members.get("token"), members.get("ticket")) {
        (Some(_), None) => Ok(Credential::Token(secret("token")?)),
        (None, Some(_)) => Ok(Credential::Ticket(secret("ticket")?)),
        (None, None) => Err(Problem::MissingField("token or ticket")),
        (Some(_), Some(_)) => {
            Err(Problem::InvalidField { field: "renew", expected: "with a token or a ticket, not both" })
        }
    }
}

fn number(
    members: &Members<'_>,
    field: &'static str,
    max: u32,
    expected: &'static str,
) -> Result<Option<u32>, Problem> {
    let number: Option<u32> = optional(members, field, expected)?;
    if number.is_some_and(|number| number == 0 || number > max) {
        return Err(Problem::InvalidField { field, expected });
    }
    Ok(number)
}

fn required<'a, T: Deserialize<'a>>(
    members: &Members<'a>,
    field: &'static str,
    expected: &'static str,
) -> Result<T, Problem> {
    optional(members, field, expected)?.ok_or(Problem::MissingField(field))
}

fn optional<'a, T: Deserialize<'a>>(
    members: &Members<'a>,
    field: &'static str,
    expected: &'static str,
) -> Result<Option<T>, Problem> {
    let Some(value) = members.get(field) else { return Ok(None) };
    let read = serde_json::from_str(value.get());
    read.map(Some).map_err(|_| Problem::InvalidField { field, expected })
}

/// `None` when it is another JSON value than an object.
fn members_of(value: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
