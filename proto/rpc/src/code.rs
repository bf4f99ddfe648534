//! Error codes and the error of a call.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The call breaks a rule of the protocol's state, or the file system refused its input.
pub const INVALID_REQUEST: i64 = -32600;
/// The peer knows no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The peer failed.
pub const INTERNAL: i64 = -32603;
/// No such file, or no such file handle.
pub const NOT_FOUND: i64 = -32004;
/// Another connection still holds the session; it may be resumed once that one is gone.
pub const SESSION_ATTACHED: i64 = -32010;

/// Why a call failed, as it travels.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Serialize, Deserialize)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// One of this module's codes, or another that the peer chose.
    pub code: i64,
    /// For people.
    pub message: Cow<'static, str>,
    /// More for programs; no method of the contract uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl RpcError {
    /// An error with a code and a text.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// [`INVALID_REQUEST`].
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// [`METHOD_NOT_FOUND`], with the text of stock executors.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            METHOD_NOT_FOUND,
            format!("exec-server stub does not implement `{method}` yet"),
        )
    }

    /// [`INVALID_PARAMS`].
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// [`INTERNAL`].
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INTERNAL, message)
    }

    /// [`NOT_FOUND`].
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NOT_FOUND, message)
    }

    /// [`SESSION_ATTACHED`]. Old stock clients match the text, so it is part of the contract.
    pub fn session_attached(session: &str) -> Self {
        Self::new(
            SESSION_ATTACHED,
            format!("session {session} is already attached to another connection"),
        )
    }

    /// Whether the same call may succeed later without anybody changing it.
    pub fn is_retryable(&self) -> bool {
        self.code == SESSION_ATTACHED
    }
}
