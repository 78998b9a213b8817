//! What can be searched for, and the SQL that finds it. Nothing is executed here.

use std::fmt::Write;

use freshet_feed::{Epoch, EventFilter, Rooms, Scope};
use jiff::Timestamp;
use rusqlite::types::Value;

use crate::scope::{self, Readable};
use crate::{SearchError, cursor, rows, words};

/// A search in the history. The default finds everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// What may be read, and is wanted; `None` is everything, which is for what the daemon reads for itself.
    pub scope: Option<Scope>,
    /// The fields that must fit, as for a live feed.
    pub filter: EventFilter,
    /// Exactly this table, besides the filter: a table's history. A star in it is a star.
    pub table: Option<String>,
    /// Words that must all occur in the event; the last one may go on when it has at least three characters. A
    /// text without a letter or digit wants nothing.
    pub text: Option<String>,
    /// The event's own time is this or later.
    pub from: Option<Timestamp>,
    /// The event's own time is before this.
    pub to: Option<Timestamp>,
    /// `next` of the page before, for the same search.
    pub cursor: Option<String>,
    /// At most this many events, at least 1, at most the configuration's `search_page_limit`.
    pub limit: usize,
}

/// One page of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The answers in their order.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` when there is none.
    pub next: Option<String>,
}

/// The tables to which a search is limited, by their keys in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    All,
    Only(Vec<i64>),
}

/// SQL with its parameters in order.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) parameters: Vec<Value>,
}

impl Statement {
    /// Adds a condition with one parameter, which stands in it as `?`.
    fn and(&mut self, condition: &str, parameter: impl Into<Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.parameters.push(parameter.into());
    }

    /// Adds the condition that an event can be read.
    fn and_readable(&mut self, readable: &Readable) {
        let Readable::Only(channels) = readable else { return };
        let mut alternatives = Vec::new();
        for (channel_id, rooms) in channels {
            self.parameters.push(Value::Integer(*channel_id));
            let in_rooms = match rooms {
                Rooms::All => String::new(),
                Rooms::Only(rooms) => {
                    self.parameters.extend(rooms.iter().map(|room| Value::Text(room.to_string())));
                    match rooms.len() {
                        1 => " AND events.room = ?".to_owned(),
                        count => format!(" AND events.room IN ({})", vec!["?"; count].join(", ")),
                    }
                }
            };
            alternatives.push(format!("events.channel_id = ?{in_rooms}"));
        }
        // One alternative stands without brackets around an OR, so that an index can serve it. None is never true.
        let condition = match alternatives.len() {
            0 => "0".to_owned(),
            _ => alternatives.join(" OR "),
        };
        let _ = write!(self.sql, " AND ({condition})");
    }

    fn and_one_of(&mut self, column: &str, values: &[String]) {
        if !values.is_empty() {
            let marks = vec!["?"; values.len()].join(", ");
            // A `String` always takes this form of writing.
            let _ = write!(self.sql, " AND {column} IN ({marks})");
            self.parameters.extend(values.iter().cloned().map(Value::Text));
        }
    }
}

/// The statement that gives the events before offset `before`, newest first, in [`rows::COLUMNS`].
///
/// What drives it: the words when there is a text; else the index of the one table, room or channel that is wanted; else
/// the narrow rows of all events, which hold no bodies. A body is read only for an event that fits.
///
/// # Errors
/// [`SearchError::InvalidQuery`] when the text is refused.
pub(crate) fn statement(
    query: &Query,
    readable: &Readable,
    tables: &Tables,
    before: u64,
) -> Result<Statement, SearchError> {
    let text =
        query.text.as_deref().map(words::query).transpose().map_err(SearchError::InvalidQuery)?.flatten();
    let (driver, order) = match &text {
        Some(_) => {
            ("event_words CROSS JOIN events ON events.offset = event_words.rowid", "event_words.rowid")
        }
        None => (driver(readable, tables), "events.offset"),
    };
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let mut statement = Statement {
        sql: format!(
            "SELECT {} FROM {driver} CROSS JOIN bodies ON bodies.offset = events.offset {}
             WHERE {order} < ? AND {order} >= (SELECT min(offset) FROM bodies) AND events.event_id IS NOT NULL",
            rows::COLUMNS,
            rows::SOURCES
        ),
        parameters: vec![Value::Integer(before)],
    };
    statement.and_readable(readable);
    if let Some(text) = text {
        statement.and("event_words MATCH ?", text);
    }
    match tables {
        Tables::All => {}
        Tables::Only(ids) => match ids.as_slice() {
            [id] => statement.and("events.table_id = ?", *id),
            ids => {
                let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
                let list = format!("[{}]", ids.join(","));
                statement.and("events.table_id IN (SELECT value FROM json_each(?))", list);
            }
        },
    }
    statement.and_one_of("events.operation", &query.filter.operations);
    statement.and_one_of("events.application", &query.filter.applications);
    if let Some(wanted) = query.filter.schema_changed {
        statement.and("events.schema_changed = ?", i64::from(wanted));
    }
    for (comparison, bound) in [(">=", query.from), ("<", query.to)] {
        if let Some(bound) = bound {
            let (micros, nanos) = rows::micros_and_nanos(bound);
            statement.and(&format!("(events.event_time, events.event_time_nanos) {comparison} (?,"), micros);
            statement.sql.push_str(" ?)");
            statement.parameters.push(Value::Integer(nanos.into()));
        }
    }
    let _ = write!(statement.sql, " ORDER BY {order} DESC LIMIT ?");
    statement
        .parameters
        .push(Value::Integer(i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1)));
    Ok(statement)
}

/// What gives the events of a search without a text, newest first.
fn driver(readable: &Readable, tables: &Tables) -> &'static str {
    if matches!(tables, Tables::Only(ids) if ids.len() == 1) {
        return "events INDEXED BY events_by_table";
    }
    let Readable::Only(channels) = readable else { return "events NOT INDEXED" };
    match channels.as_slice() {
        [(_, Rooms::Only(rooms))] if rooms.len() == 1 => "events INDEXED BY events_by_room",
        [_] => "events INDEXED BY events_by_channel",
        _ => "events NOT INDEXED",
    }
}

/// What names the search in its cursors: everything but the cursor and the limit.
pub(crate) fn identity(query: &Query, epoch: Epoch) -> Vec<u8> {
    let list = |items: &mut dyn Iterator<Item = &str>| cursor::canonical(items.map(str::as_bytes));
    let optional = |text: Option<String>| cursor::canonical(text.iter().map(String::as_bytes));
    cursor::canonical(
        [
            b"events".to_vec(),
            scope::identity(query.scope.as_ref()),
            epoch.0.to_be_bytes().to_vec(),
            list(&mut query.filter.tables.iter().map(|glob| glob.as_str())),
            list(&mut query.filter.operations.iter().map(String::as_str)),
            list(&mut query.filter.applications.iter().map(String::as_str)),
            optional(query.filter.schema_changed.map(|wanted| wanted.to_string())),
            optional(query.table.clone()),
            optional(query.text.clone()),
            optional(query.from.map(|time| time.to_string())),
            optional(query.to.map(|time| time.to_string())),
        ]
        .iter()
        .map(Vec::as_slice),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_search_makes_it_another_one() {
        let epoch = Epoch(1);
        let queries = [
            Query::default(),
            Query { table: Some("a".to_owned()), ..Query::default() },
            Query { table: Some(String::new()), ..Query::default() },
            Query { text: Some("a".to_owned()), ..Query::default() },
            Query { from: Some(Timestamp::UNIX_EPOCH), ..Query::default() },
            Query { to: Some(Timestamp::UNIX_EPOCH), ..Query::default() },
            Query {
                filter: EventFilter { operations: vec!["a".to_owned()], ..EventFilter::default() },
                ..Query::default()
            },
            Query {
                filter: EventFilter { applications: vec!["a".to_owned()], ..EventFilter::default() },
                ..Query::default()
            },
            Query {
                filter: EventFilter { schema_changed: Some(true), ..EventFilter::default() },
                ..Query::default()
            },
        ];
        let mut identities: Vec<_> = queries.iter().map(|query| identity(query, epoch)).collect();
        identities.push(identity(&Query::default(), Epoch(2)));
        let count = identities.len();
        identities.sort();
        identities.dedup();
        assert_eq!(identities.len(), count);

        let other_page = Query { limit: 7, cursor: Some("x".to_owned()), ..Query::default() };
        assert_eq!(identity(&other_page, epoch), identity(&Query::default(), epoch));
    }

    #[test]
    fn what_a_client_types_is_never_part_of_the_sql() {
        let hostile = "'; DROP TABLE events; --".to_owned();
        let query = Query {
            filter: EventFilter {
                operations: vec![hostile.clone()],
                applications: vec![hostile.clone()],
                ..EventFilter::default()
            },
            text: Some(hostile),
            limit: 1,
            ..Query::default()
        };
        let statement = statement(&query, &Readable::All, &Tables::All, 9).unwrap();
        assert!(!statement.sql.contains("DROP"), "{}", statement.sql);
        assert_eq!(statement.sql.matches('?').count(), statement.parameters.len());
    }
}
