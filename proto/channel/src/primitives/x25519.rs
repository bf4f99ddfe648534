//! X25519. An all-zero result is not refused: stock peers accept it, and the ML-KEM half carries the session then.

use rand_core::CryptoRng;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::hash::SecretHash;

/// Wiped on drop.
pub(crate) struct SecretKey(StaticSecret);

impl SecretKey {
    /// Draws 32 bytes.
    pub(crate) fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        Self(StaticSecret::random_from_rng(rng))
    }

    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(StaticSecret::from(*bytes))
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        PublicKey::from(&self.0).to_bytes()
    }

    pub(crate) fn diffie_hellman(&self, public: &[u8; 32]) -> SecretHash {
        Zeroizing::new(self.0.diffie_hellman(&PublicKey::from(*public)).to_bytes())
    }
}
