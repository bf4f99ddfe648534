//! AES-256-GCM as Noise uses it, from one of two providers behind one trait.
//!
//! Both are always compiled, so that they can be compared with each other; only the one that [`Aes256Gcm`] names is
//! linked into a program. The feature `portable` selects the pure-Rust one.

mod aws_lc;
mod rust_crypto;

pub use aws_lc::AwsLc;
pub use rust_crypto::RustCrypto;

/// Length of a key.
pub const KEY_LEN: usize = 32;
/// Length of an authentication tag.
pub const TAG_LEN: usize = 16;

/// The provider that this build uses.
#[cfg(not(feature = "portable"))]
pub type Aes256Gcm = AwsLc;
/// The provider that this build uses.
#[cfg(feature = "portable")]
pub type Aes256Gcm = RustCrypto;

/// One AES-256-GCM key. The nonce is four zero bytes and the big-endian counter.
pub trait Aead: Sized + Send + Sync {
    /// Expands the key.
    fn new(key: &[u8; KEY_LEN]) -> Self;

    /// Encrypts `in_out` where it stands and returns the tag.
    ///
    /// # Errors
    ///
    /// Only if the provider fails; no input that this crate allows makes it fail.
    fn seal(&self, counter: u64, ad: &[u8], in_out: &mut [u8]) -> Result<[u8; TAG_LEN], AeadError>;

    /// Verifies and decrypts `in_out` where it stands. After an error its content is unspecified.
    ///
    /// # Errors
    ///
    /// The ciphertext, its tag or `ad` was not sealed with this key and counter.
    fn open(&self, counter: u64, ad: &[u8], in_out: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), AeadError>;
}

/// A ciphertext was not made with this key, counter and associated data.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("ciphertext is not authentic")]
pub struct AeadError;

fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

#[cfg(test)]
mod tests;
