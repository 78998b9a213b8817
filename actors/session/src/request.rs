//! What a client asks for. Pure: header and query text in, a request or a refusal out.

use freshet_feed::EventFilter;
use freshet_feed::filter::FilterError;

/// The longest id to resume from, in bytes.
pub const LAST_EVENT_ID_MAX_BYTES: usize = 1024;

/// A client's wish, understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionRequest {
    /// The channels that it names; none is `iceberg`.
    pub(crate) channels: Vec<String>,
    /// The rooms that it names; none is every room that it may see.
    pub(crate) rooms: Vec<String>,
    /// Which events it wants.
    pub(crate) filter: EventFilter,
    /// What it had last: an event's id, or a position. The header wins over the query.
    pub(crate) last_event_id: Option<String>,
}

/// A wish that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRequest {
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("the query string cannot be decoded")]
    Query,
    #[error(
        "unknown parameter; known are channels, room, table, operation, application, schemaChanged and lastEventId"
    )]
    UnknownParameter,
    #[error("the last event id is longer than {LAST_EVENT_ID_MAX_BYTES} bytes")]
    LastEventIdTooLong,
}

impl BadRequest {
    /// The stable machine code of the error.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Filter(error) => error.code(),
            Self::Query => "invalid_query",
            Self::UnknownParameter => "unknown_parameter",
            Self::LastEventIdTooLong => "invalid_last_event_id",
        }
    }
}

impl SessionRequest {
    /// `header` is the value of `Last-Event-ID`, which is UTF-8 by the standard; other bytes fit no id.
    pub(crate) fn read(header: Option<&[u8]>, query: &[(String, String)]) -> Result<Self, BadRequest> {
        const KNOWN: [&str; 7] =
            ["channels", "room", "table", "operation", "application", "schemaChanged", "lastEventId"];
        if query.iter().any(|(name, _)| !KNOWN.contains(&name.as_str())) {
            return Err(BadRequest::UnknownParameter);
        }
        let listed = |wanted: &str| -> Vec<String> {
            let lists = query.iter().filter(|(name, _)| name == wanted).map(|(_, list)| list.as_str());
            let names = lists.flat_map(|list| list.split(',')).map(str::trim);
            names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let (channels, rooms) = (listed("channels"), listed("room"));
        let filter =
            EventFilter::from_query(query.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        let from_header = header.map(|value| String::from_utf8_lossy(value).into_owned());
        let from_query =
            query.iter().rfind(|(name, _)| name == "lastEventId").map(|(_, value)| value.clone());
        let last_event_id =
            from_header.filter(|id| !id.is_empty()).or(from_query).filter(|id| !id.is_empty());
        if last_event_id.as_ref().is_some_and(|id| id.len() > LAST_EVENT_ID_MAX_BYTES) {
            return Err(BadRequest::LastEventIdTooLong);
        }
        Ok(Self { channels, rooms, filter, last_event_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_header_wins_over_the_query_and_empty_is_none() {
        let both = query(&[("lastEventId", "from-query")]);
        let last = |header: Option<&[u8]>, query: &[(String, String)]| {
            SessionRequest::read(header, query).unwrap().last_event_id
        };
        assert_eq!(last(Some(b"from-header"), &both).as_deref(), Some("from-header"));
        assert_eq!(last(Some(b""), &both).as_deref(), Some("from-query"));
        assert_eq!(last(None, &query(&[("lastEventId", "")])), None);
        assert_eq!(last(Some("é".as_bytes()), &[]).as_deref(), Some("é"));
    }

    #[test]
    fn channels_and_rooms_are_lists_and_may_be_repeated() {
        let wish = query(&[("channels", "iceberg, products"), ("room", "a,,b"), ("channels", "x")]);
        let wish = SessionRequest::read(None, &wish).unwrap();
        assert_eq!(wish.channels, ["iceberg", "products", "x"]);
        assert_eq!(wish.rooms, ["a", "b"]);
    }

    #[test]
    fn each_bad_wish_has_its_code() {
        let long = "x".repeat(LAST_EVENT_ID_MAX_BYTES + 1);
        for (pair, code) in [
            (("schemaChanged", "maybe"), "invalid_filter"),
            (("tabel", "x"), "unknown_parameter"),
            (("lastEventId", long.as_str()), "invalid_last_event_id"),
        ] {
            assert_eq!(SessionRequest::read(None, &query(&[pair])).unwrap_err().code(), code);
        }
    }
}
