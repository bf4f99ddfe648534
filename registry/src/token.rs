//! Bearer tokens and other random secrets: made here, stored as SHA-256 only.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rendezvous_wire::secret::Secret;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What every bearer token begins with, so that people and secret scanners know it.
pub const PREFIX: &str = "rdv_";
/// Length of the random part: 32 bytes in URL-safe base64 without padding.
const RANDOM_LEN: usize = 43;

/// The operating system gave no random bytes.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the operating system gave no random bytes: {0}")]
pub struct RandomError(#[from] getrandom::Error);

/// A new bearer token with 256 random bits.
///
/// # Errors
///
/// The operating system gave no random bytes.
pub fn generate() -> Result<Secret, RandomError> {
    Ok(Secret::new(format!("{PREFIX}{}", random_text()?)))
}

/// 256 random bits as URL-safe text of 43 characters.
///
/// # Errors
///
/// The operating system gave no random bytes.
pub fn random_text() -> Result<String, RandomError> {
    let mut bytes = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut_slice())?;
    Ok(URL_SAFE_NO_PAD.encode(bytes.as_slice()))
}

/// A random id of 32 hex digits behind `prefix`; unique, not secret.
pub fn id(prefix: &str) -> String {
    format!("{prefix}{}", uuid::Uuid::new_v4().simple())
}

/// SHA-256 of a secret. Enough for a random secret of 256 bits: there is nothing to guess.
#[derive(Clone, Copy)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of any secret text.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The digest of a bearer token, or `None` for a text that cannot be one.
    pub fn of_token(text: &str) -> Option<Self> {
        let random = text.strip_prefix(PREFIX)?;
        let plain = random
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        (random.len() == RANDOM_LEN && plain).then(|| Self::of(text))
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, generate};

    #[test]
    fn tokens_differ_and_have_a_form() {
        let (one, two) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one.expose(), two.expose());
        let digest = Digest::of_token(one.expose()).unwrap();
        assert_eq!(digest, Digest::of_token(one.expose()).unwrap());
        assert_ne!(digest, Digest::of_token(two.expose()).unwrap());
        for wrong in [
            "",
            "rdv_",
            "rdv_short",
            &one.expose()[1..],
            &format!("{}x", one.expose()),
        ] {
            assert!(Digest::of_token(wrong).is_none(), "{wrong}");
        }
    }
}
