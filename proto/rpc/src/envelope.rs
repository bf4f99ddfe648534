//! Bytes to requests, notifications and replies, and back.
//!
//! The shape is JSON-RPC without its `jsonrpc` member: none is written, one that comes in is ignored like every other
//! unknown member. Parameters and results stay raw until the method is known.

mod long_text;
mod params;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use rendezvous_wire::json::{self, Bounds, JsonError};
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub use self::params::{Params, decode_params_around};
use crate::code::RpcError;

/// The id of a reply to a message that could not be read.
pub const UNREADABLE_ID: RequestId = RequestId::Integer(-1);

/// Names a call; its sender chooses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestId {
    /// A whole number, as stock peers send.
    Integer(i64),
    /// A text.
    Text(String),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(id) => id.fmt(f),
            Self::Text(id) => id.fmt(f),
        }
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self::Integer(id)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(id) => serializer.serialize_i64(*id),
            Self::Text(id) => serializer.serialize_str(id),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Id;
        impl Visitor<'_> for Id {
            type Value = RequestId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a signed 64-bit integer")
            }
            fn visit_i64<E>(self, id: i64) -> Result<RequestId, E> {
                Ok(RequestId::Integer(id))
            }
            fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<RequestId, E> {
                i64::try_from(id)
                    .map(RequestId::Integer)
                    .map_err(|_| E::custom("request id is beyond 64 signed bits"))
            }
            fn visit_str<E>(self, id: &str) -> Result<RequestId, E> {
                Ok(RequestId::Text(id.to_owned()))
            }
        }
        deserializer.deserialize_any(Id)
    }
}

/// W3C trace context. It is carried, never trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The `traceparent` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The `tracestate` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Request {
    /// What the reply must name.
    pub id: RequestId,
    /// Which method.
    pub method: String,
    /// Its parameters; decode with [`decode_params`].
    pub params: Option<Params>,
    /// Where the call belongs in a trace. Whether its texts mean anything is for whoever uses them to find out.
    pub trace: Option<Trace>,
}

/// News that expect no reply.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Which news.
    pub method: String,
    /// Its parameters; decode with [`decode_params`].
    pub params: Option<Params>,
}

/// The good end of a call.
#[derive(Clone, Debug)]
pub struct Response {
    /// Which call.
    pub id: RequestId,
    /// Its result; decode with [`decode_result`].
    pub result: Box<RawValue>,
    /// Whether there was an error beside the result, which stock peers ignore.
    pub has_error: bool,
}

/// The bad end of a call.
#[derive(Clone, Debug)]
pub struct ErrorResponse {
    /// Which call.
    pub id: RequestId,
    /// Why.
    pub error: RpcError,
}

/// One JSON-RPC message.
#[derive(Clone, Debug)]
pub enum Message {
    /// A call.
    Request(Request),
    /// News.
    Notification(Notification),
    /// The good end of a call.
    Response(Response),
    /// The bad end of a call.
    Error(ErrorResponse),
}

/// Why bytes are no message; the sender is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// More values than a message may have.
    #[error("JSON-RPC message exceeds the limit of {0} JSON values")]
    TooManyValues(usize),
    /// The document is no object.
    #[error("expected a JSON-RPC object")]
    NotAnObject,
    /// Broken JSON, a duplicate key, or no shape of a message.
    #[error("{0}")]
    Json(JsonError),
}

impl From<JsonError> for EnvelopeError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::TooManyValues(limit) => Self::TooManyValues(limit),
            other => Self::Json(other),
        }
    }
}

impl EnvelopeError {
    /// The error that is sent back under [`UNREADABLE_ID`].
    pub fn to_rpc(&self) -> RpcError {
        RpcError::invalid_request(format!("failed to parse JSON-RPC message: {self}"))
    }
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(default, deserialize_with = "present")]
    id: Option<RequestId>,
    #[serde(default, deserialize_with = "present", borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "present", borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    error: Option<RpcError>,
    #[serde(default)]
    trace: Option<Trace>,
}

/// A member that is there counts as there, even when it is null.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Message {
    /// Reads one message; its parameters are copied.
    ///
    /// # Errors
    ///
    /// When the bytes are no JSON object within [`Bounds::RPC`], hold a duplicate key, or have no shape of a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        Self::decode_with(bytes, Bytes::copy_from_slice)
    }

    /// Reads one message, whose memory its parameters share.
    ///
    /// # Errors
    ///
    /// As [`Message::decode`].
    pub fn decode_shared(bytes: &Bytes) -> Result<Self, EnvelopeError> {
        Self::decode_with(bytes, |params| bytes.slice_ref(params))
    }

    fn decode_with(bytes: &[u8], own: impl Fn(&[u8]) -> Bytes) -> Result<Self, EnvelopeError> {
        // Whatever is odd about a message with a long text is told in the words for the whole message.
        if let Some(message) = long_text::find(bytes).and_then(|text| Self::decode_around(bytes, text, &own)) {
            return Ok(message);
        }
        Self::decode_document(bytes, |params| Some(Params::new(own(params.as_bytes()))))
    }

    /// Reads a message past a long text that is a part of its parameters.
    fn decode_around(bytes: &[u8], text: Range<usize>, own: &impl Fn(&[u8]) -> Bytes) -> Option<Self> {
        if bytes.len() > Bounds::RPC.len {
            return None;
        }
        let brief = [&bytes[..text.start], &bytes[text.end..]].concat();
        let is_around = Cell::new(false);
        let message = Self::decode_document(&brief, |params| {
            let start = params.as_ptr().addr() - brief.as_ptr().addr();
            let at = text.start.checked_sub(start).filter(|at| *at < params.len())?;
            is_around.set(true);
            let whole = own(&bytes[start..start + params.len() + text.len()]);
            Some(Params::around(whole, params.to_owned(), at))
        });
        message.ok().filter(|_| is_around.get())
    }

    fn decode_document(bytes: &[u8], own: impl Fn(&str) -> Option<Params>) -> Result<Self, EnvelopeError> {
        let text = json::check(bytes, Bounds::RPC)?;
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(EnvelopeError::NotAnObject);
        }
        let members: Members<'_> = serde_json::from_str(text).map_err(JsonError::from)?;
        let missing = |member| EnvelopeError::Json(serde_json::Error::missing_field(member).into());
        let own = |params: Option<&RawValue>| params.and_then(|params| own(params.get()));
        Ok(match members {
            Members {
                id: Some(id),
                method: Some(method),
                params,
                trace,
                ..
            } => Self::Request(Request {
                id,
                method: method.into_owned(),
                params: own(params),
                trace,
            }),
            Members {
                method: Some(method),
                params,
                ..
            } => Self::Notification(Notification {
                method: method.into_owned(),
                params: own(params),
            }),
            Members { id: None, .. } => return Err(missing("id")),
            Members {
                id: Some(id),
                result: Some(result),
                error,
                ..
            } => Self::Response(Response {
                id,
                result,
                has_error: error.is_some(),
            }),
            Members {
                id: Some(id),
                error: Some(error),
                ..
            } => Self::Error(ErrorResponse { id, error }),
            Members { .. } => return Err(missing("error")),
        })
    }
}

/// Decodes the parameters of a call. Absent ones are null, and so is `{}` for a method without parameters.
///
/// # Errors
///
/// [`INVALID_PARAMS`](crate::code::INVALID_PARAMS) with the decoder's reason.
pub fn decode_params<'a, T: Deserialize<'a>>(params: Option<&'a str>) -> Result<T, RpcError> {
    let text = params.unwrap_or("null");
    serde_json::from_str(text).or_else(|error| {
        let empty = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .is_some_and(|inner| inner.trim().is_empty());
        let as_null = if empty { serde_json::from_str("null").ok() } else { None };
        as_null.ok_or_else(|| RpcError::invalid_params(reason(&error)))
    })
}

/// Decodes the result of a call.
///
/// # Errors
///
/// When the peer's result does not fit the method.
pub fn decode_result<T: DeserializeOwned>(result: &RawValue) -> Result<T, serde_json::Error> {
    serde_json::from_str(result.get())
}

/// The decoder's text without its position, which means nothing to the sender of a whole message.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Writes a call.
///
/// # Errors
///
/// When `params` cannot be written as JSON, or the writer fails.
pub fn write_request(
    mut out: impl io::Write,
    id: &RequestId,
    method: &str,
    params: &impl Serialize,
    trace: Option<&Trace>,
) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a, P> {
        id: &'a RequestId,
        method: &'a str,
        params: &'a P,
        #[serde(skip_serializing_if = "Option::is_none")]
        trace: Option<&'a Trace>,
    }
    let shape = Shape {
        id,
        method,
        params,
        trace,
    };
    serde_json::to_writer(&mut out, &shape)
}

/// Writes news.
///
/// # Errors
///
/// When `params` cannot be written as JSON, or the writer fails.
pub fn write_notification(mut out: impl io::Write, method: &str, params: &impl Serialize) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a, P> {
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_writer(&mut out, &Shape { method, params })
}

/// Writes the good end of a call.
///
/// # Errors
///
/// When `result` cannot be written as JSON, or the writer fails.
pub fn write_response(mut out: impl io::Write, id: &RequestId, result: &impl Serialize) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a, R> {
        id: &'a RequestId,
        result: &'a R,
    }
    serde_json::to_writer(&mut out, &Shape { id, result })
}

/// Writes the bad end of a call.
///
/// # Errors
///
/// When the writer fails.
pub fn write_error(mut out: impl io::Write, id: &RequestId, error: &RpcError) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a> {
        error: &'a RpcError,
        id: &'a RequestId,
    }
    serde_json::to_writer(&mut out, &Shape { error, id })
}

#[cfg(test)]
mod tests;
