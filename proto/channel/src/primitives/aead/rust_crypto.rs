use std::fmt;

use aes_gcm::KeyInit as _;
use aes_gcm::aead::AeadInOut as _;

use super::{Aead, AeadError, KEY_LEN, TAG_LEN, nonce};

/// AES-256-GCM by aes-gcm: Rust only, for processors that aws-lc-rs has no assembly for.
pub struct RustCrypto(aes_gcm::Aes256Gcm);

impl Aead for RustCrypto {
    fn new(key: &[u8; KEY_LEN]) -> Self {
        Self(aes_gcm::Aes256Gcm::new(key.into()))
    }

    fn seal(&self, counter: u64, ad: &[u8], in_out: &mut [u8]) -> Result<[u8; TAG_LEN], AeadError> {
        self.0
            .encrypt_inout_detached(&nonce(counter).into(), ad, in_out.into())
            .map(Into::into)
            .map_err(|_| AeadError)
    }

    fn open(&self, counter: u64, ad: &[u8], in_out: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), AeadError> {
        self.0
            .decrypt_inout_detached(&nonce(counter).into(), ad, in_out.into(), tag.into())
            .map_err(|_| AeadError)
    }
}

impl fmt::Debug for RustCrypto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RustCrypto([redacted])")
    }
}
