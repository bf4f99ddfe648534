//! The public key of an executor or harness.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The only suite, as it stands in the JSON form of a key.
pub const SUITE: &str = "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256";
/// Length of an X25519 public key.
pub const X25519_LEN: usize = 32;
/// Length of an ML-KEM-768 public key.
pub const MLKEM768_LEN: usize = 1184;

/// Both halves of a static public key.
///
/// The JSON form names the suite and holds each half in standard base64 with padding. Unknown members, another suite
/// and wrong lengths are refused, the encoded length before anything is decoded.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PublicKey {
    /// The X25519 half.
    pub x25519: [u8; X25519_LEN],
    /// The ML-KEM-768 half.
    pub mlkem768: Box<[u8; MLKEM768_LEN]>,
}

impl PublicKey {
    /// SHA-256 over suite, X25519 half and ML-KEM half: what tickets and pins name a key by.
    pub fn digest(&self) -> KeyDigest {
        let mut hash = Sha256::new();
        hash.update(SUITE.as_bytes());
        hash.update(self.x25519);
        hash.update(self.mlkem768.as_slice());
        KeyDigest(hash.finalize().into())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.digest())
    }
}

/// The SHA-256 name of a public key; prints as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest(pub [u8; 32]);

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for KeyDigest {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(KeyError::Digest);
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            let nibble = |digit: u8| char::from(digit).to_digit(16).ok_or(KeyError::Digest);
            *byte = u8::try_from(nibble(pair[0])? << 4 | nibble(pair[1])?).map_err(|_| KeyError::Digest)?;
        }
        Ok(Self(digest))
    }
}

impl Serialize for KeyDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KeyDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Why a key was refused; the sender is at fault.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// Another suite.
    #[error("unsupported key suite, expected {SUITE}")]
    Suite,
    /// A half whose encoded text has the wrong length.
    #[error("{half} must be {expected} base64 characters, got {got}")]
    Length {
        /// Which half.
        half: &'static str,
        /// The right number of characters.
        expected: usize,
        /// The received number.
        got: usize,
    },
    /// A half that is not standard base64 with padding.
    #[error("{0} is not standard base64")]
    Base64(&'static str),
    /// A key digest that is not 64 hex digits.
    #[error("key digest must be 64 hex digits")]
    Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    suite: String,
    x25519_public_key: String,
    mlkem768_public_key: String,
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Json {
            suite: SUITE.to_owned(),
            x25519_public_key: STANDARD.encode(self.x25519),
            mlkem768_public_key: STANDARD.encode(self.mlkem768.as_slice()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        Self::try_from(json).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<Json> for PublicKey {
    type Error = KeyError;

    fn try_from(json: Json) -> Result<Self, KeyError> {
        if json.suite != SUITE {
            return Err(KeyError::Suite);
        }
        let mut key = Self {
            x25519: [0; X25519_LEN],
            mlkem768: Box::new([0; MLKEM768_LEN]),
        };
        decode("x25519_public_key", &json.x25519_public_key, &mut key.x25519)?;
        decode(
            "mlkem768_public_key",
            &json.mlkem768_public_key,
            key.mlkem768.as_mut_slice(),
        )?;
        Ok(key)
    }
}

fn decode(half: &'static str, text: &str, out: &mut [u8]) -> Result<(), KeyError> {
    let expected = out.len().div_ceil(3) * 4;
    if text.len() != expected {
        return Err(KeyError::Length {
            half,
            expected,
            got: text.len(),
        });
    }
    let bytes = STANDARD.decode(text).map_err(|_| KeyError::Base64(half))?;
    if bytes.len() != out.len() {
        return Err(KeyError::Base64(half));
    }
    out.copy_from_slice(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn key() -> PublicKey {
        PublicKey {
            x25519: [1; X25519_LEN],
            mlkem768: Box::new([2; MLKEM768_LEN]),
        }
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let mut json = json!(key());
        change(&mut json);
        serde_json::from_value::<PublicKey>(json)
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn the_json_form_is_that_of_stock_peers() {
        let json = json!(key());
        assert_eq!(json["suite"], "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256");
        assert_eq!(json["x25519_public_key"].as_str().map(str::len), Some(44));
        assert_eq!(json["mlkem768_public_key"].as_str().map(str::len), Some(1580));
        assert_eq!(serde_json::from_value::<PublicKey>(json).expect("a key"), key());
    }

    #[test]
    fn everything_else_is_refused() {
        for suite in ["", "Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256"] {
            refused(|json| json["suite"] = suite.into());
        }
        refused(|json| json["more"] = 1.into());
        for half in ["x25519_public_key", "mlkem768_public_key"] {
            refused(|json| json[half] = Value::Null);
            let good = json!(key())[half].as_str().expect("text").to_owned();
            for wrong in [
                String::new(),
                format!("{good}AAAA"),
                good[..good.len() - 4].to_owned(),
                good.replace('=', ""),
                good.replacen(&good[..1], "-", 1),
                good.replacen(&good[..1], " ", 1),
            ] {
                refused(|json| json[half] = wrong.into());
            }
        }
        // As long in base64 as the right one, and longer by a byte.
        refused(|json| json["x25519_public_key"] = STANDARD.encode([1; 33]).into());
    }

    #[test]
    fn the_digest_names_both_halves() {
        let other_x25519 = PublicKey {
            x25519: [3; X25519_LEN],
            ..key()
        };
        let other_mlkem = PublicKey {
            mlkem768: Box::new([3; MLKEM768_LEN]),
            ..key()
        };
        assert_eq!(key().digest(), key().digest());
        assert_ne!(key().digest(), other_x25519.digest());
        assert_ne!(key().digest(), other_mlkem.digest());
        assert_ne!(other_x25519.digest(), other_mlkem.digest());
    }
}
