//! An event's id as it is stored: most are UUIDs, and 16 bytes halve the index that is written at random places.

use std::fmt::Write;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

/// Where the hyphens of a UUID's text are (RFC 9562, section 4).
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const UUID_TEXT_BYTES: usize = 36;
const UUID_BYTES: usize = 16;

/// An id to be written or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventId<'a> {
    /// A UUID in lower case, from which the very same text can be made again.
    Uuid([u8; UUID_BYTES]),
    Text(&'a str),
}

impl<'a> EventId<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        uuid(text.as_bytes()).map_or(Self::Text(text), Self::Uuid)
    }
}

fn uuid(text: &[u8]) -> Option<[u8; UUID_BYTES]> {
    if text.len() != UUID_TEXT_BYTES || HYPHENS.iter().any(|place| text[*place] != b'-') {
        return None;
    }
    let mut bytes = [0; UUID_BYTES];
    let mut digits = text.iter().enumerate().filter(|(place, _)| !HYPHENS.contains(place));
    for byte in &mut bytes {
        *byte = hexadecimal(*digits.next()?.1)? << 4 | hexadecimal(*digits.next()?.1)?;
    }
    Some(bytes)
}

fn hexadecimal(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl ToSql for EventId<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Uuid(bytes) => ValueRef::Blob(bytes),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// An id as it was read.
pub(crate) struct StoredEventId(pub(crate) String);

impl FromSql for StoredEventId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let ValueRef::Blob(bytes) = value else { return value.as_str().map(|text| Self(text.to_owned())) };
        if bytes.len() != UUID_BYTES {
            return Err(FromSqlError::InvalidBlobSize { expected_size: UUID_BYTES, blob_size: bytes.len() });
        }
        let mut text = String::with_capacity(UUID_TEXT_BYTES);
        for byte in bytes {
            if HYPHENS.contains(&text.len()) {
                text.push('-');
            }
            // A `String` always takes this form of writing.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_comes_back_as_it_was() {
        let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"; // RFC 9562, section 4.
        let upper = uuid.to_uppercase();
        let moved = "f81d4fae7-dec-11d0-a765-00a0c91e6bf6";
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        for (text, kind) in [
            (uuid, "blob"),
            (&upper, "text"),
            (moved, "text"),
            ("f81d4fae-7dec-11d0-a765-00a0c91e6bfg", "text"),
            ("f81d4fae7dec11d0a76500a0c91e6bf6", "text"),
            ("ééééééééééééééééé--", "text"),
            ("0123456789abcdef", "text"),
            ("", "text"),
        ] {
            let (stored, back): (String, StoredEventId) = connection
                .query_row("SELECT typeof(?1), ?1", [EventId::of(text)], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap();
            assert_eq!((stored.as_str(), back.0.as_str()), (kind, text));
        }
    }
}
