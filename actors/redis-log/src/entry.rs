//! An event as the fields of a stream's entry, and back. No byte of it is lost.
//!
//! | field | what | |
//! |---|---|---|
//! | `v` | the version of this encoding: `1` | by the script |
//! | `e` | the epoch in which it was appended | by the script |
//! | `a` | when it was appended, in microseconds since 1970 by the clock of Redis | by the script |
//! | `i`, `c`, `n` | id, channel, name | |
//! | `k`, `r` | key, room | where it has one |
//! | `t` | its own time, RFC 3339 | |
//! | `s` | the source's application | where it has one |
//! | `ct`, `ce` | of a commit its table and event type | of a commit |
//! | `co`, `ci`, `cs` | operation, snapshot id, whether the schema changed (`1` or `0`) | where it says so |
//! | `ar`, `dr`, `af`, `df` | added and deleted records, added and deleted data files | where it says so |
//! | `b` | the body as it came | |

use bytes::Bytes;
use freshet_feed::event::{Commit, EventName, Summary, iceberg_mutation};
use freshet_feed::port::Logged;
use freshet_feed::{ChannelName, Epoch, Event};
use jiff::Timestamp;
use redis::Value;

use crate::error::Failure;

/// The version that is written.
const VERSION: &[u8] = b"1";

/// An entry of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The epoch in which it was appended.
    pub(crate) epoch: Epoch,
    pub(crate) logged: Logged,
}

/// The names and values of an event's own fields, one after the other.
pub(crate) fn encode(event: &Event) -> Vec<Bytes> {
    let mut fields = Fields(Vec::with_capacity(32));
    fields.text("i", &event.event_id);
    fields.text("c", event.channel.as_str());
    fields.text("n", &event.name);
    fields.text_if("k", event.key.as_deref());
    fields.text_if("r", event.room.as_deref());
    fields.text("t", &event.timestamp.to_string());
    fields.text_if("s", event.source_application.as_deref());
    if let Some(commit) = &event.commit {
        fields.text("ct", &commit.table);
        fields.text("ce", &commit.event_type);
        fields.text_if("co", commit.operation.as_deref());
        fields.number_if("ci", commit.snapshot_id);
        fields.number_if("cs", commit.schema_changed.map(i64::from));
        fields.number_if("ar", commit.summary.added_records);
        fields.number_if("dr", commit.summary.deleted_records);
        fields.number_if("af", commit.summary.added_data_files);
        fields.number_if("df", commit.summary.deleted_data_files);
    }
    fields.push("b", event.body.clone());
    fields.0
}

/// What a commit says of itself, for the comparison with another report of it: `time|schemaChanged|counts|operation`.
/// What is unknown is empty; an operation that is known begins with `=`.
pub(crate) fn facts(event: &Event, commit: &Commit) -> String {
    let count = |count: Option<i64>| count.map_or_else(String::new, |count| count.to_string());
    format!(
        "{}|{}|{}|{}|{}|{}|{}",
        event.timestamp.as_microsecond(),
        u8::from(commit.schema_changed == Some(true)),
        count(commit.summary.added_records),
        count(commit.summary.deleted_records),
        count(commit.summary.added_data_files),
        count(commit.summary.deleted_data_files),
        commit.operation.as_ref().map_or_else(String::new, |operation| format!("={operation}")),
    )
}

struct Fields(Vec<Bytes>);

impl Fields {
    fn push(&mut self, name: &'static str, value: Bytes) {
        self.0.extend([Bytes::from_static(name.as_bytes()), value]);
    }

    fn text(&mut self, name: &'static str, value: &str) {
        self.push(name, Bytes::copy_from_slice(value.as_bytes()));
    }

    fn text_if(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn number_if(&mut self, name: &'static str, value: Option<i64>) {
        if let Some(value) = value {
            self.text(name, &value.to_string());
        }
    }
}

/// An entry as Redis answers it: its id, and names and values.
pub(crate) fn decode(entry: Value) -> Result<Entry, Failure> {
    let Value::Array(parts) = entry else { return Err(Failure::unexpected("no entry")) };
    let Ok([Value::BulkString(id), Value::Array(fields)]) = <[Value; 2]>::try_from(parts) else {
        return Err(Failure::unexpected("no entry"));
    };
    let offset = std::str::from_utf8(&id)
        .ok()
        .and_then(|id| id.strip_suffix("-0"))
        .and_then(|offset| offset.parse::<u64>().ok())
        .ok_or_else(|| Failure::wrong_data("an entry of the log has no offset for its id"))?;
    // Neither the field nor its value is shown: it may be what an event says.
    event_of(offset, fields)
        .ok_or_else(|| Failure::wrong_data(format!("the entry at offset {offset} is not of version 1")))
}

fn event_of(offset: u64, fields: Vec<Value>) -> Option<Entry> {
    let mut raw = Raw::default();
    let mut fields = fields.into_iter();
    while let (Some(Value::BulkString(name)), Some(Value::BulkString(value))) = (fields.next(), fields.next())
    {
        *raw.field(&name)? = Some(value);
    }
    if raw.version.as_deref() != Some(VERSION) {
        return None;
    }
    let commit = match raw.table {
        None => None,
        Some(table) => Some(Commit {
            table: String::from_utf8(table).ok()?,
            event_type: text(raw.event_type)?,
            operation: text_if(raw.operation)?,
            snapshot_id: number_if(raw.snapshot_id)?,
            schema_changed: number_if(raw.schema_changed)?.map(|changed| changed == 1),
            summary: Summary {
                added_records: number_if(raw.added_records)?,
                deleted_records: number_if(raw.deleted_records)?,
                added_data_files: number_if(raw.added_data_files)?,
                deleted_data_files: number_if(raw.deleted_data_files)?,
            },
        }),
    };
    let event = Event {
        event_id: text(raw.event_id)?,
        channel: ChannelName::new(&text(raw.channel)?)?,
        name: event_name(&text(raw.name)?),
        key: text_if(raw.key)?,
        room: text_if(raw.room)?,
        timestamp: text(raw.timestamp)?.parse().ok()?,
        source_application: text_if(raw.source_application)?,
        commit,
        body: raw.body?.into(),
    };
    let appended_at = Timestamp::from_microsecond(number_if(raw.appended_at)??).ok()?;
    let epoch = epoch(&text(raw.epoch)?)?;
    Some(Entry { epoch, logged: Logged { offset, appended_at, event } })
}

/// Fields as they were read, until they are known to be whole.
#[derive(Default)]
struct Raw {
    version: Option<Vec<u8>>,
    epoch: Option<Vec<u8>>,
    appended_at: Option<Vec<u8>>,
    event_id: Option<Vec<u8>>,
    channel: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    room: Option<Vec<u8>>,
    timestamp: Option<Vec<u8>>,
    source_application: Option<Vec<u8>>,
    table: Option<Vec<u8>>,
    event_type: Option<Vec<u8>>,
    operation: Option<Vec<u8>>,
    snapshot_id: Option<Vec<u8>>,
    schema_changed: Option<Vec<u8>>,
    added_records: Option<Vec<u8>>,
    deleted_records: Option<Vec<u8>>,
    added_data_files: Option<Vec<u8>>,
    deleted_data_files: Option<Vec<u8>>,
    body: Option<Vec<u8>>,
}

impl Raw {
    fn field(&mut self, name: &[u8]) -> Option<&mut Option<Vec<u8>>> {
        Some(match name {
            b"v" => &mut self.version,
            b"e" => &mut self.epoch,
            b"a" => &mut self.appended_at,
            b"i" => &mut self.event_id,
            b"c" => &mut self.channel,
            b"n" => &mut self.name,
            b"k" => &mut self.key,
            b"r" => &mut self.room,
            b"t" => &mut self.timestamp,
            b"s" => &mut self.source_application,
            b"ct" => &mut self.table,
            b"ce" => &mut self.event_type,
            b"co" => &mut self.operation,
            b"ci" => &mut self.snapshot_id,
            b"cs" => &mut self.schema_changed,
            b"ar" => &mut self.added_records,
            b"dr" => &mut self.deleted_records,
            b"af" => &mut self.added_data_files,
            b"df" => &mut self.deleted_data_files,
            b"b" => &mut self.body,
            _ => return None,
        })
    }
}

/// An epoch in its 16 hexadecimal digits.
pub(crate) fn epoch(text: &str) -> Option<Epoch> {
    (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Epoch)
}

/// Events of commits share their name.
fn event_name(name: &str) -> EventName {
    let shared = iceberg_mutation();
    if *shared == *name { shared } else { name.into() }
}

fn text(value: Option<Vec<u8>>) -> Option<String> {
    String::from_utf8(value?).ok()
}

/// Nothing for a text that is none, something for a field that is absent.
fn text_if(value: Option<Vec<u8>>) -> Option<Option<String>> {
    value.map_or(Some(None), |value| text(Some(value)).map(Some))
}

fn number_if(value: Option<Vec<u8>>) -> Option<Option<i64>> {
    value.map_or(Some(None), |value| text(Some(value))?.parse().ok().map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{commit, event};

    /// The entry as Redis would answer it.
    fn stored(offset: u64, fields: Vec<Bytes>) -> Value {
        let head = [("v", "1"), ("e", "00c0ffee00c0ffee"), ("a", "1772366400000001")];
        let head = head.into_iter().flat_map(|(name, value)| [name.into(), value.into()]);
        let fields = head.chain(fields).map(|bytes: Bytes| Value::BulkString(bytes.to_vec())).collect();
        Value::Array(vec![Value::BulkString(format!("{offset}-0").into()), Value::Array(fields)])
    }

    fn full() -> Event {
        let mut full = commit("full \u{0} é", "prod.orders", i64::MIN);
        full.key = Some(String::new());
        full.room = Some("a:b".to_owned());
        full.timestamp = "2026-03-01T12:00:00.123456789Z".parse().unwrap();
        full.source_application = Some(String::new());
        full.body = b"{\"unknown\" : 1.0,\xff\x00\r\n}".as_slice().into();
        let parts = full.commit.as_mut().unwrap();
        parts.operation = Some(String::new());
        parts.summary = Summary {
            added_records: Some(i64::MAX),
            deleted_records: Some(0),
            added_data_files: Some(-1),
            deleted_data_files: None,
        };
        full
    }

    #[test]
    fn no_byte_of_an_event_is_lost() {
        let mut plain = event("plain", "1");
        plain.key = None;
        let mut sparse = commit("sparse", "t", 1);
        let parts = sparse.commit.as_mut().unwrap();
        (parts.operation, parts.snapshot_id, parts.schema_changed) = (None, None, None);
        for event in [full(), plain, sparse] {
            let entry = decode(stored(7, encode(&event))).unwrap();
            assert_eq!(entry.epoch, Epoch(0x00c0_ffee_00c0_ffee));
            assert_eq!(entry.logged.offset, 7);
            assert_eq!(entry.logged.appended_at.as_microsecond(), 1_772_366_400_000_001);
            assert_eq!(entry.logged.event, event);
        }
    }

    #[test]
    fn an_entry_of_another_kind_is_refused_without_showing_it() {
        let secret = Bytes::from_static(b"hunter2");
        let whole = encode(&event("a", "1"));
        let without = |place: usize| {
            let mut fields = whole.clone();
            fields.drain(place * 2..place * 2 + 2);
            fields
        };
        let with = |name: &'static str| {
            let mut fields = whole.clone();
            fields.extend([Bytes::from_static(name.as_bytes()), secret.clone()]);
            fields
        };
        for fields in
            [without(0), without(1), without(2), without(4), with("new"), with("v"), with("a"), with("t")]
        {
            let failure = decode(stored(7, fields)).unwrap_err();
            assert_eq!(failure.class, "redis_wrong_data");
            assert!(!failure.to_string().contains("hunter2"));
        }
        assert_eq!(decode(Value::Nil).unwrap_err().class, "redis_protocol");
        let strange = Value::Array(vec![Value::BulkString(b"7-1".to_vec()), Value::Array(vec![])]);
        assert_eq!(decode(strange).unwrap_err().class, "redis_wrong_data");
    }

    #[test]
    fn facts_tell_unknown_from_empty_and_from_zero() {
        let event = full();
        let parts = event.commit.as_ref().unwrap();
        assert_eq!(facts(&event, parts), format!("1772366400123456|0|{}|0|-1||=", i64::MAX));
        let mut unknown = parts.clone();
        unknown.operation = None;
        unknown.schema_changed = Some(true);
        unknown.summary = Summary::default();
        assert_eq!(facts(&event, &unknown), "1772366400123456|1|||||");
    }
}
