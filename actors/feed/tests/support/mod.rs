//! Reads the cases of `tests/cases/events`.

use base64::Engine as _;
use bytes::Bytes;
use freshet_feed::event::Summary;
use freshet_feed::{ChannelName, Commit, Event, Rejection};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub content_type: Option<String>,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    json: Option<Box<RawValue>>,
    text: Option<String>,
    base64: Option<String>,
    repeat: Option<Repeat>,
    pub event: Option<ExpectedEvent>,
    pub rejection: Option<ExpectedRejection>,
    pub events: Option<Vec<ExpectedItem>>,
    pub refused: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    before: String,
    text: String,
    times: usize,
    after: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedEvent {
    event_id: String,
    timestamp: String,
    source_application: Option<String>,
    table: String,
    event_type: String,
    operation: Option<String>,
    snapshot_id: Option<String>,
    schema_changed: Option<bool>,
    added_records: Option<String>,
    deleted_records: Option<String>,
    added_data_files: Option<String>,
    deleted_data_files: Option<String>,
    body: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedRejection {
    code: String,
    field: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum ExpectedItem {
    Id(String),
    Rejection(ExpectedRejection),
}

pub fn cases(file: &str) -> Vec<Case> {
    let path = format!("{}/../../tests/cases/events/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    let cases: Vec<Case> = serde_json::from_str(&text).expect(&path);
    assert!(!cases.is_empty(), "{path} has no cases");
    cases
}

impl Case {
    pub fn input(&self) -> Bytes {
        match (&self.json, &self.text, &self.base64, &self.repeat) {
            (Some(raw), None, None, None) => raw.get().to_owned().into(),
            (None, Some(text), None, None) => text.clone().into(),
            (None, None, Some(encoded), None) => {
                base64::engine::general_purpose::STANDARD.decode(encoded).expect(&self.name).into()
            }
            (None, None, None, Some(repeat)) => {
                format!("{}{}{}", repeat.before, repeat.text.repeat(repeat.times), repeat.after).into()
            }
            _ => panic!("{}: exactly one form of input", self.name),
        }
    }

    /// Compares the outcome of one event with the case's answer.
    pub fn check(&self, found: Result<Event, Rejection>) {
        match (&self.event, &self.rejection) {
            (Some(expected), None) => assert_eq!(found, Ok(expected.event(&self.input())), "{}", self.name),
            (None, Some(expected)) => match found {
                Ok(event) => panic!("{}: accepted as {event:?}", self.name),
                Err(rejection) => {
                    let found = (rejection.code.as_str(), rejection.field);
                    assert_eq!(found, (&*expected.code, expected.field.as_deref()), "{}", self.name);
                }
            },
            _ => panic!("{}: an event or a rejection", self.name),
        }
    }
}

impl ExpectedEvent {
    fn event(&self, input: &Bytes) -> Event {
        let number = |text: &Option<String>| text.as_ref().map(|text| text.parse::<i64>().expect("i64"));
        Event {
            event_id: self.event_id.clone(),
            channel: ChannelName::iceberg(),
            name: "iceberg-mutation".into(),
            key: Some(self.table.clone()),
            room: None,
            timestamp: self.timestamp.parse().expect("a time in UTC"),
            source_application: self.source_application.clone(),
            commit: Some(Commit {
                table: self.table.clone(),
                event_type: self.event_type.clone(),
                operation: self.operation.clone(),
                snapshot_id: number(&self.snapshot_id),
                schema_changed: self.schema_changed,
                summary: Summary {
                    added_records: number(&self.added_records),
                    deleted_records: number(&self.deleted_records),
                    added_data_files: number(&self.added_data_files),
                    deleted_data_files: number(&self.deleted_data_files),
                },
            }),
            body: self.body.clone().map_or_else(|| input.clone(), Bytes::from),
        }
    }
}

impl ExpectedItem {
    pub fn is(&self, found: &Result<Event, Rejection>) -> bool {
        match (self, found) {
            (Self::Id(id), Ok(event)) => event.event_id == *id,
            (Self::Rejection(expected), Err(rejection)) => rejection.code.as_str() == expected.code,
            _ => false,
        }
    }
}
