//! `/livez`, `/readyz` and `/actors`: what load balancers and operators ask.

use std::time::Duration;

use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::Services;
use super::error::ApiError;
use super::identity::{only_administrators, principal_of};
use crate::readiness;

/// How long the actors have to tell about themselves; one that hangs shows what it said last.
const OBSERVE_WITHIN: Duration = Duration::from_millis(250);

/// `GET /livez`: 200 while the process serves requests at all. Restarting it cures nothing that this answers.
pub async fn livez() -> HttpResponse {
    HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(json!({"status": "alive"}))
}

/// `GET /readyz`: 200 when every part is well, 503 with the reasons otherwise. By configuration an outage that the
/// rest of the instance serves through leaves it at 200, with the reasons too.
pub async fn readyz(services: web::Data<Services>) -> HttpResponse {
    let Some(tree) = services.lifecycle.snapshot() else {
        return not_ready(&[readiness::Reason {
            actor: "root".to_owned(),
            code: "starting".to_owned(),
            reason: "the tree is being built".to_owned(),
            outage: false,
        }]);
    };
    let reasons = readiness::reasons(&tree, services.lifecycle.draining());
    let unready = |reason: &readiness::Reason| services.unready_when_degraded || !reason.outage;
    if reasons.iter().any(unready) {
        return not_ready(&reasons);
    }
    let status = if reasons.is_empty() { "ready" } else { "degraded" };
    HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(json!({"status": status, "reasons": reasons}))
}

fn not_ready(reasons: &[readiness::Reason]) -> HttpResponse {
    HttpResponse::ServiceUnavailable()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(json!({"status": "not_ready", "reasons": reasons}))
}

/// `GET /actors`: the tree as it is now.
pub async fn actors(request: HttpRequest, services: web::Data<Services>) -> Result<HttpResponse, ApiError> {
    only_administrators(&principal_of(&request))?;
    Ok(match services.lifecycle.fresh_snapshot(OBSERVE_WITHIN).await {
        Some(tree) => HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(tree),
        None => HttpResponse::ServiceUnavailable().json(json!({"status": "starting"})),
    })
}
