//! Encryption of a file's content by a passphrase: Argon2id, then AES-256-GCM.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rendezvous_channel::primitives::aead::{Aead as _, Aes256Gcm, KEY_LEN, TAG_LEN};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::passphrase::Passphrase;

/// What new files take: about a tenth of a second and 64 MiB for each guess.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
/// What files may ask for, so that none makes the program hang or run out of memory.
const MAX_MEMORY_KIB: u32 = 1024 * 1024;
const MAX_PASSES: u32 = 32;
const SALT_LEN: usize = 16;

/// Sealed bytes, as they stand in a file. Each has a salt of its own, hence a key of its own, which is used once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sealed {
    kdf: Kdf,
    memory_kib: u32,
    passes: u32,
    salt: String,
    /// With the tag behind it.
    ciphertext: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kdf {
    Argon2id,
}

/// Why sealed bytes stay closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealError {
    /// Another passphrase, or somebody changed the bytes.
    NotAuthentic,
    /// They cannot be what we wrote.
    Malformed(&'static str),
    /// The system refuses randomness or memory.
    System(&'static str),
}

impl Sealed {
    /// Seals `plain`; `context` must be given again to open it.
    pub(crate) fn seal(plain: &[u8], passphrase: &Passphrase, context: &[u8]) -> Result<Self, SealError> {
        let mut salt = [0; SALT_LEN];
        getrandom::fill(&mut salt).map_err(|_| SealError::System("the system gives no random numbers"))?;
        let key = derive(passphrase, &salt, MEMORY_KIB, PASSES)?;
        let mut sealed = Zeroizing::new(Vec::with_capacity(plain.len() + TAG_LEN));
        sealed.extend_from_slice(plain);
        let tag = Aes256Gcm::new(&key)
            .seal(0, context, &mut sealed)
            .map_err(|_| SealError::System("the cipher fails"))?;
        sealed.extend_from_slice(&tag);
        Ok(Self {
            kdf: Kdf::Argon2id,
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: STANDARD.encode(salt),
            ciphertext: STANDARD.encode(&*sealed),
        })
    }

    /// Gives back what was sealed.
    pub(crate) fn open(&self, passphrase: &Passphrase, context: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| SealError::Malformed("base64"));
        if self.memory_kib > MAX_MEMORY_KIB || self.passes > MAX_PASSES {
            return Err(SealError::Malformed("it asks for too much work"));
        }
        let salt: [u8; SALT_LEN] = decode(&self.salt)?
            .try_into()
            .map_err(|_| SealError::Malformed("the salt"))?;
        let mut bytes = Zeroizing::new(decode(&self.ciphertext)?);
        let (text, tag) = bytes
            .split_last_chunk_mut::<TAG_LEN>()
            .ok_or(SealError::Malformed("the ciphertext"))?;
        let tag = *tag;
        let key = derive(passphrase, &salt, self.memory_kib, self.passes)?;
        Aes256Gcm::new(&key)
            .open(0, context, text, &tag)
            .map_err(|_| SealError::NotAuthentic)?;
        let len = text.len();
        bytes.truncate(len);
        Ok(bytes)
    }
}

fn derive(
    passphrase: &Passphrase,
    salt: &[u8],
    memory_kib: u32,
    passes: u32,
) -> Result<Zeroizing<[u8; KEY_LEN]>, SealError> {
    let params = Params::new(memory_kib, passes, 1, Some(KEY_LEN)).map_err(|_| SealError::Malformed("parameters"))?;
    let mut key = Zeroizing::new([0; KEY_LEN]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.expose(), salt, &mut *key)
        .map_err(|_| SealError::System("the key derivation fails"))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_passphrase_and_context_open_it() {
        let passphrase = |text: &str| Passphrase::new(text, "test").unwrap();
        let mut sealed = Sealed::seal(b"secret", &passphrase("right"), b"context").unwrap();
        assert_eq!(**sealed.open(&passphrase("right"), b"context").unwrap(), *b"secret");
        for (text, context) in [
            ("wrong", &b"context"[..]),
            ("right", b"another"),
            ("right ", b"context"),
        ] {
            assert_eq!(
                sealed.open(&passphrase(text), context).unwrap_err(),
                SealError::NotAuthentic
            );
        }
        let again = Sealed::seal(b"secret", &passphrase("right"), b"context").unwrap();
        assert_ne!(again.salt, sealed.salt);
        for damage in ["", "AAAA", "!"] {
            let whole = std::mem::replace(&mut sealed.ciphertext, damage.to_owned());
            let error = sealed.open(&passphrase("right"), b"context").unwrap_err();
            assert!(matches!(error, SealError::Malformed(_)), "{damage}");
            sealed.ciphertext = whole;
        }
        for (memory_kib, passes) in [(MAX_MEMORY_KIB + 1, PASSES), (MEMORY_KIB, MAX_PASSES + 1)] {
            (sealed.memory_kib, sealed.passes) = (memory_kib, passes);
            let error = sealed.open(&passphrase("right"), b"context").unwrap_err();
            assert!(matches!(error, SealError::Malformed(_)), "{memory_kib} {passes}");
        }
        // A guess must stay dear; RFC 9106 recommends no less where memory is short.
        assert!(again.memory_kib >= 64 * 1024 && again.passes >= 3);
    }
}
