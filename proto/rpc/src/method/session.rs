//! Sessions that are kept for long without a stream: the extension `detachedSessions`.
//!
//! A session is kept once its client has asked for it. From then on the output of its processes is kept too, up to limits,
//! whether anybody is attached or not. Who knows a session's id, or has the key that opened it, may see and end it.

use serde::{Deserialize, Serialize};

use super::process::ProcessInfo;
use super::{Empty, method};

/// The extension that adds the calls of this module, and `takeOver` to `initialize`.
pub const DETACHED_SESSIONS: &str = "detachedSessions";

/// Most ids in one `session/list`.
pub const MAX_LISTED: usize = 1024;
/// Longest name of a session, in bytes.
pub const MAX_NAME: usize = 64;

method!(
    /// Keeps the session of this stream without one, for longer than usual.
    Retain, "session/retain", RetainParams => RetainResult
);
method!(
    /// Lists kept sessions.
    List, "session/list", ListParams => ListResult
);
method!(
    /// Signals every process of a kept session.
    Signal, "session/signal", SignalParams => Empty
);
method!(
    /// Ends a kept session: kills its processes and forgets their output.
    End, "session/end", SessionParams => EndResult
);

/// How long to keep the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetainParams {
    /// Milliseconds without a stream after which it ends; absent: two days, or what the executor allows if that is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    /// What people call it: 1 to [`MAX_NAME`] letters, digits, `.`, `-` and `_`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether only the key that opened it may take it up, whoever else knows its id.
    #[serde(default)]
    pub bound_to_key: bool,
}

/// The session is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetainResult {
    /// Milliseconds without a stream after which it ends.
    pub retention_ms: u64,
}

/// Which sessions to list: those that the key of this stream opened, and these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListParams {
    /// Ids that the client knows, at most [`MAX_LISTED`].
    #[serde(default)]
    pub session_ids: Vec<String>,
}

/// Kept sessions, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListResult {
    /// One entry for each that exists.
    pub sessions: Vec<SessionInfo>,
    /// The longest retention that the executor allows, in milliseconds.
    pub max_retention_ms: u64,
}

/// A kept session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its id, a secret.
    pub session_id: String,
    /// What its client calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Milliseconds since it was opened.
    pub age_ms: u64,
    /// Whether a stream holds it now.
    pub attached: bool,
    /// Milliseconds without a stream after which it ends.
    pub retention_ms: u64,
    /// Milliseconds until then, while no stream holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// Its processes, oldest first.
    pub processes: Vec<ProcessInfo>,
}

/// A signal for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// Which session.
    pub session_id: String,
    /// The name in signal(7), such as `SIGTERM`.
    pub signal: String,
}

/// Names a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionParams {
    /// Which session.
    pub session_id: String,
}

/// What `session/end` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndResult {
    /// Whether a process ran until now.
    pub running: bool,
}
