//! Who asks.

use actix_web::{HttpMessage, HttpRequest};
use freshet_feed::Principal;

/// Who asks, as the layer that authenticates has found. Without such a layer it is someone unknown, who may read
/// what is public.
pub fn principal_of(request: &HttpRequest) -> Principal {
    request.extensions().get::<Principal>().cloned().unwrap_or_default()
}
