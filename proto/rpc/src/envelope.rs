//! Bytes to requests, notifications and replies, and back.
//!
//! The shape is JSON-RPC without its `jsonrpc` member: none is written, one that comes in is ignored like every other
//! unknown member. Parameters and results stay raw until the method is known.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Deref;

use bytes::Bytes;
use rendezvous_wire::json::{self, Bounds, JsonError};
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

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

/// The JSON of a message's parameters, which shares the memory of the message.
#[derive(Clone)]
pub struct Params(Bytes);

impl Params {
    /// The text.
    pub fn get(&self) -> &str {
        // It is a part of a text; nothing else could be made from outside.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// A part of the text in the same memory; copied if it is no part of it.
    pub fn share(&self, part: &str) -> Bytes {
        let whole = self.0.as_ptr_range();
        let inside = part.as_bytes().as_ptr_range();
        if whole.start <= inside.start && inside.end <= whole.end {
            self.0.slice_ref(part.as_bytes())
        } else {
            Bytes::copy_from_slice(part.as_bytes())
        }
    }
}

impl Deref for Params {
    type Target = str;

    fn deref(&self) -> &str {
        self.get()
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.get()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
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
        json::check(bytes, Bounds::RPC)?;
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(EnvelopeError::NotAnObject);
        }
        let members: Members<'_> = serde_json::from_slice(bytes).map_err(JsonError::from)?;
        let missing = |member| EnvelopeError::Json(serde_json::Error::missing_field(member).into());
        let own = |params: Option<&RawValue>| params.map(|params| Params(own(params.get().as_bytes())));
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
