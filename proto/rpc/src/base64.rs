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
    /// Decodes base64 text.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let decoded = STANDARD.decode(text).map_err(|error| error.to_string())?;
        Ok(decoded.into())
    }

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

/// Writes base64 text piece by piece, as if all bytes had come at once.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Bytes that do not make a group yet.
    rest: Vec<u8>,
}

impl Encoder {
    /// Appends the text of more bytes to `out`, except for what needs the bytes after them.
    pub fn update(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        if !self.rest.is_empty() {
            let (fill, after) = bytes.split_at(bytes.len().min(GROUP - self.rest.len()));
            self.rest.extend_from_slice(fill);
            bytes = after;
            if self.rest.len() < GROUP {
                return;
            }
            Base64::encode_into(&self.rest, out);
            self.rest.clear();
        }
        let (groups, rest) = bytes.split_at(bytes.len() / GROUP * GROUP);
        Base64::encode_into(groups, out);
        self.rest.extend_from_slice(rest);
    }

    /// Appends what is left.
    pub fn finish(self, out: &mut Vec<u8>) {
        Base64::encode_into(&self.rest, out);
    }
}

/// Bytes that make four characters.
const GROUP: usize = 3;
/// Characters that are decoded at once.
const STEP: usize = 256 * 1024;

/// The bytes of a text, piece by piece, so that text and bytes are never in memory both.
#[derive(Debug)]
pub struct Pieces {
    text: Bytes,
}

impl Pieces {
    /// Takes a text and checks all of it.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn new(text: Bytes) -> Result<Self, String> {
        let mut scratch = Vec::with_capacity(STEP / 4 * GROUP);
        for (number, piece) in text.chunks(STEP).enumerate() {
            scratch.clear();
            let is_last = (number + 1) * STEP >= text.len();
            STANDARD
                .decode_vec(piece, &mut scratch)
                .map_err(|error| error.to_string())?;
            // Padding ends the text; the decoder knows only where its own piece ends.
            if !is_last && piece.ends_with(b"=") {
                return Err("padding inside the text".to_owned());
            }
        }
        Ok(Self { text })
    }
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.text.is_empty() {
            return None;
        }
        let piece = self.text.split_to(self.text.len().min(STEP));
        STANDARD.decode(&piece).ok()
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

    proptest! {
        #[test]
        fn pieces_are_written_as_the_whole(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 0..8)) {
            let (mut whole, mut text) = (Vec::new(), Vec::new());
            let mut encoder = Encoder::default();
            for piece in &pieces {
                encoder.update(piece, &mut text);
            }
            encoder.finish(&mut text);
            Base64::encode_into(&pieces.concat(), &mut whole);
            prop_assert_eq!(text, whole);
        }
    }

    #[test]
    fn pieces_give_the_bytes_and_refuse_what_the_whole_refuses() {
        for len in [
            0,
            1,
            2,
            3,
            STEP / 4 * GROUP - 1,
            STEP / 4 * GROUP,
            STEP / 4 * GROUP + 1,
            STEP * 2,
        ] {
            let bytes: Vec<u8> = (0..len).map(|n| n.to_le_bytes()[0]).collect();
            let mut text = Vec::new();
            Base64::encode_into(&bytes, &mut text);
            let pieces = Pieces::new(text.into()).unwrap();
            assert!(pieces.flatten().eq(bytes), "{len}");
        }
        let mut padded = vec![b'A'; STEP + 4];
        padded[STEP - 1] = b'=';
        let mut late = vec![b'A'; STEP + 4];
        late[STEP + 1] = b'!';
        for text in [padded, late, vec![b'A'; STEP + 3], b"YQ".to_vec(), b"YQ==YQ==".to_vec()] {
            assert!(Base64::decode(&text).is_none());
            assert!(Pieces::new(text.into()).is_err());
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
