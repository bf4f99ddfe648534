//! The calls of the registry.

use std::fmt;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::identity::{IDENTITY_HEADER, IdentityClaim};
use rendezvous_wire::json::{self, Bounds};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::limits::{MAX_REGISTRY_DEPTH, MAX_REGISTRY_RESPONSE, REGISTRY_TIMEOUT};
use rendezvous_wire::registry::{
    Call, ConnectRequest, ConnectResponse, MAX_ALTERNATIVES, RegisterRequest, RegisterResponse, SECURITY_PROFILE,
    STREAM_ID_HEADER, ValidateRequest, ValidateResponse, path,
};
use rendezvous_wire::secret::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::connector::Connector;
use crate::policy::RegistryUrl;

mod clear_text;
mod direct;
mod error;
mod http1;

pub use direct::{DirectClient, DirectRegistration};
pub(crate) use error::retry_after;
pub use error::{CallError, Refusal};
use http1::Http;

/// Bounds of a reply; members that we do not know may be in it.
const REPLY: Bounds = Bounds {
    len: MAX_REGISTRY_RESPONSE,
    depth: MAX_REGISTRY_DEPTH,
    values: 1024,
};

/// What a [`Client`] is made from.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the registry is.
    pub url: RegistryUrl,
    /// Sent as `Authorization: Bearer …`.
    pub credential: Secret,
    /// Sent as `chatgpt-account-id`, for registries that want it.
    pub account: Option<String>,
    /// How to reach it.
    pub connector: Connector,
}

/// Why no client could be made; the configuration is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The credential or account cannot stand in a header.
    #[error("the {0} contains characters that cannot be sent")]
    Header(&'static str),
}

/// An executor's place at the relay.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Part of every handshake's prologue.
    pub id: RegistrationId,
    /// The relay URL with the executor's ticket; good for reconnects.
    pub url: Secret,
    /// Further relays that take the same ticket, if the registry names some.
    pub alternatives: Vec<Secret>,
}

/// A harness's way to an executor, good for one attempt.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Part of the handshake's prologue.
    pub registration: RegistrationId,
    /// The relay URL with the harness's ticket.
    pub url: Secret,
    /// The executor's static key.
    pub executor_key: PublicKey,
    /// What the registry says that the executor says of its key; nothing is decided by it alone.
    pub identity: IdentityClaim,
    /// The payload of handshake message 1.
    pub authorization: Secret,
}

/// Calls one registry with one credential. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: Http,
    headers: HeaderMap,
    url: RegistryUrl,
    timeout: Duration,
}

impl Client {
    /// Makes a client; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the options cannot be used.
    pub fn new(options: &Options) -> Result<Self, SetupError> {
        Ok(Self {
            http: Http::new(options.connector.clone()),
            headers: headers(options)?,
            url: options.url.clone(),
            timeout: REGISTRY_TIMEOUT,
        })
    }

    /// Replaces the ten seconds that a call may take, body included.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Where the registry is.
    pub fn url(&self) -> &RegistryUrl {
        &self.url
    }

    /// Announces an executor and its key.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn register(&self, environment: &EnvironmentId, key: &PublicKey) -> Result<Registration, CallError> {
        self.register_as(environment, key, &IdentityClaim::default()).await
    }

    /// Announces an executor and its key, and what it says of the key.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn register_as(
        &self,
        environment: &EnvironmentId,
        key: &PublicKey,
        identity: &IdentityClaim,
    ) -> Result<Registration, CallError> {
        let request = RegisterRequest {
            security_profile: SECURITY_PROFILE.to_owned(),
            executor_public_key: key.clone(),
        };
        let claim = identity.persistent.then(|| (IDENTITY_HEADER, identity.to_string()));
        let (reply, _): (RegisterResponse, _) = self.call(environment, Call::Register, &request, claim).await?;
        check(environment, &reply.environment_id, &reply.security_profile)?;
        Ok(Registration {
            id: registration(&reply.executor_registration_id)?,
            url: not_blank("url", reply.url)?,
            alternatives: reply.alternative_urls.into_iter().take(MAX_ALTERNATIVES).collect(),
        })
    }

    /// Asks for a way to the executor of an environment.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn connect(&self, environment: &EnvironmentId, key: &PublicKey) -> Result<Bundle, CallError> {
        let request = ConnectRequest {
            harness_public_key: key.clone(),
        };
        let (reply, headers): (ConnectResponse, _) = self.call(environment, Call::Connect, &request, None).await?;
        check(environment, &reply.environment_id, &reply.security_profile)?;
        Ok(Bundle {
            registration: registration(&reply.executor_registration_id)?,
            url: not_blank("url", reply.url)?,
            executor_key: reply.executor_public_key,
            identity: identity(&headers),
            authorization: not_blank("harness_key_authorization", reply.harness_key_authorization)?,
        })
    }

    /// Asks whether the harness with the proven `key` may use the executor. Only `Ok(true)` admits: `Ok(false)` is the
    /// registry's no, and every error must be taken as one too. [`CallError::is_unauthenticated`] tells a refused executor
    /// credential from the rest.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn validate(
        &self,
        environment: &EnvironmentId,
        registration: &RegistrationId,
        key: &PublicKey,
        authorization: &Secret,
        stream: &StreamId,
    ) -> Result<bool, CallError> {
        let request = ValidateRequest {
            executor_registration_id: registration.as_str().to_owned(),
            harness_public_key: key.clone(),
            harness_key_authorization: authorization.clone(),
        };
        let stream = Some((STREAM_ID_HEADER, stream.as_str().to_owned()));
        let (reply, _): (ValidateResponse, _) = self.call(environment, Call::Validate, &request, stream).await?;
        Ok(reply.valid)
    }

    async fn call<Q: Serialize, R: DeserializeOwned>(
        &self,
        environment: &EnvironmentId,
        call: Call,
        request: &Q,
        header: Option<(&'static str, String)>,
    ) -> Result<(R, HeaderMap), CallError> {
        let body = serde_json::to_vec(request).map_err(|error| CallError::Malformed(error.to_string()))?;
        let mut headers = self.headers.clone();
        // What cannot stand in a header, as a stream id may, is only left out: our headers help, and decide nothing.
        if let Some((name, Ok(value))) = header.map(|(name, value)| (name, HeaderValue::try_from(value))) {
            headers.insert(HeaderName::from_static(name), value);
        }
        let url = self.url.join(&path(environment, call));
        exchange_whole(&self.http, &url, headers, body, self.timeout).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Posts a JSON document and reads the one that answers it, both within `limit`.
async fn exchange<R: DeserializeOwned>(
    http: &Http,
    url: &str,
    headers: HeaderMap,
    body: Vec<u8>,
    limit: Duration,
) -> Result<R, CallError> {
    Ok(exchange_whole(http, url, headers, body, limit).await?.0)
}

/// As [`exchange`], with the headers of the answer.
async fn exchange_whole<R: DeserializeOwned>(
    http: &Http,
    url: &str,
    headers: HeaderMap,
    body: Vec<u8>,
    limit: Duration,
) -> Result<(R, HeaderMap), CallError> {
    let deadline = Instant::now() + limit;
    let sent = timeout_at(deadline, http.post(url, headers, body)).await;
    let response = sent.unwrap_or(Err(CallError::Timeout))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = timeout_at(deadline, http1::read(response.into_body())).await;
    let body = body.unwrap_or(Err(CallError::Timeout));
    if !status.is_success() {
        // The status says enough, even when the body stalls or breaks.
        let body = body.unwrap_or_default();
        return Err(CallError::Refused(Refusal::new(status, &headers, &body)));
    }
    let body = body?;
    // The decoder would take an array of the members' values too, and `[true]` for a yes.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(CallError::Malformed("not a JSON object".to_owned()));
    }
    let reply = json::decode(&body, REPLY).map_err(|error| CallError::Malformed(error.to_string()))?;
    Ok((reply, headers))
}

/// What an answer says of the executor's key. One that cannot be read counts as none.
fn identity(headers: &HeaderMap) -> IdentityClaim {
    let claim = headers.get(IDENTITY_HEADER).and_then(|value| value.to_str().ok());
    claim.and_then(|claim| claim.parse().ok()).unwrap_or_default()
}

fn headers(options: &Options) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::new();
    let bearer = zeroize::Zeroizing::new(format!("Bearer {}", options.credential.expose()));
    let mut bearer = HeaderValue::from_str(&bearer).map_err(|_| SetupError::Header("credential"))?;
    bearer.set_sensitive(true);
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(account) = &options.account {
        let account = HeaderValue::from_str(account).map_err(|_| SetupError::Header("account id"))?;
        headers.insert(HeaderName::from_static("chatgpt-account-id"), account);
    }
    Ok(headers)
}

fn check(asked: &EnvironmentId, environment: &str, profile: &str) -> Result<(), CallError> {
    if environment != asked.as_str() {
        return Err(CallError::Mismatch("environment_id"));
    }
    if profile != SECURITY_PROFILE {
        return Err(CallError::Mismatch("security_profile"));
    }
    Ok(())
}

fn registration(text: &str) -> Result<RegistrationId, CallError> {
    RegistrationId::new(text).map_err(|_| CallError::Mismatch("executor_registration_id"))
}

fn not_blank(member: &'static str, secret: Secret) -> Result<Secret, CallError> {
    if secret.is_blank() {
        Err(CallError::Mismatch(member))
    } else {
        Ok(secret)
    }
}
