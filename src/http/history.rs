//! The history: what was committed, newest first, and what is known of each table.

use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use freshet_event_log::{Added, Page, Query, SearchError, TableSummary, TablesQuery};
use freshet_feed::filter::FilterError;
use freshet_feed::port::{EventLog, Logged};
use freshet_feed::{Epoch, EventFilter, Position, Scope};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Services;
use super::error::ApiError;
use super::identity::principal_of;
use super::query::Parameters;

const DEFAULT_LIMIT: usize = 100;
const EVENT_PARAMETERS: [&str; 11] = [
    "channels",
    "room",
    "table",
    "operation",
    "application",
    "schemaChanged",
    "from",
    "to",
    "q",
    "cursor",
    "limit",
];
const TABLE_PARAMETERS: [&str; 5] = ["channels", "room", "table", "cursor", "limit"];

#[derive(Serialize)]
struct EventsAnswer<'a> {
    events: Vec<EventEntry<'a>>,
    next: Option<String>,
}

/// An event as it came, and where it stands: a client may resume the live feed from there.
#[derive(Serialize)]
struct EventEntry<'a> {
    position: String,
    event: &'a RawValue,
}

#[derive(Serialize)]
struct TablesAnswer {
    tables: Vec<TableEntry>,
    next: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TableEntry {
    table: String,
    last_commit: CommitEntry,
    commits_last_hour: u64,
    commits_last_day: u64,
    /// Null when no commit of the day said it: unknown is not 0.
    records_added_last_day: Option<i128>,
    /// How many commits of the day did not say how many records they added.
    commits_without_records: u64,
    files_added_last_day: Option<i128>,
    commits_without_files: u64,
    last_schema_change: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommitEntry {
    position: String,
    event_id: String,
    event_timestamp: Timestamp,
    event_type: String,
    operation: Option<String>,
    snapshot_id: Option<i64>,
}

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> Self {
        let message = error.to_string();
        match error {
            SearchError::Store(error) => error.into(),
            SearchError::TooBroad => {
                Self { status: StatusCode::UNPROCESSABLE_ENTITY, code: "search_too_broad", message }
            }
            error => Self::bad_request(error.code(), message),
        }
    }
}

impl From<FilterError> for ApiError {
    fn from(error: FilterError) -> Self {
        Self::bad_request(error.code(), error.to_string())
    }
}

/// `GET /api/v2/events`
pub async fn events(request: HttpRequest, services: web::Data<Services>) -> Result<HttpResponse, ApiError> {
    answer_events(&services, &read_query(&request, &services, None)?).await
}

/// `GET /api/v2/tables/{table}/events`
pub async fn table_events(
    request: HttpRequest,
    table: web::Path<String>,
    services: web::Data<Services>,
) -> Result<HttpResponse, ApiError> {
    let query = read_query(&request, &services, Some(table.into_inner()))?;
    let whole_history =
        Query { scope: query.scope.clone(), table: query.table.clone(), limit: 1, ..Query::default() };
    if services.log.search(whole_history).await?.items.is_empty() {
        return Err(ApiError::not_found("No event of this table is held."));
    }
    answer_events(&services, &query).await
}

/// `GET /api/v2/tables`
pub async fn tables(request: HttpRequest, services: web::Data<Services>) -> Result<HttpResponse, ApiError> {
    let parameters = Parameters::of(&request, &TABLE_PARAMETERS)?;
    let query = TablesQuery {
        scope: Some(scope(&request, &services, &parameters)?),
        tables: EventFilter::from_query(parameters.pairs())?.tables,
        cursor: parameters.text("cursor").map(str::to_owned),
        limit: parameters.limit(DEFAULT_LIMIT, services.page_limit)?,
        now: Timestamp::now(),
    };
    let epoch = services.log.bounds().await?.epoch;
    let page = services.log.tables(query).await?;
    let tables = page.items.into_iter().map(|summary| table_entry(epoch, summary)).collect();
    Ok(answer(TablesAnswer { tables, next: page.next }))
}

fn read_query(request: &HttpRequest, services: &Services, table: Option<String>) -> Result<Query, ApiError> {
    let parameters = Parameters::of(request, &EVENT_PARAMETERS)?;
    let time = "a time of RFC 3339 such as 2026-01-31T12:00:00Z";
    Ok(Query {
        scope: Some(scope(request, services, &parameters)?),
        filter: EventFilter::from_query(parameters.pairs())?,
        table,
        text: parameters.text("q").map(str::to_owned),
        from: parameters.value("from", time)?,
        to: parameters.value("to", time)?,
        cursor: parameters.text("cursor").map(str::to_owned),
        limit: parameters.limit(DEFAULT_LIMIT, services.page_limit)?,
    })
}

/// What the client wants of the channels and rooms, and may read.
fn scope(request: &HttpRequest, services: &Services, parameters: &Parameters) -> Result<Scope, ApiError> {
    let principal = principal_of(request);
    Ok(services.channels.scope(&principal, parameters.list("channels"), parameters.list("room"))?)
}

async fn answer_events(services: &Services, query: &Query) -> Result<HttpResponse, ApiError> {
    let epoch = services.log.bounds().await?.epoch;
    let page: Page<Logged> = services.log.search(query.clone()).await?;
    let mut events = Vec::with_capacity(page.items.len());
    for logged in &page.items {
        let event = serde_json::from_slice(&logged.event.body).map_err(|_| unreadable())?;
        events.push(EventEntry { position: position(epoch, logged.offset), event });
    }
    Ok(answer(EventsAnswer { events, next: page.next }))
}

/// Only events that are JSON were ever appended.
fn unreadable() -> ApiError {
    freshet_feed::port::StoreError::Unavailable("an event in the log is not JSON".to_owned()).into()
}

fn position(epoch: Epoch, offset: u64) -> String {
    Position { epoch, offset }.to_string()
}

fn table_entry(epoch: Epoch, summary: TableSummary) -> TableEntry {
    let Added { sum: records, commits_without: commits_without_records } = summary.records_added_last_day;
    let Added { sum: files, commits_without: commits_without_files } = summary.files_added_last_day;
    let last = summary.last_commit;
    TableEntry {
        table: summary.table,
        last_commit: CommitEntry {
            position: position(epoch, last.offset),
            event_id: last.event_id,
            event_timestamp: last.timestamp,
            event_type: last.event_type,
            operation: last.operation,
            snapshot_id: last.snapshot_id,
        },
        commits_last_hour: summary.commits_last_hour,
        commits_last_day: summary.commits_last_day,
        records_added_last_day: records,
        commits_without_records,
        files_added_last_day: files,
        commits_without_files,
        last_schema_change: summary.last_schema_change,
    }
}

fn answer(body: impl Serialize) -> HttpResponse {
    HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(body)
}
