//! `validate`: an executor asks whether a harness key is welcome.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use rendezvous_wire::limits::{MAX_AUTHORIZATION, MAX_STREAM_ID};
use rendezvous_wire::registry::{STREAM_ID_HEADER, ValidateRequest, ValidateResponse};

use super::{EnvironmentPath, environment, split};
use crate::api::{ApiError, authorize, body};
use crate::app::App;
use crate::store::{Presented, Role};
use crate::token::Digest;

/// Whether the authorization is the registry's, bound to this key and registration, and unused. Once the caller is known,
/// the answer is a plain yes or no: an error would make a stock executor report its own credential as refused.
pub(in crate::api) async fn validate(
    State(app): State<Arc<App>>,
    path: EnvironmentPath,
    request: Request,
) -> Result<Json<ValidateResponse>, ApiError> {
    let (parts, payload) = split(request);
    let environment = environment(path)?;
    authorize(&app, &parts, Role::Executor, Some(&environment)).await?;
    let stream = stream(&parts.headers)?;
    let request: ValidateRequest = body::read(payload).await?;
    let authorization = request.harness_key_authorization.expose();
    let presented = Presented {
        digest: Digest::of(authorization),
        environment,
        registration: request.executor_registration_id,
        key: request.harness_public_key.digest(),
        stream,
    };
    let valid = authorization.len() <= MAX_AUTHORIZATION
        && !presented.registration.contains('\0')
        && app.store.consume(&presented, app.clock.now()).await?;
    metrics::counter!("rendezvous_registry_validations_total", "valid" => valid.to_string()).increment(1);
    if !valid {
        tracing::debug!(environment = %presented.environment, key = %presented.key, "harness key refused");
    }
    Ok(Json(ValidateResponse { valid }))
}

/// The stream that the executor names; empty for an executor that names none.
fn stream(headers: &HeaderMap) -> Result<String, ApiError> {
    let Some(value) = headers.get(STREAM_ID_HEADER) else {
        return Ok(String::new());
    };
    value
        .to_str()
        .ok()
        .filter(|text| text.len() <= MAX_STREAM_ID)
        .map(str::to_owned)
        .ok_or_else(|| {
            ApiError::invalid(format!(
                "{STREAM_ID_HEADER} must be at most {MAX_STREAM_ID} printable characters"
            ))
        })
}
