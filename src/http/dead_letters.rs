//! What could not be processed, for the person who looks into it.

use actix_web::http::header::{CACHE_CONTROL, ContentType};
use actix_web::{HttpRequest, HttpResponse, web};
use freshet_dead_letter::store::{Buried, CodeCount, Heading, MAX_LISTED};
use serde::Serialize;

use super::Services;
use super::error::ApiError;
use super::identity::{only_administrators, principal_of};
use super::query::Parameters;

const DEFAULT_LIMIT: usize = 100;
const PARAMETERS: [&str; 2] = ["after", "limit"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListAnswer {
    dead_letters: Vec<LetterEntry>,
    /// For `after`, to go on; null when the last page was not full.
    next: Option<i64>,
    counts: Vec<CountEntry>,
}

#[derive(Serialize)]
struct CountEntry {
    code: String,
    letters: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LetterEntry {
    id: i64,
    buried_at: Option<jiff::Timestamp>,
    source: String,
    source_position: String,
    code: String,
    reason: String,
    body_bytes: u64,
    body_truncated: bool,
    headers_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Vec<(String, String)>>,
}

impl From<Heading> for LetterEntry {
    fn from(heading: Heading) -> Self {
        Self {
            id: heading.id,
            buried_at: jiff::Timestamp::from_millisecond(heading.buried_at_millis).ok(),
            source: heading.source,
            source_position: heading.source_position,
            code: heading.code,
            reason: heading.reason,
            body_bytes: heading.body_bytes,
            body_truncated: heading.body_truncated,
            headers_truncated: heading.headers_truncated,
            headers: None,
        }
    }
}

/// `GET /api/v2/dead-letters`: oldest first.
pub async fn list(request: HttpRequest, services: web::Data<Services>) -> Result<HttpResponse, ApiError> {
    only_administrators(&principal_of(&request))?;
    let parameters = Parameters::of(&request, &PARAMETERS)?;
    let after = parameters.value("after", "the id of a dead letter")?;
    let limit = parameters.limit(DEFAULT_LIMIT, MAX_LISTED)?;
    let letters = services.dead_letters.list(after, limit).await?;
    let next = letters.last().filter(|_| letters.len() == limit).map(|last| last.id);
    let counts = services.dead_letters.count_by_code().await?;
    let count = |CodeCount { code, letters }| CountEntry { code, letters };
    Ok(HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(ListAnswer {
        dead_letters: letters.into_iter().map(LetterEntry::from).collect(),
        next,
        counts: counts.into_iter().map(count).collect(),
    }))
}

/// `GET /api/v2/dead-letters/{id}`: with its headers, without its body.
pub async fn one(
    request: HttpRequest,
    id: web::Path<String>,
    services: web::Data<Services>,
) -> Result<HttpResponse, ApiError> {
    only_administrators(&principal_of(&request))?;
    let Buried { heading, headers, .. } = find(&id, &services).await?;
    let entry = LetterEntry { headers: Some(headers), ..heading.into() };
    Ok(HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(entry))
}

/// `GET /api/v2/dead-letters/{id}/body`: its bytes as they came.
pub async fn body(
    request: HttpRequest,
    id: web::Path<String>,
    services: web::Data<Services>,
) -> Result<HttpResponse, ApiError> {
    only_administrators(&principal_of(&request))?;
    let letter = find(&id, &services).await?;
    Ok(HttpResponse::Ok()
        .content_type(ContentType::octet_stream())
        .insert_header((CACHE_CONTROL, "no-store"))
        // Whoever sent it chose its bytes: no browser may take them for a page of ours.
        .insert_header(("Content-Disposition", "attachment"))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .body(letter.body))
}

async fn find(id: &str, services: &Services) -> Result<Buried, ApiError> {
    let gone = || ApiError::not_found("There is no dead letter with this id.");
    let id = id.parse().map_err(|_| gone())?;
    services.dead_letters.get(id).await?.ok_or_else(gone)
}
