//! HTTP requests that the executor makes.
//!
//! A streamed response begins with the result of the call, whose body is empty, and goes on with
//! [`BodyDelta`] news until one is [`done`](BodyDeltaParams::done). It belongs to the connection and ends with it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{method, notification};
use crate::base64::Base64;

/// Most bytes in one [`BodyDelta`].
pub const MAX_DELTA: usize = 1024 * 1024;

method!(
    /// Makes an HTTP request.
    HttpRequest, "http/request", HttpRequestParams => HttpRequestResult
);
notification!(
    /// More of a streamed body.
    BodyDelta, "http/request/bodyDelta", BodyDeltaParams
);

/// What to ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequestParams {
    /// The method.
    pub method: String,
    /// An absolute URL, `http` or `https`.
    pub url: String,
    /// Headers; those with the same name keep their order.
    #[serde(default)]
    pub headers: Vec<HttpHeader>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<Base64>,
    /// Longest time for the whole exchange, in milliseconds; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What to do about redirects.
    #[serde(default)]
    pub redirect_policy: RedirectPolicy,
    /// Names the stream among those of the connection. Required even without one.
    pub request_id: String,
    /// Whether the body follows as news.
    #[serde(default)]
    pub stream_response: bool,
}

/// A header. Its value may be a secret, so it is not printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// A variable of the executor's environment whose content goes behind the value. Needs the capability
    /// `httpHeaderEnvVars`. Requests only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_env_var: Option<String>,
}

impl fmt::Debug for HttpHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHeader")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What to do about redirects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RedirectPolicy {
    /// Follow them.
    #[default]
    Follow,
    /// Give them back.
    Stop,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequestResult {
    /// The status.
    pub status: u16,
    /// Headers whose values are text.
    pub headers: Vec<HttpHeader>,
    /// The body; empty when it is streamed.
    pub body_base64: Base64,
}

/// More of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyDeltaParams {
    /// Which stream.
    pub request_id: String,
    /// Counts from 1.
    pub seq: u64,
    /// The bytes: at most [`MAX_DELTA`], none in the last.
    pub delta_base64: Base64,
    /// Whether this is the last.
    #[serde(default)]
    pub done: bool,
    /// Why the body broke off; in the last only.
    #[serde(default)]
    pub error: Option<String>,
}

/// Appends a whole `http/request/bodyDelta` message that is not the last: the bytes go straight from `delta` into base64.
///
/// # Errors
///
/// When `request_id` cannot be written as JSON, which no text causes.
pub fn write_delta(out: &mut Vec<u8>, request_id: &str, seq: u64, delta: &[u8]) -> serde_json::Result<()> {
    out.reserve(delta.len().div_ceil(3) * 4 + request_id.len() + 128);
    out.extend_from_slice(br#"{"method":"http/request/bodyDelta","params":{"requestId":"#);
    serde_json::to_writer(&mut *out, request_id)?;
    out.extend_from_slice(br#","seq":"#);
    serde_json::to_writer(&mut *out, &seq)?;
    out.extend_from_slice(br#","deltaBase64":""#);
    Base64::encode_into(delta, out);
    out.extend_from_slice(br#"","done":false,"error":null}}"#);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Message, decode_params};

    #[test]
    fn a_delta_is_what_the_types_write() {
        let mut text = Vec::new();
        write_delta(&mut text, "a\"b", 7, b"bytes").unwrap();
        let Message::Notification(news) = Message::decode(&text).unwrap() else {
            panic!("news")
        };
        assert_eq!(news.method, "http/request/bodyDelta");
        let params: BodyDeltaParams = decode_params(news.params.as_deref()).unwrap();
        let sent = BodyDeltaParams {
            request_id: "a\"b".to_owned(),
            seq: 7,
            delta_base64: Base64::from(b"bytes".to_vec()),
            done: false,
            error: None,
        };
        assert_eq!(params, sent);
    }

    #[test]
    fn values_of_headers_are_not_printed() {
        let header = HttpHeader {
            name: "authorization".to_owned(),
            value: "hidden".to_owned(),
            value_env_var: None,
        };
        let printed = format!("{header:?}");
        assert!(
            printed.contains("authorization") && !printed.contains("hidden"),
            "{printed}"
        );
    }
}
