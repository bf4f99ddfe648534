//! Who calls, and whether they may.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use rendezvous_service::net::Peer;
use rendezvous_wire::id::EnvironmentId;

use super::ApiError;
use crate::address::bucket;
use crate::app::App;
use crate::clock::Timestamp;
use crate::store::{Credential, Role};
use crate::token::Digest;

/// How exactly the last use of a credential is noted.
const TOUCH: Duration = Duration::from_secs(60);

/// The caller's credential, if it is live, within its rate, of `role`, and reaches `environment`.
///
/// # Errors
///
/// 401 without a live credential, 403 when it does not reach so far, 429 when calls or failures are too many.
pub async fn authorize(
    app: &App,
    parts: &Parts,
    role: Role,
    environment: Option<&EnvironmentId>,
) -> Result<Credential, ApiError> {
    let now = app.clock.now();
    let Some(credential) = find(app, &parts.headers, now).await? else {
        return Err(refuse(app, parts));
    };
    app.calls.check(&credential.id).map_err(|wait| {
        tracing::debug!(credential = %credential.id, "too many calls");
        ApiError::rate_limited(wait)
    })?;
    if credential.role != role {
        return Err(ApiError::forbidden(format!(
            "this call needs a credential of role {role}, not {}",
            credential.role
        )));
    }
    if environment.is_some_and(|environment| !credential.reaches(environment)) {
        return Err(ApiError::forbidden("the credential does not reach this environment"));
    }
    touch(app, &credential, now).await;
    Ok(credential)
}

async fn find(app: &App, headers: &HeaderMap, now: Timestamp) -> Result<Option<Credential>, ApiError> {
    let Some(digest) = bearer(headers).and_then(Digest::of_token) else {
        return Ok(None);
    };
    let found = app.store.credential_by_digest(digest).await?;
    Ok(found.filter(|credential| credential.is_live(now)))
}

/// The token of the only `Authorization` header, if it is a bearer's.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Failures are counted by address, so that whoever guesses or hammers is slowed down, and nobody else behind the same
/// address is: a live credential is never refused for the failures of others.
fn refuse(app: &App, parts: &Parts) -> ApiError {
    let Some(peer) = parts.extensions.get::<Peer>() else {
        return ApiError::unauthenticated();
    };
    let client = bucket(app.trusted_proxies.client(peer.addr.ip(), &parts.headers));
    metrics::counter!("rendezvous_registry_refused_credentials_total").increment(1);
    match app.failures.check(&client) {
        Ok(()) => ApiError::unauthenticated(),
        Err(wait) => ApiError::rate_limited(wait),
    }
}

async fn touch(app: &App, credential: &Credential, now: Timestamp) {
    if credential.last_used.is_some_and(|used| now < used.after(TOUCH)) {
        return;
    }
    if let Err(error) = app.store.touch_credential(&credential.id, now).await {
        tracing::debug!(%error, "the use of a credential was not noted");
    }
}
