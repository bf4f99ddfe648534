//! Bodies: bounded in length, time and shape before they are decoded.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use rendezvous_wire::json::{Bounds, JsonError, decode};
use rendezvous_wire::limits::MAX_REGISTRY_REQUEST;
use rendezvous_wire::registry::code;
use serde::de::DeserializeOwned;

use super::ApiError;

/// Longest time that a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads and decodes a body.
///
/// # Errors
///
/// 413 when it is too long, 408 when it takes too long, 400 when it breaks off or does not fit.
pub(super) async fn read<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let bytes = collect(body).await?;
    decode(&bytes, Bounds::REGISTRY).map_err(|error| match error {
        JsonError::TooLong { limit, .. } => ApiError::too_large(limit),
        other => ApiError::invalid(other),
    })
}

async fn collect(body: Body) -> Result<Bytes, ApiError> {
    // A body that says itself that it is too long is not waited for.
    if body.size_hint().lower() > MAX_REGISTRY_REQUEST as u64 {
        return Err(ApiError::too_large(MAX_REGISTRY_REQUEST));
    }
    let body = Limited::new(body, MAX_REGISTRY_REQUEST);
    match tokio::time::timeout(BODY_TIMEOUT, body.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::too_large(MAX_REGISTRY_REQUEST)),
        Ok(Err(_)) => Err(ApiError::invalid("the body breaks off")),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            code::INVALID_REQUEST,
            "the body did not arrive in time",
        )),
    }
}
