//! The short name of a public key, for people.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::key::{KeyDigest, PublicKey};

/// Number of characters, hyphens not counted.
pub const FINGERPRINT_LEN: usize = 28;
/// Characters between two hyphens.
const GROUP: usize = 4;
/// Digits and small letters without those that look like others: `i`, `l`, `o` and `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// What people compare a key by: the first 140 bits of its [`KeyDigest`], five to a character, in seven groups of four:
/// `4g7q-2mzt-9x0c-k1ve-88ah-t5rn-wd3b`.
///
/// To find another key with the same one takes 2¹⁴⁰ attempts. Reading ignores case and hyphens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; FINGERPRINT_LEN]);

impl From<KeyDigest> for Fingerprint {
    fn from(digest: KeyDigest) -> Self {
        let bit = |index: usize| digest.0[index / 8] >> (7 - index % 8) & 1;
        Self(std::array::from_fn(|at| {
            let value = (at * 5..at * 5 + 5).fold(0, |value, index| value << 1 | bit(index));
            ALPHABET[usize::from(value)]
        }))
    }
}

impl KeyDigest {
    /// The short form for people.
    pub fn fingerprint(self) -> Fingerprint {
        self.into()
    }
}

impl PublicKey {
    /// What people compare this key by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.digest().into()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, character) in self.0.iter().enumerate() {
            if index > 0 && index % GROUP == 0 {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(*character))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no fingerprint.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a fingerprint has {FINGERPRINT_LEN} letters and digits in groups of four, such as {EXAMPLE}")]
pub struct FingerprintError;

/// Shown to whoever gave something else.
const EXAMPLE: &str = "4g7q-2mzt-9x0c-k1ve-88ah-t5rn-wd3b";

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let mut characters = [0; FINGERPRINT_LEN];
        let mut places = characters.iter_mut();
        for byte in text.bytes().filter(|byte| *byte != b'-') {
            let byte = byte.to_ascii_lowercase();
            if !ALPHABET.contains(&byte) {
                return Err(FingerprintError);
            }
            *places.next().ok_or(FingerprintError)? = byte;
        }
        match places.next() {
            None => Ok(Self(characters)),
            Some(_) => Err(FingerprintError),
        }
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_the_first_bits_of_the_digest() {
        let mut digest = KeyDigest([0; 32]);
        assert_eq!(digest.fingerprint().to_string(), "0000-0000-0000-0000-0000-0000-0000");
        digest.0[..3].copy_from_slice(&[0b0000_1000, 0b1000_0111, 0b1111_1111]);
        assert!(digest.fingerprint().to_string().starts_with("123z-"), "{digest}");
        // 140 bits are seventeen bytes and a half.
        digest.0 = [0; 32];
        digest.0[17] = 0x0f;
        assert_eq!(digest.fingerprint(), KeyDigest([0; 32]).fingerprint());
        digest.0[17] = 0x10;
        assert!(digest.fingerprint().to_string().ends_with("-0001"));
    }

    #[test]
    fn people_may_write_it_as_they_like() {
        let fingerprint = KeyDigest([0xc5; 32]).fingerprint();
        let text = fingerprint.to_string();
        assert_eq!(text.len(), FINGERPRINT_LEN + FINGERPRINT_LEN / GROUP - 1);
        for written in [text.clone(), text.replace('-', ""), text.to_uppercase()] {
            assert_eq!(written.parse(), Ok(fingerprint), "{written}");
        }
        for wrong in [
            String::new(),
            text[1..].to_owned(),
            format!("{text}0"),
            text.replacen('-', " ", 1),
            text.replacen(|c: char| c != '-', "u", 1),
            "ä".repeat(14),
        ] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(FingerprintError), "{wrong}");
        }
        assert_eq!(
            EXAMPLE.parse::<Fingerprint>().map(|known| known.to_string()).as_deref(),
            Ok(EXAMPLE)
        );
    }
}
