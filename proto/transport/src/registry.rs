//! The calls of the registry.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::json::{self, Bounds};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::limits::{MAX_REGISTRY_DEPTH, MAX_REGISTRY_RESPONSE, REGISTRY_TIMEOUT};
use rendezvous_wire::registry::{
    Call, ConnectRequest, ConnectResponse, RegisterRequest, RegisterResponse, SECURITY_PROFILE, STREAM_ID_HEADER,
    ValidateRequest, ValidateResponse, path,
};
use rendezvous_wire::secret::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::policy::RegistryUrl;
use crate::tls::{Trust, TrustError, no_trust};

mod direct;
mod error;

pub use direct::{DirectClient, DirectRegistration};
pub(crate) use error::retry_after;
pub use error::{CallError, Refusal};

/// Connections that are kept for the next call.
const MAX_IDLE_CONNECTIONS: usize = 4;
/// How long they are kept: less than servers keep theirs, so that a call seldom meets a closed one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
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
    /// Whom to trust over `https`.
    pub trust: Arc<Trust>,
}

/// Why no client could be made; the configuration is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The credential or account cannot stand in a header.
    #[error("the {0} contains characters that cannot be sent")]
    Header(&'static str),
    /// TLS cannot be set up.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client")]
    Http(#[source] reqwest::Error),
}

/// An executor's place at the relay.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Part of every handshake's prologue.
    pub id: RegistrationId,
    /// The relay URL with the executor's ticket; good for reconnects.
    pub url: Secret,
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
    /// The payload of handshake message 1.
    pub authorization: Secret,
}

/// Calls one registry with one credential. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
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
            http: http_client(&options.url, &options.trust, headers(options)?)?,
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
        let request = RegisterRequest {
            security_profile: SECURITY_PROFILE.to_owned(),
            executor_public_key: key.clone(),
        };
        let reply: RegisterResponse = self.call(environment, Call::Register, &request, None).await?;
        check(environment, &reply.environment_id, &reply.security_profile)?;
        Ok(Registration {
            id: registration(&reply.executor_registration_id)?,
            url: not_blank("url", reply.url)?,
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
        let reply: ConnectResponse = self.call(environment, Call::Connect, &request, None).await?;
        check(environment, &reply.environment_id, &reply.security_profile)?;
        Ok(Bundle {
            registration: registration(&reply.executor_registration_id)?,
            url: not_blank("url", reply.url)?,
            executor_key: reply.executor_public_key,
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
        let reply: ValidateResponse = self.call(environment, Call::Validate, &request, Some(stream)).await?;
        Ok(reply.valid)
    }

    async fn call<Q: Serialize, R: DeserializeOwned>(
        &self,
        environment: &EnvironmentId,
        call: Call,
        request: &Q,
        stream: Option<&StreamId>,
    ) -> Result<R, CallError> {
        let body = serde_json::to_vec(request).map_err(|error| CallError::Malformed(error.to_string()))?;
        let mut http = self.http.post(self.url.join(&path(environment, call))).body(body);
        // A stream id that cannot stand in a header is only left out: the header helps the registry to see a repeated
        // call, it decides nothing.
        if let Some(stream) = stream.and_then(|stream| HeaderValue::from_str(stream.as_str()).ok()) {
            http = http.header(STREAM_ID_HEADER, stream);
        }
        exchange(http, self.timeout).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

/// For one registry; `headers` are sent with every call.
fn http_client(url: &RegistryUrl, trust: &Trust, headers: HeaderMap) -> Result<reqwest::Client, SetupError> {
    let tls = if url.is_tls() {
        trust.config()?
    } else {
        no_trust().map_err(TrustError::from)?
    };
    reqwest::Client::builder()
        .tls_backend_preconfigured((*tls).clone())
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .http1_only()
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build()
        .map_err(SetupError::Http)
}

/// Sends a call and reads its answer, both within `limit`.
async fn exchange<R: DeserializeOwned>(call: reqwest::RequestBuilder, limit: Duration) -> Result<R, CallError> {
    let deadline = tokio::time::Instant::now() + limit;
    let response = tokio::time::timeout_at(deadline, call.send())
        .await
        .map_err(|_| CallError::Timeout)?
        .map_err(CallError::from_http)?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = tokio::time::timeout_at(deadline, read(response))
        .await
        .unwrap_or(Err(CallError::Timeout));
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
    json::decode(&body, REPLY).map_err(|error| CallError::Malformed(error.to_string()))
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

/// The whole body, at most [`MAX_REGISTRY_RESPONSE`] bytes.
async fn read(mut response: reqwest::Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(CallError::from_http)? {
        if body.len() + chunk.len() > MAX_REGISTRY_RESPONSE {
            return Err(CallError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
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
