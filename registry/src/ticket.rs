//! Signs the capabilities inside relay URLs.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rendezvous_wire::control::TicketKey;
use rendezvous_wire::ticket::Claims;
use zeroize::Zeroizing;

use crate::clock::Timestamp;
use crate::store::SigningKey;
use crate::token;

/// A key that cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// The operating system gave no randomness.
    #[error("no key pair could be made")]
    Generate,
    /// The store holds no key.
    #[error("there is no signing key")]
    Missing,
    /// Signing failed, or the stored key is none.
    #[error("tickets cannot be signed: {0}")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

/// A new Ed25519 key pair.
///
/// # Errors
///
/// The operating system gave no randomness.
pub fn generate(now: Timestamp) -> Result<SigningKey, SignerError> {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| SignerError::Generate)?;
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).map_err(|_| SignerError::Generate)?;
    Ok(SigningKey {
        kid: token::id("key_"),
        pkcs8: Zeroizing::new(pkcs8.as_ref().to_vec()),
        x: URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()),
        created: now,
    })
}

/// Signs with the newest key; every key verifies.
pub struct Signer {
    header: Header,
    key: EncodingKey,
    keys: Vec<TicketKey>,
}

impl Signer {
    /// Takes the stored keys, newest first.
    ///
    /// # Errors
    ///
    /// There is none, or the newest cannot sign.
    pub fn new(keys: &[SigningKey]) -> Result<Self, SignerError> {
        let newest = keys.first().ok_or(SignerError::Missing)?;
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(newest.kid.clone());
        let signer = Self {
            header,
            key: EncodingKey::from_ed_der(&newest.pkcs8),
            keys: keys
                .iter()
                .map(|key| TicketKey {
                    kid: key.kid.clone(),
                    x: key.x.clone(),
                })
                .collect(),
        };
        jsonwebtoken::encode(&signer.header, &(), &signer.key)?;
        Ok(signer)
    }

    /// The public halves, for relays.
    pub fn keys(&self) -> &[TicketKey] {
        &self.keys
    }

    /// The ticket with these claims.
    ///
    /// # Errors
    ///
    /// Signing failed: a fault of the registry.
    pub fn sign(&self, claims: &Claims) -> Result<String, SignerError> {
        Ok(jsonwebtoken::encode(&self.header, claims, &self.key)?)
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
