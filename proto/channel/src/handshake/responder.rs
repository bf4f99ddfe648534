use std::fmt;

use rand_core::CryptoRng;
use rendezvous_wire::key::{MLKEM768_LEN, PublicKey, X25519_LEN};
use rendezvous_wire::limits::{HANDSHAKE_1_OVERHEAD, HANDSHAKE_2_OVERHEAD, TAG_LEN};
use zeroize::Zeroizing;

use super::reader::{Reader, exactly};
use super::{HandshakeError, Prologue, SessionKeys, check_length, check_payload};
use crate::identity::Identity;
use crate::primitives::mlkem::CIPHERTEXT_LEN;
use crate::primitives::{mlkem, x25519};
use crate::symmetric::SymmetricState;

/// The executor's side, before message 1.
#[derive(Debug)]
pub struct Responder;

/// Message 1 was authentic; the authorization inside it waits for a verdict.
pub struct Paused {
    symmetric: SymmetricState,
    initiator: PublicKey,
    initiator_kem: mlkem::PublicKey,
    ephemeral: [u8; X25519_LEN],
    ephemeral_kem: mlkem::PublicKey,
    payload: Zeroizing<Vec<u8>>,
}

impl Responder {
    /// Reads message 1.
    ///
    /// # Errors
    ///
    /// The message was not made for this identity and prologue, or it is malformed.
    pub fn read(identity: &Identity, prologue: &Prologue, message: &[u8]) -> Result<Paused, HandshakeError> {
        check_length(HANDSHAKE_1_OVERHEAD, message)?;
        let mut reader = Reader::new(message);
        let own = identity.public();
        let mut symmetric = SymmetricState::new();
        symmetric.mix_hash(prologue.as_bytes());
        symmetric.mix_hash(&own.x25519);
        symmetric.mix_hash(own.mlkem768.as_slice());

        // skem
        let ciphertext = reader.take::<CIPHERTEXT_LEN>()?;
        symmetric.mix_hash(ciphertext);
        symmetric.mix_key_and_hash(&identity.mlkem().decapsulate(ciphertext));
        // e
        let ephemeral = reader.take::<X25519_LEN>()?;
        symmetric.mix_hash(ephemeral);
        let ephemeral_kem = reader.take::<MLKEM768_LEN>()?;
        symmetric.mix_hash(ephemeral_kem);
        // es
        symmetric.mix_key(&identity.x25519().diffie_hellman(ephemeral));
        // s
        let x25519 = symmetric.decrypt_and_hash(reader.take::<{ X25519_LEN + TAG_LEN }>()?)?;
        let mlkem768 = symmetric.decrypt_and_hash(reader.take::<{ MLKEM768_LEN + TAG_LEN }>()?)?;
        let initiator = PublicKey {
            x25519: *exactly(&x25519)?,
            mlkem768: Box::new(*exactly(&mlkem768)?),
        };
        // ss
        symmetric.mix_key(&identity.x25519().diffie_hellman(&initiator.x25519));
        let payload = symmetric.decrypt_and_hash(reader.rest())?;

        let decode = |key| mlkem::PublicKey::decode(key).map_err(|_| HandshakeError::InvalidPeerKey);
        Ok(Paused {
            initiator_kem: decode(&initiator.mlkem768)?,
            ephemeral: *ephemeral,
            ephemeral_kem: decode(ephemeral_kem)?,
            symmetric,
            initiator,
            payload,
        })
    }
}

impl Paused {
    /// The static key that the initiator proved to hold the X25519 half of. It can read the answer only with both.
    pub fn initiator_key(&self) -> &PublicKey {
        &self.initiator
    }

    /// The decrypted payload of message 1: the authorization.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Gives message 2 and the session's keys.
    ///
    /// Draws from `rng`, in this order: two encapsulations (32 bytes each), ephemeral X25519 (32), ephemeral ML-KEM
    /// seed (64).
    ///
    /// # Errors
    ///
    /// Only if the cipher fails.
    pub fn accept<R: CryptoRng + ?Sized>(self, rng: &mut R) -> Result<(Vec<u8>, SessionKeys), HandshakeError> {
        let (message, symmetric) = self.write(&[], rng)?;
        Ok((message, SessionKeys::responder(symmetric)))
    }

    /// Gives a message 2 that tells the initiator, and nobody else, why it is refused; there is no session.
    ///
    /// `reason` must not be empty, for an empty one accepts; [`super::CREDENTIAL_REJECTED`] is the one that stock
    /// peers know. Draws as [`Self::accept`] does.
    ///
    /// # Errors
    ///
    /// `reason` is empty or does not fit.
    pub fn refuse<R: CryptoRng + ?Sized>(self, rng: &mut R, reason: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        if reason.is_empty() {
            return Err(HandshakeError::NoReason);
        }
        Ok(self.write(reason, rng)?.0)
    }

    fn write<R: CryptoRng + ?Sized>(
        mut self,
        payload: &[u8],
        rng: &mut R,
    ) -> Result<(Vec<u8>, SymmetricState), HandshakeError> {
        check_payload(HANDSHAKE_2_OVERHEAD, payload)?;
        let mut message = Vec::with_capacity(HANDSHAKE_2_OVERHEAD + payload.len());
        let symmetric = &mut self.symmetric;

        // ekem
        let (ciphertext, shared) = self.ephemeral_kem.encapsulate(rng);
        symmetric.mix_hash(&ciphertext);
        message.extend_from_slice(&ciphertext);
        symmetric.mix_key(&shared);
        // skem
        let (ciphertext, shared) = self.initiator_kem.encapsulate(rng);
        symmetric.encrypt_and_hash(&ciphertext, &mut message)?;
        symmetric.mix_key_and_hash(&shared);
        // e: the pattern sends an ML-KEM half too, which nothing uses
        let ephemeral = x25519::SecretKey::generate(rng);
        let unused = mlkem::SecretKey::generate(rng);
        for public in [ephemeral.public().as_slice(), unused.public().as_slice()] {
            symmetric.mix_hash(public);
            message.extend_from_slice(public);
        }
        // ee
        symmetric.mix_key(&ephemeral.diffie_hellman(&self.ephemeral));
        // se
        symmetric.mix_key(&ephemeral.diffie_hellman(&self.initiator.x25519));
        symmetric.encrypt_and_hash(payload, &mut message)?;
        Ok((message, self.symmetric))
    }

    #[cfg(test)]
    pub(super) fn symmetric(&self) -> &SymmetricState {
        &self.symmetric
    }
}

impl fmt::Debug for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paused")
            .field("initiator", &self.initiator)
            .finish_non_exhaustive()
    }
}
