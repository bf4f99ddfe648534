//! Parameters, as they came.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::decode_params;
use crate::code::RpcError;

/// The JSON of a message's parameters, which shares the memory of the message.
#[derive(Clone)]
pub struct Params {
    text: Bytes,
    brief: Option<Box<Brief>>,
}

/// The same without the content of one long text.
#[derive(Clone)]
struct Brief {
    text: String,
    /// Where the content would be.
    at: usize,
}

impl Params {
    pub(super) fn new(text: Bytes) -> Self {
        Self { text, brief: None }
    }

    /// With the same text that lacks what is at `at`.
    pub(super) fn around(text: Bytes, brief: String, at: usize) -> Self {
        let brief = Some(Box::new(Brief { text: brief, at }));
        Self { text, brief }
    }

    /// The text.
    pub fn get(&self) -> &str {
        // It is a part of a text; nothing else could be made from outside.
        std::str::from_utf8(&self.text).unwrap_or("null")
    }

    /// A part of the text, or of what [`decode_params_around`] decoded, in the same memory; copied if it is no part of it.
    pub fn share(&self, part: &str) -> Bytes {
        if let Some(brief) = self.brief.as_ref().filter(|brief| brief.is_gap(part)) {
            let len = self.text.len() - brief.text.len();
            return self.text.slice(brief.at..brief.at + len);
        }
        let whole = self.text.as_ptr_range();
        let inside = part.as_bytes().as_ptr_range();
        if whole.start <= inside.start && inside.end <= whole.end {
            self.text.slice_ref(part.as_bytes())
        } else {
            Bytes::copy_from_slice(part.as_bytes())
        }
    }
}

impl Brief {
    /// Whether a text is what stands for the long one.
    fn is_gap(&self, part: &str) -> bool {
        part.is_empty() && part.as_ptr().addr() == self.text.as_ptr().addr() + self.at
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

/// Decodes parameters as [`decode_params`] does, without a look at the member that is most of them: `member` says which one
/// that may be, borrowed from the parameters. Where it is left out it is empty here; [`Params::share`] gives it.
///
/// # Errors
///
/// As [`decode_params`].
pub fn decode_params_around<'a, T: Deserialize<'a>>(
    params: Option<&'a Params>,
    member: impl FnOnce(&T) -> &str,
) -> Result<T, RpcError> {
    if let Some(brief) = params.and_then(|params| params.brief.as_deref())
        && let Ok(decoded) = serde_json::from_str(&brief.text)
        && brief.is_gap(member(&decoded))
    {
        return Ok(decoded);
    }
    decode_params(params.map(Params::get))
}
