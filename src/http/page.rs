//! The page for a first look: the live feed in a browser, with nothing to install.

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ContentType};

const LIVE_PAGE: &str = include_str!("live.html");

/// `GET /`
pub async fn live() -> HttpResponse {
    HttpResponse::Ok()
        .content_type(ContentType::html())
        .insert_header((CACHE_CONTROL, "no-cache"))
        // The page is one file: its own script and style, the feed of this server, and nothing else.
        .insert_header((
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .body(LIVE_PAGE)
}
