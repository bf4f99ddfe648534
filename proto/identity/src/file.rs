//! The static keys of one end in a file: the current one, and those before it.
//!
//! A JSON object of mode 0600. `keys` has the secrets, the current key first; with a passphrase, `sealed` has them
//! instead. `fingerprint` is the current key's, for people, and is checked.

mod document;
mod error;
mod key;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::identity::MAX_PREVIOUS_KEYS;
use zeroize::Zeroizing;

pub use self::error::IdentityError;
pub use self::key::{Key, Keys, Retired};
use crate::disk::{self, FileError, Lock, Privacy};
use crate::passphrase::Passphrase;

/// Longest file.
const MAX_FILE: usize = 64 * 1024;

/// A file of keys, which may not exist yet.
#[derive(Clone, Debug)]
pub struct IdentityFile {
    path: PathBuf,
    passphrase: Option<Passphrase>,
}

impl IdentityFile {
    /// The file at `path`; nothing is read yet. With a passphrase, what is written is encrypted, and what is read must be.
    pub fn new(path: impl Into<PathBuf>, passphrase: Option<Passphrase>) -> Self {
        Self {
            path: path.into(),
            passphrase,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the keys.
    ///
    /// # Errors
    ///
    /// See [`IdentityError`].
    pub fn open(&self) -> Result<Keys, IdentityError> {
        let (bytes, _) = disk::read(&self.path, Privacy::Secret, MAX_FILE)?;
        self.decode(&bytes)
    }

    /// Makes the file with a new key.
    ///
    /// # Errors
    ///
    /// There is one already, or see [`IdentityError`].
    pub fn create(&self, now: u64) -> Result<Keys, IdentityError> {
        let keys = Keys {
            current: Key::generate(now)?,
            earlier: Vec::new(),
        };
        if disk::create(&self.path, &self.encode(&keys)?)? {
            Ok(keys)
        } else {
            Err(IdentityError::Exists(self.path.clone()))
        }
    }

    /// Reads the keys, or makes the file if it is missing. Of programs that do so at the same time all get the same key.
    ///
    /// # Errors
    ///
    /// See [`IdentityError`].
    pub fn open_or_create(&self, now: u64) -> Result<Keys, IdentityError> {
        match self.open() {
            Err(IdentityError::File(FileError::Missing(_))) => {}
            result => return result,
        }
        match self.create(now) {
            Err(IdentityError::Exists(_)) => self.open(),
            result => result,
        }
    }

    /// Puts a new key in the place of the current one, which is answered to for `keep` longer. Keys whose time is over are
    /// removed, and so is the oldest when there are more than [`MAX_PREVIOUS_KEYS`].
    ///
    /// # Errors
    ///
    /// See [`IdentityError`].
    pub fn rotate(&self, now: u64, keep: Duration) -> Result<Keys, IdentityError> {
        self.change(|keys| {
            let next = Key::generate(now)?;
            let mut last = std::mem::replace(&mut keys.current, next);
            last.retired = Some(Retired {
                at: now,
                until: now.saturating_add(keep.as_secs()),
            });
            keys.earlier.insert(0, last);
            keys.earlier.retain(|key| key.is_kept(now));
            keys.earlier.truncate(MAX_PREVIOUS_KEYS);
            Ok(())
        })
    }

    /// Removes an earlier key, or all of them.
    ///
    /// # Errors
    ///
    /// There is no such key, or see [`IdentityError`].
    pub fn forget(&self, key: Option<Fingerprint>) -> Result<Keys, IdentityError> {
        self.change(|keys| {
            let before = keys.earlier.len();
            keys.earlier
                .retain(|earlier| key.is_some_and(|key| earlier.fingerprint() != key));
            match key {
                Some(key) if keys.earlier.len() == before => Err(IdentityError::NoSuchKey(key)),
                _ => Ok(()),
            }
        })
    }

    /// Writes the keys anew, encrypted by another passphrase, or not at all.
    ///
    /// # Errors
    ///
    /// See [`IdentityError`].
    pub fn encrypt(&self, passphrase: Option<Passphrase>) -> Result<Keys, IdentityError> {
        self.change_to(&Self::new(&self.path, passphrase), |_| Ok(()))
    }

    fn change(&self, change: impl FnOnce(&mut Keys) -> Result<(), IdentityError>) -> Result<Keys, IdentityError> {
        self.change_to(self, change)
    }

    fn change_to(
        &self,
        next: &Self,
        change: impl FnOnce(&mut Keys) -> Result<(), IdentityError>,
    ) -> Result<Keys, IdentityError> {
        // Looked at first: nothing is to be made beside a file that is not there.
        self.open()?;
        let _lock = Lock::of(&self.path)?;
        let mut keys = self.open()?;
        change(&mut keys)?;
        disk::replace(&self.path, &next.encode(&keys)?)?;
        Ok(keys)
    }

    fn encode(&self, keys: &Keys) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
        document::encode(keys, self.passphrase.as_ref()).map_err(|fault| fault.of(&self.path))
    }

    fn decode(&self, bytes: &[u8]) -> Result<Keys, IdentityError> {
        document::decode(bytes, self.passphrase.as_ref()).map_err(|fault| fault.of(&self.path))
    }
}

#[cfg(test)]
mod tests;
