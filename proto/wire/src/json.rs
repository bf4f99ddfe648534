//! Bounds that JSON from outside must respect before it is decoded into types.
//!
//! [`check`] walks a document once without building it. It refuses duplicate object keys, trailing data, deep nesting
//! and more values than a budget allows, so that what decodes afterwards means the same to every reader and costs no
//! more than expected.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::limits::{MAX_JSON_VALUES, MAX_REGISTRY_DEPTH, MAX_REGISTRY_REQUEST};

/// What a document may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most bytes.
    pub len: usize,
    /// Deepest nesting; a scalar has depth 0. The decoder's own limit of 127 holds beside it.
    pub depth: usize,
    /// Most values: objects, arrays and scalars, the root included, keys not.
    pub values: usize,
}

impl Bounds {
    /// Bounds of a registry call's body.
    pub const REGISTRY: Self = Self {
        len: MAX_REGISTRY_REQUEST,
        depth: MAX_REGISTRY_DEPTH,
        values: 1024,
    };
    /// Bounds of one JSON-RPC message; its length is bounded by its framing.
    pub const RPC: Self = Self {
        len: crate::limits::MAX_MESSAGE,
        depth: 127,
        values: MAX_JSON_VALUES,
    };
}

/// Why a document was refused; the sender is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// More bytes than allowed.
    #[error("JSON of {got} bytes exceeds the limit of {limit}")]
    TooLong {
        /// The document's length.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// Nested deeper than allowed.
    #[error("JSON is nested deeper than {0}")]
    TooDeep(usize),
    /// More values than allowed.
    #[error("JSON exceeds the limit of {0} values")]
    TooManyValues(usize),
    /// Not JSON, a duplicate key, trailing data, or a type that does not fit.
    #[error("{0}")]
    Invalid(#[from] serde_json::Error),
}

/// Checks a document against `bounds`, duplicate keys and trailing data, and gives it as text.
///
/// # Errors
///
/// Says which bound or rule the document breaks.
pub fn check(document: &[u8], bounds: Bounds) -> Result<&str, JsonError> {
    if document.len() > bounds.len {
        return Err(JsonError::TooLong {
            got: document.len(),
            limit: bounds.len,
        });
    }
    let walk = Walk {
        bounds,
        values: Cell::new(0),
        broken: Cell::new(None),
    };
    // Once for the whole document, not for each of its strings.
    let text = std::str::from_utf8(document).map_err(serde_json::Error::custom)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let result = Node { walk: &walk, depth: 0 }
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    match (result, walk.broken.get()) {
        (Ok(()), _) => Ok(text),
        (Err(_), Some(Broken::Depth)) => Err(JsonError::TooDeep(bounds.depth)),
        (Err(_), Some(Broken::Values)) => Err(JsonError::TooManyValues(bounds.values)),
        (Err(error), None) => Err(JsonError::Invalid(error)),
    }
}

/// Checks a document and decodes it.
///
/// # Errors
///
/// Says which bound or rule the document breaks, or why it does not fit the type.
pub fn decode<T: DeserializeOwned>(document: &[u8], bounds: Bounds) -> Result<T, JsonError> {
    Ok(serde_json::from_str(check(document, bounds)?)?)
}

#[derive(Clone, Copy)]
enum Broken {
    Depth,
    Values,
}

struct Walk {
    bounds: Bounds,
    values: Cell<usize>,
    broken: Cell<Option<Broken>>,
}

#[derive(Clone, Copy)]
struct Node<'a> {
    walk: &'a Walk,
    depth: usize,
}

impl<'a> Node<'a> {
    fn child<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= self.walk.bounds.depth {
            self.walk.broken.set(Some(Broken::Depth));
            return Err(E::custom("too deep"));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn count<E: serde::de::Error>(self) -> Result<(), E> {
        let values = self.walk.values.get() + 1;
        if values > self.walk.bounds.values {
            self.walk.broken.set(Some(Broken::Values));
            return Err(E::custom("too many values"));
        }
        self.walk.values.set(values);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let child = self.child()?;
        while seq.next_element_seed(child)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let child = self.child()?;
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key_seed(Key)? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format_args!("duplicate JSON object key `{key}`")));
            }
            keys.insert(key);
            map.next_value_seed(child)?;
        }
        Ok(())
    }
}

/// An object key, borrowed from the document where it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object key")
    }
    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }
    fn visit_str<E>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rpc(document: &str) -> Result<(), JsonError> {
        check(document.as_bytes(), Bounds::RPC).map(drop)
    }

    #[test]
    fn accepts_what_json_allows() {
        for document in ["null", " [1, -2, 3.5e7, true, \"x\\u00e9\", {\"a\":{\"a\":1}}] ", "{}"] {
            rpc(document).expect(document);
        }
    }

    #[test]
    fn refuses_duplicates_trailing_data_and_broken_text() {
        for document in [
            r#"{"a":1,"a":2}"#,
            r#"[{"b":{"k":1,"\u006b":2}}]"#,
            "1 2",
            "{} x",
            "{",
            "",
            "[1,]",
            "\"\u{1}\"",
        ] {
            assert!(matches!(rpc(document), Err(JsonError::Invalid(_))), "{document}");
        }
    }

    #[test]
    fn refuses_what_is_no_text_anywhere() {
        for document in [&b"\xff"[..], b"{\"a\":\"\xc3\"}", b"{\"\x80\":1}", b"[1] \xe2\x82"] {
            assert!(matches!(check(document, Bounds::RPC), Err(JsonError::Invalid(_))));
        }
        assert_eq!(check("\"\u{20ac}\"".as_bytes(), Bounds::RPC).unwrap(), "\"\u{20ac}\"");
    }

    #[test]
    fn counts_every_value_but_no_key() {
        let bounds = Bounds {
            values: 4,
            ..Bounds::RPC
        };
        check(br#"{"a":[1],"b":2}"#, bounds).expect("four values");
        let error = check(br#"{"a":[1,1],"b":2}"#, bounds).expect_err("five values");
        assert!(matches!(error, JsonError::TooManyValues(4)));
    }

    #[test]
    fn bounds_depth_and_length() {
        let bounds = Bounds {
            depth: 2,
            len: 8,
            ..Bounds::RPC
        };
        check(b"[[1]]", bounds).expect("two deep");
        assert!(matches!(check(b"[[[]]]", bounds), Err(JsonError::TooDeep(2))));
        assert!(matches!(
            check(b"[1,2,3,4]", bounds),
            Err(JsonError::TooLong { got: 9, limit: 8 })
        ));
        let bomb = "[".repeat(1 << 20);
        assert!(rpc(&bomb).is_err());
    }
}
