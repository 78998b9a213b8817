//! Executes a search on one connection. Each function sees one state of the log.

use std::time::{Duration, Instant};

use freshet_feed::filter::Glob;
use freshet_feed::port::Logged;
use rusqlite::{Connection, Transaction, params_from_iter};

use crate::scope::Readable;
use crate::search::{self, Tables};
use crate::{Config, Page, Query, SearchError, cursor, read, rows};

/// How many steps of SQLite's machine lie between two looks at the clock: about every tenth of a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Runs `work` in one read transaction, and ends it after `limit`.
///
/// # Errors
/// [`SearchError::TooBroad`] after that time, and what `work` gives.
pub(crate) fn within<T>(
    connection: &mut Connection,
    limit: Duration,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, SearchError>,
) -> Result<T, SearchError> {
    let start = Instant::now();
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || start.elapsed() > limit));
    let answer =
        connection.transaction().map_err(SearchError::from).and_then(|transaction| work(&transaction));
    connection.progress_handler(0, None::<fn() -> bool>);
    answer
}

/// One page of a search, newest first.
///
/// # Errors
/// Each of [`SearchError`].
pub(crate) fn search(
    transaction: &Transaction<'_>,
    config: &Config,
    query: &Query,
) -> Result<Page<Logged>, SearchError> {
    check_limit(query.limit, config)?;
    let bounds = read::bounds(transaction)?;
    let identity = search::identity(query, bounds.epoch);
    let before = match &query.cursor {
        None => bounds.last + 1,
        Some(text) => {
            let place = cursor::read(&identity, text)?;
            u64::from_be_bytes(place.try_into().map_err(|_| SearchError::InvalidCursor)?)
        }
    };
    let readable = Readable::of(transaction, query.scope.as_ref())?;
    let tables = tables(transaction, query, &readable)?;
    if readable.is_nothing() || tables == Tables::Only(Vec::new()) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let statement = search::statement(query, &readable, &tables, before)?;
    let mut prepared = transaction.prepare_cached(&statement.sql)?;
    let mut found = prepared.query(params_from_iter(statement.parameters))?;
    let mut items: Vec<Logged> = Vec::new();
    let mut bytes = 0;
    while let Some(row) = found.next()? {
        let logged = rows::logged(row)?;
        bytes += logged.event.body.len();
        let full = items.len() == query.limit || bytes > config.search_page_bytes;
        if full && let Some(last) = items.last() {
            let next = Some(cursor::write(&identity, &last.offset.to_be_bytes()));
            return Ok(Page { items, next });
        }
        items.push(logged);
    }
    Ok(Page { items, next: None })
}

/// # Errors
/// [`SearchError::InvalidQuery`] when a page of that size cannot be had.
pub(crate) fn check_limit(limit: usize, config: &Config) -> Result<(), SearchError> {
    if (1..=config.search_page_limit).contains(&limit) {
        return Ok(());
    }
    Err(SearchError::InvalidQuery(format!("the limit must be from 1 to {}", config.search_page_limit)))
}

/// The tables that a search wants and may see. Names are compared with the very patterns of the live feed.
fn tables(transaction: &Transaction<'_>, query: &Query, readable: &Readable) -> rusqlite::Result<Tables> {
    let globs = &query.filter.tables;
    let mut ids = Vec::new();
    let mut statement = match &query.table {
        Some(name) if !fits(globs, name) => return Ok(Tables::Only(Vec::new())),
        Some(_) => {
            transaction.prepare_cached("SELECT id, name, channel_id, room FROM tables WHERE name = ?1")?
        }
        None if globs.is_empty() => return Ok(Tables::All),
        None => {
            transaction.prepare_cached("SELECT id, name, channel_id, room FROM tables WHERE ?1 IS NULL")?
        }
    };
    let mut all = statement.query([&query.table])?;
    while let Some(row) = all.next()? {
        let room = row.get_ref(3)?.as_str_or_null()?;
        if readable.holds(row.get(2)?, room) && fits(globs, row.get_ref(1)?.as_str()?) {
            ids.push(row.get(0)?);
        }
    }
    Ok(Tables::Only(ids))
}

/// Whether a name fits one of the patterns; no pattern wants every name.
pub(crate) fn fits(globs: &[Glob], name: &str) -> bool {
    globs.is_empty() || globs.iter().any(|glob| glob.matches(name))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
