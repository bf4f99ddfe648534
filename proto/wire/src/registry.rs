//! Bodies of the registry's HTTP calls that stock peers make.
//!
//! `POST {base}/cloud/environment/{id}/{register|connect|validate}`; unknown members are accepted everywhere but inside
//! a key. Secrets are [`Secret`]s, so that no `Debug` prints them.

use serde::{Deserialize, Serialize};

use crate::key::PublicKey;
use crate::secret::Secret;

/// The only security profile.
pub const SECURITY_PROFILE: &str = "noise_hybrid_ik_v1";
/// Header of `validate` that names the stream whose handshake is checked.
pub const STREAM_ID_HEADER: &str = "x-codex-noise-stream-id";

/// The path of a call under the registry's base URL, without a leading `/`.
pub fn path(environment: &crate::id::EnvironmentId, call: Call) -> String {
    format!("cloud/environment/{environment}/{}", call.as_str())
}

/// Most relays that a registration names beside the first; more are not looked at.
pub const MAX_ALTERNATIVES: usize = 3;

/// What a direct registration asks for, and is confirmed.
pub const DIRECT_TRANSPORT: &str = "direct_jsonrpc_v1";

/// The path of the registration of an executor that serves without relay and channel, like [`path`].
pub fn direct_register_path(environment: &crate::id::EnvironmentId) -> String {
    format!("cloud/environment/{environment}/direct/register")
}

/// The three calls of the stock protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// An executor announces itself.
    Register,
    /// A harness asks for a way to an executor.
    Connect,
    /// An executor asks whether a harness key is welcome.
    Validate,
}

impl Call {
    /// The last segment of the path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Connect => "connect",
            Self::Validate => "validate",
        }
    }
}

/// Request of `register`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegisterRequest {
    /// Must be [`SECURITY_PROFILE`].
    pub security_profile: String,
    /// The executor's static key.
    pub executor_public_key: PublicKey,
}

/// Response of `register`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegisterResponse {
    /// The environment that was asked for.
    pub environment_id: String,
    /// The relay URL, with the executor's ticket in it.
    pub url: Secret,
    /// [`SECURITY_PROFILE`].
    pub security_profile: String,
    /// The registration, part of every handshake's prologue.
    pub executor_registration_id: String,
    /// Further relays that take the same ticket, should the first be out of reach; at most [`MAX_ALTERNATIVES`]. Ours only: stock
    /// executors skip it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternative_urls: Vec<Secret>,
}

/// Request of `direct/register`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectRegisterRequest {
    /// Must be [`DIRECT_TRANSPORT`].
    pub transport: String,
}

/// Response of `direct/register`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectRegisterResponse {
    /// The environment that was asked for.
    pub environment_id: String,
    /// [`DIRECT_TRANSPORT`].
    pub transport: String,
    /// Names the registration; nothing is derived from it.
    pub registration_id: String,
    /// The WebSocket that the executor serves on. It may hold a ticket, though it is signed in any case.
    pub url: Secret,
}

/// Request of `connect`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConnectRequest {
    /// The harness's static key.
    pub harness_public_key: PublicKey,
}

/// Response of `connect`: good for one attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConnectResponse {
    /// The environment that was asked for.
    pub environment_id: String,
    /// The relay URL, with the harness's ticket in it.
    pub url: Secret,
    /// [`SECURITY_PROFILE`].
    pub security_profile: String,
    /// The registration, part of the handshake's prologue.
    pub executor_registration_id: String,
    /// The executor's static key.
    pub executor_public_key: PublicKey,
    /// What the harness presents inside handshake message 1.
    pub harness_key_authorization: Secret,
}

/// Request of `validate`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ValidateRequest {
    /// The registration whose handshake is checked.
    pub executor_registration_id: String,
    /// The harness key that message 1 proved.
    pub harness_public_key: PublicKey,
    /// The payload of message 1.
    pub harness_key_authorization: Secret,
}

/// Response of `validate`. Only a literal `true` admits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ValidateResponse {
    /// Whether the harness may use the executor.
    #[serde(default)]
    pub valid: bool,
}

/// Body of a refused call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorResponse {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong with a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// For programs; see [`code`].
    pub code: String,
    /// For people.
    pub message: String,
}

/// Error codes of the registry.
pub mod code {
    /// 409 on `connect`: the executor is away, come again.
    pub const ENVIRONMENT_OFFLINE: &str = "environment_offline";
    /// 409 on `register`: another executor holds the environment and answers.
    pub const ENVIRONMENT_IN_USE: &str = "environment_in_use";
    /// 503 on `register`: lost a race with another registration, come again.
    pub const REGISTRATION_CONFLICT: &str = "registration_conflict";
    /// 401: no credential, or one that is unknown, expired or revoked.
    pub const UNAUTHENTICATED: &str = "unauthenticated";
    /// 403: the credential does not reach this environment or call.
    pub const FORBIDDEN: &str = "forbidden";
    /// 404: no such environment or route.
    pub const NOT_FOUND: &str = "not_found";
    /// 400: the request breaks a rule.
    pub const INVALID_REQUEST: &str = "invalid_request";
    /// 413: the body is too large.
    pub const TOO_LARGE: &str = "request_too_large";
    /// 429: too many requests.
    pub const RATE_LIMITED: &str = "rate_limited";
    /// 503: no relay, no database, or stopping.
    pub const UNAVAILABLE: &str = "unavailable";
    /// 500: a fault of the registry.
    pub const INTERNAL: &str = "internal";
}
