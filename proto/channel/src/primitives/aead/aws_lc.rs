use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::{Aead, AeadError, KEY_LEN, TAG_LEN, nonce};

/// AES-256-GCM by aws-lc-rs: assembly for the common processors. It wipes its keys itself.
pub struct AwsLc(LessSafeKey);

impl Aead for AwsLc {
    fn new(key: &[u8; KEY_LEN]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("the key has the algorithm's length");
        Self(LessSafeKey::new(key))
    }

    fn seal(&self, counter: u64, ad: &[u8], in_out: &mut [u8]) -> Result<[u8; TAG_LEN], AeadError> {
        let nonce = Nonce::assume_unique_for_key(nonce(counter));
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(ad), in_out)
            .map_err(|_| AeadError)?;
        tag.as_ref().try_into().map_err(|_| AeadError)
    }

    fn open(&self, counter: u64, ad: &[u8], in_out: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), AeadError> {
        let nonce = Nonce::assume_unique_for_key(nonce(counter));
        self.0
            .open_in_place_separate_tag(nonce, Aad::from(ad), tag, in_out)
            .map(|_| ())
            .map_err(|_| AeadError)
    }
}

impl fmt::Debug for AwsLc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsLc([redacted])")
    }
}
