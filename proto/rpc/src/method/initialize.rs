//! How a stream begins: `initialize`, then `initialized`, then everything else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::environment::EnvironmentInfo;
use super::{method, notification};

/// The extension that adds `process/closeStdin`, `process/resize`, `process/list`, and every signal to `process/signal`.
pub const PROCESS_CONTROL: &str = "processControl";

/// The extension that adds `process/consumed`: output waits for its reader instead of being dropped.
pub const OUTPUT_WINDOW: &str = "outputWindow";

/// The extension that lets the end-to-end stream outlive its connection. It belongs to whoever ends the channel.
pub const RELIABLE_STREAM: &str = "reliableStream";

method!(
    /// Opens a session, or takes up one that lost its stream.
    Initialize, "initialize", InitializeParams => InitializeResult
);
notification!(
    /// The client has read the result of `initialize`. The content is ignored.
    Initialized, "initialized", serde_json::Value
);

/// Extensions by name, each with a version or an object. Only what both sides name is used; stock peers name none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Extensions(pub BTreeMap<String, serde_json::Value>);

impl Extensions {
    /// Names one extension at one version.
    pub fn with(mut self, name: &str, version: u64) -> Self {
        self.0.insert(name.to_owned(), version.into());
        self
    }

    /// Whether an extension is named with exactly this version.
    pub fn has(&self, name: &str, version: u64) -> bool {
        self.0.get(name).and_then(serde_json::Value::as_u64) == Some(version)
    }

    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a client says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// Any name; for logs.
    pub client_name: String,
    /// The session to take up. It is a bearer secret. Written as null when there is none, as stock clients do.
    pub resume_session_id: Option<String>,
    /// Whether to take that session from the stream that holds it, which ends then. Belongs to the extension
    /// `detachedSessions`.
    #[serde(
        default,
        deserialize_with = "super::null_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub take_over: bool,
    /// What the client can do beyond the stock contract.
    #[serde(
        default,
        deserialize_with = "super::null_default",
        skip_serializing_if = "Extensions::is_empty"
    )]
    pub extensions: Extensions,
}

/// What the executor answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The session, a UUID; the resumed one's when there was one.
    pub session_id: String,
    /// The same as `environment/info` gives. Old executors leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
    /// The offered extensions that the executor will use.
    #[serde(
        default,
        deserialize_with = "super::null_default",
        skip_serializing_if = "Extensions::is_empty"
    )]
    pub extensions: Extensions,
}
