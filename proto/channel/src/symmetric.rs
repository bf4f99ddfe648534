//! `SymmetricState` and `CipherState` of the Noise specification, section 5.

use zeroize::Zeroizing;

use crate::primitives::aead::{Aead as _, AeadError, Aes256Gcm, TAG_LEN};
use crate::primitives::hash::{Hash, SecretHash, hkdf, sha256};

/// The hashed name; it says `25519` where the suite tag of a key says `X25519`.
const PROTOCOL_NAME: &[u8] = b"Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256";

pub(crate) struct SymmetricState {
    hash: Hash,
    chaining_key: SecretHash,
    cipher: Option<CipherState>,
}

struct CipherState {
    aead: Aes256Gcm,
    nonce: u64,
}

impl CipherState {
    fn new(key: &SecretHash) -> Self {
        Self {
            aead: Aes256Gcm::new(key),
            nonce: 0,
        }
    }
}

impl SymmetricState {
    pub(crate) fn new() -> Self {
        let hash = sha256(&[PROTOCOL_NAME]);
        Self {
            hash,
            chaining_key: Zeroizing::new(hash),
            cipher: None,
        }
    }

    pub(crate) fn mix_hash(&mut self, data: &[u8]) {
        self.hash = sha256(&[&self.hash, data]);
    }

    pub(crate) fn mix_key(&mut self, input: &SecretHash) {
        let [chaining_key, key] = hkdf(&self.chaining_key, input.as_slice());
        self.chaining_key = chaining_key;
        self.cipher = Some(CipherState::new(&key));
    }

    pub(crate) fn mix_key_and_hash(&mut self, input: &SecretHash) {
        let [chaining_key, hash, key] = hkdf(&self.chaining_key, input.as_slice());
        self.chaining_key = chaining_key;
        self.mix_hash(hash.as_slice());
        self.cipher = Some(CipherState::new(&key));
    }

    /// Appends the ciphertext to `message`; without a key the plaintext itself.
    pub(crate) fn encrypt_and_hash(&mut self, plaintext: &[u8], message: &mut Vec<u8>) -> Result<(), AeadError> {
        let start = message.len();
        message.extend_from_slice(plaintext);
        if let Some(cipher) = &mut self.cipher {
            let tag = cipher.aead.seal(cipher.nonce, &self.hash, &mut message[start..])?;
            cipher.nonce += 1;
            message.extend_from_slice(&tag);
        }
        self.mix_hash(&message[start..]);
        Ok(())
    }

    /// Without a key the data is its own plaintext.
    pub(crate) fn decrypt_and_hash(&mut self, data: &[u8]) -> Result<Zeroizing<Vec<u8>>, AeadError> {
        let plaintext = match &mut self.cipher {
            None => data.to_vec(),
            Some(cipher) => {
                let (text, tag) = data.split_last_chunk::<TAG_LEN>().ok_or(AeadError)?;
                let mut text = text.to_vec();
                cipher.aead.open(cipher.nonce, &self.hash, &mut text, tag)?;
                cipher.nonce += 1;
                text
            }
        };
        self.mix_hash(data);
        Ok(Zeroizing::new(plaintext))
    }

    /// The keys from initiator to responder and back, a third secret of the same derivation, and the hash of the whole
    /// handshake.
    pub(crate) fn split(self) -> ([SecretHash; 3], Hash) {
        (hkdf(&self.chaining_key, &[]), self.hash)
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> (Hash, Hash) {
        (self.hash, *self.chaining_key)
    }
}
