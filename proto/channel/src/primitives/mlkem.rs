//! ML-KEM-768 with the encodings of FIPS 203.

use ml_kem::ml_kem_768::{Ciphertext, DecapsulationKey, EncapsulationKey};
use ml_kem::{Decapsulate as _, Encapsulate as _, Generate as _, KeyExport as _};
use rand_core::CryptoRng;
use rendezvous_wire::key::MLKEM768_LEN;
use zeroize::{Zeroize as _, Zeroizing};

use super::hash::SecretHash;

pub(crate) const CIPHERTEXT_LEN: usize = 1088;
pub(crate) const SEED_LEN: usize = 64;

/// Wiped on drop.
pub(crate) struct SecretKey(DecapsulationKey);

impl SecretKey {
    /// Draws `d`, then `z`, 32 bytes each.
    pub(crate) fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        Self(DecapsulationKey::generate_from_rng(rng))
    }

    /// From `d` and `z`, one after the other.
    pub(crate) fn from_seed(seed: &[u8; SEED_LEN]) -> Self {
        Self(DecapsulationKey::from_seed((*seed).into()))
    }

    pub(crate) fn public(&self) -> Box<[u8; MLKEM768_LEN]> {
        Box::new(self.0.encapsulation_key().to_bytes().into())
    }

    /// A forged ciphertext gives a key that nobody knows, not an error.
    pub(crate) fn decapsulate(&self, ciphertext: &[u8; CIPHERTEXT_LEN]) -> SecretHash {
        into_secret(self.0.decapsulate(<&Ciphertext>::from(ciphertext)).into())
    }
}

/// A public key that satisfies the checks of FIPS 203.
pub(crate) struct PublicKey(EncapsulationKey);

/// The bytes are no ML-KEM-768 public key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InvalidKey;

impl PublicKey {
    pub(crate) fn decode(bytes: &[u8; MLKEM768_LEN]) -> Result<Self, InvalidKey> {
        EncapsulationKey::new(bytes.into()).map(Self).map_err(|_| InvalidKey)
    }

    /// Draws `m`, 32 bytes.
    pub(crate) fn encapsulate<R: CryptoRng + ?Sized>(&self, rng: &mut R) -> ([u8; CIPHERTEXT_LEN], SecretHash) {
        let (ciphertext, shared) = self.0.encapsulate_with_rng(rng);
        (ciphertext.into(), into_secret(shared.into()))
    }
}

fn into_secret(mut shared: [u8; 32]) -> SecretHash {
    let secret = Zeroizing::new(shared);
    shared.zeroize();
    secret
}
