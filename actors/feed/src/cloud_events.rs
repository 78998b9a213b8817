//! The same event inside a CloudEvent 1.0: structured (an envelope in JSON) or binary (attributes in headers).
//!
//! The event is the CloudEvent's `data`, byte for byte. A field that the data does not have is filled from the
//! attribute that means the same, spliced in front of the data's own fields:
//!
//! | field | attribute |
//! |---|---|
//! | `eventId` | `id`. CloudEvents asks that it is unique for each `source`; here it must be unique, as a UUID is |
//! | `eventTimestamp` | `time` |
//! | `sourceApplication` | `source` |
//! | `tableIdentifier` | `subject` |
//! | `eventType` | `type`. No default is invented: a commit whose operation must be known says `COMMIT_SUCCESS` in one of the two |
//!
//! A field that the data has, even as null, is not filled. Extension attributes are not passed on. 64-bit ids
//! stand in the data, as a number or a text; CloudEvents' own Integer has 32 bits only.
//!
//! Sources: CloudEvents 1.0.2, its JSON event format (sections 2 to 4) and its HTTP binding (section 3.1.3).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::channel::Format;
use crate::decode::{check_size, trim};
use crate::intake::Envelope;
use crate::members::{Members, string_of};
use crate::rejection::{Rejection, RejectionCode};
use crate::{Event, Intake, ingest};

/// The attributes that are read, in the order in which a missing field is filled from them.
const ATTRIBUTES: [(&str, &str); 5] = [
    ("id", "eventId"),
    ("time", "eventTimestamp"),
    ("source", "sourceApplication"),
    ("subject", "tableIdentifier"),
    ("type", "eventType"),
];

/// How a protocol carries the attributes of a binary CloudEvent in its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What stands before the attribute's name. Case does not matter.
    pub prefix: &'static str,
    /// Whether values are percent-encoded, and perhaps quoted.
    pub percent_encoded: bool,
}

impl Binding {
    /// HTTP: `ce-id: …`, percent-encoded.
    pub const HTTP: Self = Self { prefix: "ce-", percent_encoded: true };
    /// Kafka: `ce_id`, plain UTF-8. Fits STOMP too, where a name with a hyphen is no property name for a broker.
    pub const KAFKA: Self = Self { prefix: "ce_", percent_encoded: false };

    /// The attribute's name in a header's name.
    fn attribute<'a>(&self, header: &'a str) -> Option<&'a str> {
        let (prefix, name) = header.split_at_checked(self.prefix.len())?;
        prefix.eq_ignore_ascii_case(self.prefix).then_some(name)
    }

    /// Whether the headers carry a CloudEvent: whether they say its version.
    pub fn is_binary<'a>(&self, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
        headers.into_iter().any(|(name, _)| {
            self.attribute(name).is_some_and(|attribute| attribute.eq_ignore_ascii_case("specversion"))
        })
    }
}

/// The attributes that are read, in the order of [`ATTRIBUTES`].
#[derive(Default)]
struct Attributes<'a> {
    version: Option<Cow<'a, str>>,
    values: [Option<Cow<'a, str>>; ATTRIBUTES.len()],
}

impl<'a> Attributes<'a> {
    fn set(&mut self, name: &'static str, value: Cow<'a, str>) -> Result<(), Rejection> {
        let place = match ATTRIBUTES.iter().position(|(attribute, _)| *attribute == name) {
            Some(index) => &mut self.values[index],
            None => &mut self.version,
        };
        let message = match place {
            _ if value.is_empty() => "empty",
            Some(known) if *known != value => "stands twice, with two values",
            _ => {
                *place = Some(value);
                return Ok(());
            }
        };
        Err(Rejection::field(RejectionCode::InvalidAttribute, name, message))
    }

    /// Checks that the attributes are those of a CloudEvent 1.0.
    fn check(&self) -> Result<(), Rejection> {
        let missing = |name| Rejection::field(RejectionCode::MissingAttribute, name, "required, but absent");
        match self.version.as_deref() {
            Some("1.0") => {}
            Some(_) => {
                let message = "only version 1.0 is understood";
                return Err(Rejection::field(RejectionCode::UnsupportedVersion, "specversion", message));
            }
            None => return Err(missing("specversion")),
        }
        for ((name, _), value) in ATTRIBUTES.into_iter().zip(&self.values) {
            if value.is_none() && !matches!(name, "time" | "subject") {
                return Err(missing(name));
            }
        }
        Ok(())
    }

    /// The event in the data. Only the fields of the event contract are filled in the data itself.
    fn decode(&self, data: Bytes, intake: &Intake) -> Result<Event, Rejection> {
        match intake.channel.format {
            Format::Iceberg => intake.decode(&self.fill(data)),
            Format::Json => {
                let [id, time, ..] = &self.values;
                intake.decode_in(&data, Envelope { id: id.as_deref(), time: time.as_deref() })
            }
        }
    }

    /// The data with the fields that it lacks. Data that is no object stays as it is, for the decoder to refuse.
    fn fill(&self, data: Bytes) -> Bytes {
        let Ok(text) = std::str::from_utf8(&data) else { return data };
        let Ok(members) = Members::read(text) else { return data };
        let missing: Vec<String> = ATTRIBUTES
            .into_iter()
            .zip(&self.values)
            .filter(|((_, field), _)| !members.names(field))
            .filter_map(|((_, field), value)| {
                Some(format!("\"{field}\":{}", serde_json::to_string(value.as_ref()?).ok()?))
            })
            .collect();
        let Some((_, rest)) = text.split_once('{') else { return data };
        if missing.is_empty() {
            return data;
        }
        let separator = if members.is_empty() { "" } else { "," };
        format!("{{{}{separator}{rest}", missing.join(",")).into()
    }
}

fn unsupported(field: &'static str, message: &'static str) -> Rejection {
    Rejection::field(RejectionCode::UnsupportedData, field, message)
}

/// Reads a CloudEvent in structured mode (`application/cloudevents+json`): an envelope with the event in `data`,
/// or in `data_base64`. The event shares the envelope's memory unless a field had to be filled.
///
/// # Errors
/// When the envelope is no CloudEvent 1.0, or its data is no event.
pub fn decode_structured(bytes: &Bytes, intake: &Intake) -> Result<Event, Rejection> {
    check_size(bytes, &intake.limits)?;
    let invalid = |message| Rejection::whole(RejectionCode::InvalidEnvelope, message);
    let content = trim(bytes);
    let text = std::str::from_utf8(&content).map_err(|_| invalid("the envelope is not UTF-8"))?;
    let members = Members::read(text).map_err(|_| invalid("the envelope is not one JSON object"))?;
    if members.duplicate().is_some() {
        return Err(invalid("a member of the envelope stands twice"));
    }
    let mut attributes = Attributes::default();
    for name in ["specversion"].into_iter().chain(ATTRIBUTES.map(|(name, _)| name)) {
        let Some(raw) = members.get(name) else { continue };
        let Some(Ok(value)) = string_of(raw) else {
            return Err(Rejection::field(RejectionCode::InvalidAttribute, name, "not a text"));
        };
        attributes.set(name, value)?;
    }
    attributes.check()?;
    if let Some(raw) = members.get("datacontenttype") {
        match string_of(raw) {
            Some(Ok(media_type)) if ingest::is_json(&media_type) => {}
            _ => return Err(unsupported("datacontenttype", "not JSON")),
        }
    }
    let data = match (members.get("data"), members.get("data_base64")) {
        (Some(raw), None) => content.slice_ref(raw.as_bytes()),
        (None, Some(raw)) => {
            let not_base64 = || unsupported("data_base64", "not base64");
            let Some(Ok(encoded)) = string_of(raw) else { return Err(not_base64()) };
            Bytes::from(STANDARD.decode(&*encoded).map_err(|_| not_base64())?)
        }
        (None, None) => return Err(unsupported("data", "absent")),
        (Some(_), Some(_)) => return Err(unsupported("data", "stands beside data_base64")),
    };
    attributes.decode(data, intake)
}

/// Reads a CloudEvent in binary mode: attributes in headers, the event as the body.
///
/// `content_type` is that of the body; none counts as JSON.
///
/// # Errors
/// When the headers are not those of a CloudEvent 1.0, or the body is no event.
pub fn decode_binary<'a>(
    binding: Binding,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    content_type: Option<&str>,
    body: &Bytes,
    intake: &Intake,
) -> Result<Event, Rejection> {
    check_size(body, &intake.limits)?;
    let mut attributes = Attributes::default();
    for (header, value) in headers {
        let Some(found) = binding.attribute(header) else { continue };
        let known = ["specversion"].into_iter().chain(ATTRIBUTES.map(|(name, _)| name));
        let Some(name) = known.into_iter().find(|name| found.eq_ignore_ascii_case(name)) else { continue };
        let value = if binding.percent_encoded { header_text(value) } else { Some(Cow::Borrowed(value)) };
        let value = value.ok_or_else(|| {
            Rejection::field(RejectionCode::InvalidAttribute, name, "its percent-encoding is not UTF-8")
        })?;
        attributes.set(name, value)?;
    }
    attributes.check()?;
    if content_type.is_some_and(|media_type| !ingest::is_json(media_type)) {
        return Err(unsupported("datacontenttype", "not JSON"));
    }
    attributes.decode(trim(body), intake)
}

/// Decodes a header's value: first the quotes that older senders put around it, then percent-encoding.
fn header_text(value: &str) -> Option<Cow<'_, str>> {
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let Some(quoted) = quoted else { return percent_decoded(value) };
    let mut unquoted = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        unquoted.push(if character == '\\' { characters.next()? } else { character });
    }
    Some(Cow::Owned(percent_decoded(&unquoted)?.into_owned()))
}

fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok()
}
