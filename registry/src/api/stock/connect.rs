//! `connect`: a harness asks for a way to an executor.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::identity::{IDENTITY_HEADER, IdentityClaim};
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::limits::{ABSENT_EXECUTOR_WAIT, AUTHORIZATION_LIFETIME, HARNESS_TICKET_LIFETIME};
use rendezvous_wire::registry::{ConnectRequest, ConnectResponse, SECURITY_PROFILE, code};
use rendezvous_wire::secret::Secret;
use rendezvous_wire::ticket::{Role as TicketRole, relay_url};

use super::{EnvironmentPath, Ticket, environment, sign, split};
use crate::api::wait::{until, within};
use crate::api::{ApiError, authorize, body};
use crate::app::App;
use crate::store::{Credential, Live, NewAuthorization, Registration, Role, StoreError};
use crate::token::{self, Digest};

/// Gives the caller what one attempt to reach the executor needs.
pub(in crate::api) async fn connect(
    State(app): State<Arc<App>>,
    path: EnvironmentPath,
    request: Request,
) -> Result<(HeaderMap, Json<ConnectResponse>), ApiError> {
    let deadline = within(ABSENT_EXECUTOR_WAIT);
    let (parts, payload) = split(request);
    let environment = environment(path)?;
    let credential = authorize(&app, &parts, Role::Harness, Some(&environment)).await?;
    let request: ConnectRequest = body::read(payload).await?;
    let key = request.harness_public_key.digest();
    let attempt = async || {
        let Some((registration, live)) = present(&app, &environment).await? else {
            return Ok(None);
        };
        let authorization = match authorization(&app, &environment, &registration, &credential, key).await {
            // A newer registration came in between: its executor is awaited like an absent one.
            Err(StoreError::NotFound) => return Ok(None),
            other => other?,
        };
        Ok(Some((registration, live, authorization)))
    };
    let (registration, live, authorization) = until(&app, deadline, attempt).await?.ok_or_else(offline)?;
    let now = app.clock.now();
    let ticket = Ticket {
        role: TicketRole::Harness,
        audience: live.relay.as_str(),
        environment: &environment,
        registration: &registration.id,
        generation: registration.generation,
        credential: &credential,
        key: Some(key),
        expires: now.after(HARNESS_TICKET_LIFETIME),
    };
    let ticket = sign(&app, &ticket, now)?;
    let headers = claim(&registration.identity);
    let answer = ConnectResponse {
        url: Secret::new(relay_url(&live.public_url, &environment, &ticket)),
        environment_id: environment.into(),
        security_profile: SECURITY_PROFILE.to_owned(),
        executor_registration_id: registration.id.into(),
        executor_public_key: registration.key,
        harness_key_authorization: authorization,
    };
    Ok((headers, Json(answer)))
}

/// Passes on what the executor says of its key, if it said anything.
fn claim(identity: &IdentityClaim) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if identity.persistent
        && let Ok(value) = HeaderValue::from_str(&identity.to_string())
    {
        headers.insert(IDENTITY_HEADER, value);
    }
    headers
}

/// The current registration and the relay that holds its executor, if that relay takes new streams.
async fn present(app: &App, environment: &EnvironmentId) -> Result<Option<(Registration, Live)>, ApiError> {
    let status = app.store.status(environment, app.clock.now()).await?;
    let status = status.ok_or_else(|| ApiError::no_environment(environment))?;
    Ok(status.registration.zip(status.live.filter(|live| live.accepting)))
}

async fn authorization(
    app: &App,
    environment: &EnvironmentId,
    registration: &Registration,
    credential: &Credential,
    key: KeyDigest,
) -> Result<Secret, StoreError> {
    let text = token::random_text().map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let now = app.clock.now();
    let new = NewAuthorization {
        digest: Digest::of(&text),
        environment: environment.clone(),
        registration: registration.id.clone(),
        key,
        credential: credential.id.clone(),
        expires: now.after(AUTHORIZATION_LIFETIME),
    };
    app.store.authorize(&new, now).await?;
    Ok(Secret::new(text))
}

fn offline() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        code::ENVIRONMENT_OFFLINE,
        "no executor of this environment is connected",
    )
    .retry_after(std::time::Duration::from_secs(1))
}
