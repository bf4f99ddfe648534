//! `register`: an executor announces itself.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use rendezvous_wire::control::ToRelay;
use rendezvous_wire::id::{EnvironmentId, RegistrationId};
use rendezvous_wire::identity::{IDENTITY_HEADER, IdentityClaim};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::limits::EXECUTOR_TICKET_LIFETIME;
use rendezvous_wire::registry::{MAX_ALTERNATIVES, RegisterRequest, RegisterResponse, SECURITY_PROFILE, code};
use rendezvous_wire::secret::Secret;
use rendezvous_wire::ticket::{EXECUTOR_AUDIENCE, Role as TicketRole, relay_url};
use tokio::time::Instant;

use super::{EnvironmentPath, Ticket, environment, sign, split};
use crate::api::wait::{until, within};
use crate::api::{ApiError, authorize, body};
use crate::app::App;
use crate::store::{Credential, Live, NewRegistration, Registration, Relay, Role, Status, StoreError};
use crate::token;

/// Longest time for the whole call; a stock executor gives up after 10 s.
const CALL: Duration = Duration::from_secs(8);
/// Longest wait for a relay.
const RELAY_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for the answer to a probe: the relay gives the executor five seconds.
const PROBE_WAIT: Duration = Duration::from_millis(5500);

/// Binds the environment to the caller's key and tells it where to dial.
pub(in crate::api) async fn register(
    State(app): State<Arc<App>>,
    path: EnvironmentPath,
    request: Request,
) -> Result<Json<RegisterResponse>, ApiError> {
    let deadline = within(CALL);
    let (parts, payload) = split(request);
    let environment = environment(path)?;
    let credential = authorize(&app, &parts, Role::Executor, Some(&environment)).await?;
    let request: RegisterRequest = body::read(payload).await?;
    if request.security_profile != SECURITY_PROFILE {
        return Err(ApiError::invalid(format!(
            "security_profile must be {SECURITY_PROFILE}"
        )));
    }
    let identity = claim(&parts)?;
    let status = app.store.status(&environment, app.clock.now()).await?;
    let status = status.ok_or_else(|| ApiError::no_environment(&environment))?;
    yield_to_living(&app, &status, deadline).await?;
    let relays = relays(&app, deadline).await?;
    let key = request.executor_public_key;
    let (registration, generation) = bind(&app, &status, &credential, key, identity).await?;
    let relay = relays.first().map(|relay| relay.boot_id.as_str());
    tracing::info!(%environment, %registration, generation, relay, "executor registered");
    answer(&app, environment, registration, generation, &credential, &relays)
}

/// What the executor says of its key. Stock ones say nothing.
fn claim(parts: &Parts) -> Result<IdentityClaim, ApiError> {
    let Some(value) = parts.headers.get(IDENTITY_HEADER) else {
        return Ok(IdentityClaim::default());
    };
    let text = value.to_str().map_err(ApiError::invalid)?;
    text.parse::<IdentityClaim>().map_err(ApiError::invalid)
}

/// Refuses while an executor holds the environment and answers, whatever key the caller names: the living executor's key is
/// public, so that naming it proves nothing. An executor that registers again has lost its connection.
async fn yield_to_living(app: &App, status: &Status, deadline: Instant) -> Result<(), ApiError> {
    let (Some(registration), Some(live)) = (&status.registration, &status.live) else {
        return Ok(());
    };
    if !answers(app, registration, live, deadline).await? {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::CONFLICT,
        code::ENVIRONMENT_IN_USE,
        "another executor holds this environment and answers; stop it first",
    ))
}

/// Asks the relay that holds an executor to ping it. Silence counts as no.
async fn answers(app: &App, registration: &Registration, live: &Live, deadline: Instant) -> Result<bool, ApiError> {
    let probe = probe_number();
    let message = ToRelay::Probe {
        probe: probe.unsigned_abs(),
        registration: registration.id.clone(),
    };
    match app.store.ask(probe, &live.relay, &message, app.clock.now()).await {
        Err(StoreError::NotFound) => return Ok(false),
        other => other?,
    }
    app.changed.notify_waiters();
    let deadline = deadline.min(within(PROBE_WAIT));
    let answer = until(app, deadline, async || Ok(app.store.answered(probe).await?)).await?;
    Ok(answer.unwrap_or(false))
}

/// Random, so that no relay can guess the number of another one's probe. Fits JSON's exact integers.
fn probe_number() -> i64 {
    i64::try_from(uuid::Uuid::new_v4().as_u128() & ((1 << 53) - 1)).unwrap_or(0)
}

/// At least one relay that takes executors, those with the fewest first.
async fn relays(app: &App, deadline: Instant) -> Result<Vec<Relay>, ApiError> {
    let deadline = deadline.min(within(RELAY_WAIT));
    let look = async || {
        let relays = app.store.relays(app.clock.now()).await?.into_iter();
        let relays: Vec<_> = relays
            .filter(|relay| relay.accepting)
            .take(1 + MAX_ALTERNATIVES)
            .collect();
        Ok((!relays.is_empty()).then_some(relays))
    };
    until(app, deadline, look)
        .await?
        .ok_or_else(|| ApiError::unavailable("no relay is connected to the registry"))
}

async fn bind(
    app: &App,
    status: &Status,
    credential: &Credential,
    key: PublicKey,
    identity: IdentityClaim,
) -> Result<(RegistrationId, u64), ApiError> {
    let id = RegistrationId::new(token::id("reg_")).map_err(|error| ApiError::internal(&error))?;
    let new = NewRegistration {
        environment: status.environment.id.clone(),
        id,
        key,
        identity,
        credential: credential.id.clone(),
        expected_generation: status.environment.generation,
    };
    let bound = app.store.register(&new, app.clock.now()).await;
    app.changed.notify_waiters();
    match bound {
        Ok(generation) => Ok((new.id, generation)),
        Err(StoreError::NotFound) => Err(ApiError::no_environment(&new.environment)),
        Err(StoreError::Conflict) => Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            code::REGISTRATION_CONFLICT,
            "another registration of this environment came first",
        )
        .retry_after(Duration::from_secs(1))),
        Err(other) => Err(other.into()),
    }
}

fn answer(
    app: &App,
    environment: EnvironmentId,
    registration: RegistrationId,
    generation: u64,
    credential: &Credential,
    relays: &[Relay],
) -> Result<Json<RegisterResponse>, ApiError> {
    let now = app.clock.now();
    let longest = now.after(EXECUTOR_TICKET_LIFETIME);
    let ticket = Ticket {
        role: TicketRole::Executor,
        audience: EXECUTOR_AUDIENCE,
        environment: &environment,
        registration: &registration,
        generation,
        credential,
        key: None,
        expires: credential.expires.map_or(longest, |end| end.min(longest)),
    };
    let ticket = sign(app, &ticket, now)?;
    // An executor's ticket is good at every relay.
    let mut urls = relays
        .iter()
        .map(|relay| Secret::new(relay_url(&relay.public_url, &environment, &ticket)));
    let url = urls.next();
    let url = url.ok_or_else(|| ApiError::unavailable("no relay is connected to the registry"))?;
    Ok(Json(RegisterResponse {
        url,
        alternative_urls: urls.collect(),
        environment_id: environment.into(),
        security_profile: SECURITY_PROFILE.to_owned(),
        executor_registration_id: registration.into(),
    }))
}
