//! The static key pair of an executor or harness.

use std::fmt;
use std::sync::Arc;

use rand_core::CryptoRng;
use rendezvous_wire::key::PublicKey;

use crate::primitives::{mlkem, x25519};

/// A static key pair: X25519 and ML-KEM-768. Clones share the secrets, which are wiped with the last one.
///
/// Stock peers make one for each life of their process and keep it in memory only. `Debug` shows the digest of the
/// public key, nothing else.
#[derive(Clone)]
pub struct Identity(Arc<Pair>);

struct Pair {
    x25519: x25519::SecretKey,
    mlkem: mlkem::SecretKey,
    public: PublicKey,
}

impl Identity {
    /// Draws a new pair: 32 bytes for X25519, then the 64 bytes of the ML-KEM seed.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let x25519 = x25519::SecretKey::generate(rng);
        Self::new(x25519, mlkem::SecretKey::generate(rng))
    }

    /// The pair of an X25519 secret and an ML-KEM seed (`d`, then `z`).
    pub fn from_seeds(x25519: &[u8; 32], mlkem: &[u8; 64]) -> Self {
        Self::new(
            x25519::SecretKey::from_bytes(x25519),
            mlkem::SecretKey::from_seed(mlkem),
        )
    }

    /// The public half, as it stands in registry calls.
    pub fn public(&self) -> &PublicKey {
        &self.0.public
    }

    fn new(x25519: x25519::SecretKey, mlkem: mlkem::SecretKey) -> Self {
        let public = PublicKey {
            x25519: x25519.public(),
            mlkem768: mlkem.public(),
        };
        Self(Arc::new(Pair { x25519, mlkem, public }))
    }

    pub(crate) fn x25519(&self) -> &x25519::SecretKey {
        &self.0.x25519
    }

    pub(crate) fn mlkem(&self) -> &mlkem::SecretKey {
        &self.0.mlkem
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.0.public.digest())
    }
}
