//! Byte payloads inside JSON: standard base64 with padding, decoded strictly.

use std::fmt;

use ::base64::Engine as _;
use ::base64::display::Base64Display;
use bytes::Bytes;
use engine::STANDARD;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// All output and input of processes passes here, so whatever the processor has is used.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod engine {
    use std::sync::LazyLock;

    use ::base64::engine::general_purpose::PAD;
    use ::base64::engine::simd::Simd;

    pub(super) static STANDARD: LazyLock<Simd> = LazyLock::new(|| Simd::standard(PAD));
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod engine {
    use std::sync::LazyLock;

    use ::base64::engine::general_purpose::{self, GeneralPurpose};

    pub(super) static STANDARD: LazyLock<GeneralPurpose> = LazyLock::new(|| general_purpose::STANDARD);
}

/// Bytes that travel as base64 text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Base64(pub Bytes);

impl Base64 {
    /// Decodes base64 text; none when it is anything else.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        STANDARD.decode(text).ok().map(Self::from)
    }

    /// Appends the base64 text of `bytes` to `out`, without quotes.
    pub fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let len = bytes.len().div_ceil(3) * 4;
        out.resize(start + len, 0);
        let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
        debug_assert_eq!(written, len, "base64 of a known length");
    }
}

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base64({} bytes)", self.0.len())
    }
}

impl From<Bytes> for Base64 {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl From<Vec<u8>> for Base64 {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &*STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Strict)?.map_err(D::Error::custom)
    }
}

/// Reads text whose fault is to be judged later: `Err` says why it is no base64.
pub mod deferred {
    use super::{Base64, Deserializer, Serialize as _, Serializer, Strict};

    /// The bytes, or what is wrong with the text.
    pub type Deferred = Result<Base64, String>;

    /// Writes the bytes; an error writes an empty text.
    ///
    /// # Errors
    ///
    /// As the serializer.
    pub fn serialize<S: Serializer>(value: &Deferred, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Ok(bytes) => bytes.serialize(serializer),
            Err(_) => serializer.serialize_str(""),
        }
    }

    /// Reads any text.
    ///
    /// # Errors
    ///
    /// When the value is no text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Deferred, D::Error> {
        Ok(deserializer.deserialize_str(Strict)?.map_err(|error| error.to_string()))
    }
}

struct Strict;

impl Visitor<'_> for Strict {
    type Value = Result<Base64, ::base64::DecodeError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a base64 string")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(STANDARD.decode(text).map(Base64::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trips(bytes: Vec<u8>) {
            let text = serde_json::to_string(&Base64::from(bytes.clone())).unwrap();
            let mut appended = b"x".to_vec();
            Base64::encode_into(&bytes, &mut appended);
            prop_assert_eq!(format!("\"{}\"", std::str::from_utf8(&appended[1..]).unwrap()), text.as_str());
            let back: Base64 = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.0, bytes);
        }
    }

    /// Long enough for every width of the processor's registers.
    #[test]
    fn agrees_with_the_portable_engine_at_every_length() {
        use ::base64::engine::general_purpose::STANDARD as PORTABLE;
        let bytes: Vec<u8> = (0..400_u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for len in 0..bytes.len() {
            let text = PORTABLE.encode(&bytes[..len]);
            let mut encoded = Vec::new();
            Base64::encode_into(&bytes[..len], &mut encoded);
            assert_eq!(encoded, text.as_bytes(), "{len} bytes");
            assert_eq!(
                Base64::decode(&encoded),
                Some(bytes[..len].to_vec().into()),
                "{len} bytes"
            );
        }
    }

    #[test]
    fn refuses_a_foreign_byte_anywhere() {
        let mut text = Vec::new();
        Base64::encode_into(&[0xa5; 200], &mut text);
        for at in 0..text.len() {
            for foreign in [b'-', b'_', b'=', b' ', b'\n', b'@', b'[', b'`', b'{', 0, 0x80, 0xff] {
                let mut text = text.clone();
                if std::mem::replace(&mut text[at], foreign) != foreign {
                    assert_eq!(Base64::decode(&text), None, "{foreign:#x} at {at}");
                }
            }
        }
    }

    #[test]
    fn refuses_other_alphabets_missing_padding_and_stray_bits() {
        for text in ["YQ", "YR==", "YQ==\\n", "Y Q=", "_-8=", "=", "YQ==YQ=="] {
            assert!(
                serde_json::from_str::<Base64>(&format!("\"{text}\"")).is_err(),
                "{text}"
            );
        }
        assert_eq!(
            serde_json::from_str::<Base64>("\"\\u0059Q==\"").unwrap().0.as_ref(),
            b"a"
        );
        assert!(serde_json::from_str::<Base64>("5").is_err());
    }
}
