use std::fmt;

use rand_core::CryptoRng;
use rendezvous_wire::key::{PublicKey, X25519_LEN};
use rendezvous_wire::limits::{HANDSHAKE_1_OVERHEAD, HANDSHAKE_2_OVERHEAD, TAG_LEN};

use super::reader::{Reader, exactly};
use super::{HandshakeError, Prologue, SessionKeys, check_length, check_payload};
use crate::identity::Identity;
use crate::primitives::mlkem::CIPHERTEXT_LEN;
use crate::primitives::{mlkem, x25519};
use crate::symmetric::SymmetricState;

/// The harness's side: message 1 is written, message 2 awaited.
pub struct Initiator {
    symmetric: SymmetricState,
    identity: Identity,
    ephemeral: x25519::SecretKey,
    ephemeral_kem: mlkem::SecretKey,
}

impl Initiator {
    /// Begins a handshake with the holder of `responder` and gives message 1, which carries `payload` encrypted.
    ///
    /// Draws from `rng`, in this order: encapsulation (32 bytes), ephemeral X25519 (32), ephemeral ML-KEM seed (64).
    ///
    /// # Errors
    ///
    /// `payload` does not fit, or `responder` is no valid key.
    pub fn start<R: CryptoRng + ?Sized>(
        identity: &Identity,
        responder: &PublicKey,
        prologue: &Prologue,
        payload: &[u8],
        rng: &mut R,
    ) -> Result<(Self, Vec<u8>), HandshakeError> {
        check_payload(HANDSHAKE_1_OVERHEAD, payload)?;
        let responder_kem =
            mlkem::PublicKey::decode(&responder.mlkem768).map_err(|_| HandshakeError::InvalidResponderKey)?;
        let mut message = Vec::with_capacity(HANDSHAKE_1_OVERHEAD + payload.len());
        let mut symmetric = SymmetricState::new();
        symmetric.mix_hash(prologue.as_bytes());
        symmetric.mix_hash(&responder.x25519);
        symmetric.mix_hash(responder.mlkem768.as_slice());

        // skem
        let (ciphertext, shared) = responder_kem.encapsulate(rng);
        symmetric.encrypt_and_hash(&ciphertext, &mut message)?;
        symmetric.mix_key_and_hash(&shared);
        // e
        let ephemeral = x25519::SecretKey::generate(rng);
        let ephemeral_kem = mlkem::SecretKey::generate(rng);
        for public in [ephemeral.public().as_slice(), ephemeral_kem.public().as_slice()] {
            symmetric.mix_hash(public);
            message.extend_from_slice(public);
        }
        // es
        symmetric.mix_key(&ephemeral.diffie_hellman(&responder.x25519));
        // s
        let own = identity.public();
        symmetric.encrypt_and_hash(&own.x25519, &mut message)?;
        symmetric.encrypt_and_hash(own.mlkem768.as_slice(), &mut message)?;
        // ss
        symmetric.mix_key(&identity.x25519().diffie_hellman(&responder.x25519));
        symmetric.encrypt_and_hash(payload, &mut message)?;

        let state = Self {
            symmetric,
            identity: identity.clone(),
            ephemeral,
            ephemeral_kem,
        };
        Ok((state, message))
    }

    /// Reads message 2.
    ///
    /// # Errors
    ///
    /// The message is not the responder's answer to this handshake, or it carries the executor's refusal.
    pub fn finish(mut self, message: &[u8]) -> Result<SessionKeys, HandshakeError> {
        check_length(HANDSHAKE_2_OVERHEAD, message)?;
        let mut reader = Reader::new(message);
        let symmetric = &mut self.symmetric;

        // ekem
        let ciphertext = reader.take::<CIPHERTEXT_LEN>()?;
        symmetric.mix_hash(ciphertext);
        symmetric.mix_key(&self.ephemeral_kem.decapsulate(ciphertext));
        // skem
        let ciphertext = symmetric.decrypt_and_hash(reader.take::<{ CIPHERTEXT_LEN + TAG_LEN }>()?)?;
        symmetric.mix_key_and_hash(&self.identity.mlkem().decapsulate(exactly(&ciphertext)?));
        // e
        let responder_ephemeral = reader.take::<X25519_LEN>()?;
        symmetric.mix_hash(responder_ephemeral);
        symmetric.mix_hash(reader.take::<{ rendezvous_wire::key::MLKEM768_LEN }>()?);
        // ee
        symmetric.mix_key(&self.ephemeral.diffie_hellman(responder_ephemeral));
        // se
        symmetric.mix_key(&self.identity.x25519().diffie_hellman(responder_ephemeral));
        let payload = symmetric.decrypt_and_hash(reader.rest())?;

        if !payload.is_empty() {
            return Err(HandshakeError::refused(&payload));
        }
        Ok(SessionKeys::initiator(self.symmetric))
    }

    #[cfg(test)]
    pub(super) fn symmetric(&self) -> &SymmetricState {
        &self.symmetric
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
