//! The registry's HTTP surface.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{delete, get, post};
use tracing::Instrument as _;

use crate::app::App;
use crate::{control, token};

mod authenticate;
mod body;
mod credentials;
mod environments;
mod error;
mod stock;
mod wait;

pub use authenticate::authorize;
pub use error::ApiError;

/// Names a request in the response and in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Every route, below the base path.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/cloud/environment/{id}/register", post(stock::register))
        .route("/cloud/environment/{id}/connect", post(stock::connect))
        .route("/cloud/environment/{id}/validate", post(stock::validate))
        .route("/v1/environments", get(environments::list).post(environments::create))
        .route(
            "/v1/environments/{id}",
            get(environments::show).delete(environments::remove),
        )
        .route("/v1/credentials", get(credentials::list).post(credentials::create))
        .route("/v1/credentials/{id}", delete(credentials::revoke))
        .route("/v1/relays", get(environments::relays))
        .route("/v1/relay/control", get(control::websocket::upgrade))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .fallback(async || ApiError::not_found("there is no such route"))
        .layer(from_fn(observe))
        .with_state(app)
}

/// Names each request, and counts it by route and status.
async fn observe(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = token::id("req_");
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let span = tracing::info_span!("request", id, method = %request.method(), path = request.uri().path());
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.in_scope(|| tracing::debug!(status = status.as_u16(), elapsed = ?start.elapsed(), "answered"));
    metrics::counter!("rendezvous_registry_requests_total", "route" => route.clone(), "status" => status.as_u16().to_string())
        .increment(1);
    metrics::histogram!("rendezvous_registry_request_seconds", "route" => route).record(start.elapsed());
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
