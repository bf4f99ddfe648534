//! The static keys of one end in a file: the current one, and those before it.
//!
//! A JSON object of mode 0600. `keys` has the secrets, the current key first; with a passphrase, `sealed` has them
//! instead. `fingerprint` is the current key's, for people, and is checked.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rendezvous_channel::Identity;
use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::identity::MAX_PREVIOUS_KEYS;
use rendezvous_wire::secret::Secret;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::disk::{self, FileError, Lock, Privacy};
use crate::keyring::Keyring;
use crate::passphrase::Passphrase;
use crate::seal::{SealError, Sealed};

/// Longest file.
const MAX_FILE: usize = 64 * 1024;
/// The number of this format.
const FORMAT: u64 = 1;
/// X25519 secret and ML-KEM seed.
const X25519_LEN: usize = 32;
const MLKEM_LEN: usize = 64;
const SEED_LEN: usize = X25519_LEN + MLKEM_LEN;

/// Why a file of keys cannot be used, or not as it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is one already.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// What stands in it is not what we wrote.
    #[error("{} is no file of keys: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is encrypted.
    #[error("{} is encrypted, and no passphrase is given", .0.display())]
    PassphraseNeeded(PathBuf),
    /// The passphrase does not open it.
    #[error("the passphrase does not open {}", .0.display())]
    WrongPassphrase(PathBuf),
    /// A passphrase is given for nothing: somebody believes the keys to be encrypted.
    #[error("{} is not encrypted, but a passphrase is given", .0.display())]
    NotEncrypted(PathBuf),
    /// Randomness or memory is missing.
    #[error("cannot encrypt or make keys: {0}")]
    System(&'static str),
    /// There is no earlier key of this name.
    #[error("there is no earlier key {0}")]
    NoSuchKey(Fingerprint),
}

impl IdentityError {
    /// Whether a passphrase is missing or wrong.
    pub fn is_about_passphrase(&self) -> bool {
        matches!(self, Self::PassphraseNeeded(_) | Self::WrongPassphrase(_))
    }
}

/// A file of keys, which may not exist yet.
#[derive(Clone, Debug)]
pub struct IdentityFile {
    path: PathBuf,
    passphrase: Option<Passphrase>,
}

/// One key with its dates, in seconds since 1970. `Debug` shows what people may see.
#[derive(Clone)]
pub struct Key {
    seed: Zeroizing<[u8; SEED_LEN]>,
    identity: Identity,
    created: u64,
    retired: Option<Retired>,
}

/// When a key was replaced, and until when it is still answered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// When another key took its place.
    pub at: u64,
    /// The end.
    pub until: u64,
}

/// All keys of a file, the current one first.
#[derive(Clone, Debug)]
pub struct Keys {
    current: Key,
    earlier: Vec<Key>,
}

impl Key {
    fn generate(now: u64) -> Result<Self, IdentityError> {
        let mut seed = Zeroizing::new([0; SEED_LEN]);
        getrandom::fill(&mut *seed).map_err(|_| IdentityError::System("the system gives no random numbers"))?;
        Ok(Self::new(seed, now, None))
    }

    fn new(seed: Zeroizing<[u8; SEED_LEN]>, created: u64, retired: Option<Retired>) -> Self {
        let (mut x25519, mut mlkem) = (Zeroizing::new([0; X25519_LEN]), Zeroizing::new([0; MLKEM_LEN]));
        x25519.copy_from_slice(&seed[..X25519_LEN]);
        mlkem.copy_from_slice(&seed[X25519_LEN..]);
        Self {
            identity: Identity::from_seeds(&x25519, &mlkem),
            seed,
            created,
            retired,
        }
    }

    /// What people compare it by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.identity.public().fingerprint()
    }

    /// When it was made.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// When it was replaced, if it was.
    pub fn retired(&self) -> Option<Retired> {
        self.retired
    }
}

impl Keys {
    /// The key in use.
    pub fn current(&self) -> &Key {
        &self.current
    }

    /// The keys before it, the newest first.
    pub fn earlier(&self) -> &[Key] {
        &self.earlier
    }

    /// The keys as the channel uses them, without earlier ones whose time is over.
    pub fn keyring(&self, now: u64) -> Keyring {
        let is_held = |key: &&Key| key.retired.is_some_and(|retired| now < retired.until);
        let earlier = self.earlier.iter().filter(is_held);
        Keyring::persistent(
            self.current.identity.clone(),
            earlier.map(|key| key.identity.clone()).collect(),
        )
    }
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
            keys.earlier
                .retain(|key| key.retired.is_some_and(|retired| now < retired.until));
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
        let _lock = Lock::of(&self.path)?;
        let keys = self.open()?;
        let next = Self::new(&self.path, passphrase);
        disk::replace(&self.path, &next.encode(&keys)?)?;
        Ok(keys)
    }

    fn change(&self, change: impl FnOnce(&mut Keys) -> Result<(), IdentityError>) -> Result<Keys, IdentityError> {
        // Looked at first: nothing is to be made beside a file that is not there.
        self.open()?;
        let _lock = Lock::of(&self.path)?;
        let mut keys = self.open()?;
        change(&mut keys)?;
        disk::replace(&self.path, &self.encode(&keys)?)?;
        Ok(keys)
    }

    fn encode(&self, keys: &Keys) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
        let all = || std::iter::once(&keys.current).chain(&keys.earlier);
        let entries: Vec<Entry> = all().map(Entry::from).collect();
        let fingerprint = keys.current.fingerprint();
        let mut document = Document {
            rendezvous_identity: FORMAT,
            fingerprint,
            keys: None,
            sealed: None,
        };
        let unwritable = |_| IdentityError::System("the keys cannot be written as JSON");
        match &self.passphrase {
            None => document.keys = Some(entries),
            Some(passphrase) => {
                let plain = Zeroizing::new(serde_json::to_vec(&entries).map_err(unwritable)?);
                let sealed = Sealed::seal(&plain, passphrase, &context(fingerprint));
                document.sealed = Some(sealed.map_err(|error| self.unsealable(error))?);
            }
        }
        let mut text = Zeroizing::new(serde_json::to_vec_pretty(&document).map_err(unwritable)?);
        text.push(b'\n');
        Ok(text)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Keys, IdentityError> {
        let document: Document = serde_json::from_slice(bytes).map_err(|error| self.malformed(error))?;
        if document.rendezvous_identity != FORMAT {
            return Err(self.malformed(format_args!(
                "its format is {}, and this program knows {FORMAT}",
                document.rendezvous_identity
            )));
        }
        let entries: Vec<Entry> = match (document.keys, document.sealed, &self.passphrase) {
            (Some(entries), None, None) => entries,
            (Some(_), None, Some(_)) => return Err(IdentityError::NotEncrypted(self.path.clone())),
            (None, Some(_), None) => return Err(IdentityError::PassphraseNeeded(self.path.clone())),
            (None, Some(sealed), Some(passphrase)) => {
                let plain = sealed.open(passphrase, &context(document.fingerprint));
                let plain = plain.map_err(|error| self.unsealable(error))?;
                serde_json::from_slice(&plain).map_err(|error| self.malformed(error))?
            }
            (Some(_), Some(_), _) | (None, None, _) => {
                return Err(self.malformed("it must have one of `keys` and `sealed`"));
            }
        };
        if entries.len() > 1 + MAX_PREVIOUS_KEYS {
            return Err(self.malformed("it has too many keys"));
        }
        let keys: Option<Vec<Key>> = entries.iter().map(Entry::key).collect();
        let mut keys = keys.ok_or_else(|| self.malformed("a seed is not 96 bytes in base64"))?;
        if keys.is_empty() {
            return Err(self.malformed("it has no key"));
        }
        let current = keys.remove(0);
        if current.fingerprint() != document.fingerprint {
            return Err(self.malformed("its fingerprint is not that of its first key"));
        }
        Ok(Keys { current, earlier: keys })
    }

    fn malformed(&self, reason: impl fmt::Display) -> IdentityError {
        IdentityError::Malformed {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }

    fn unsealable(&self, error: SealError) -> IdentityError {
        match error {
            SealError::NotAuthentic => IdentityError::WrongPassphrase(self.path.clone()),
            SealError::Malformed(what) => self.malformed(format_args!("`sealed` cannot be read: {what}")),
            SealError::System(what) => IdentityError::System(what),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("fingerprint", &self.fingerprint())
            .field("created", &self.created)
            .field("retired", &self.retired)
            .finish_non_exhaustive()
    }
}

/// What binds sealed keys to the clear text around them.
fn context(fingerprint: Fingerprint) -> Vec<u8> {
    format!("rendezvous identity {FORMAT} {fingerprint}").into_bytes()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    rendezvous_identity: u64,
    fingerprint: Fingerprint,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keys: Option<Vec<Entry>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<Sealed>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    seed: Secret,
    created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retired: Option<Retired>,
}

impl From<&Key> for Entry {
    fn from(key: &Key) -> Self {
        Self {
            seed: Secret::new(STANDARD.encode(&*key.seed)),
            created: key.created,
            retired: key.retired,
        }
    }
}

impl Entry {
    fn key(&self) -> Option<Key> {
        let bytes = Zeroizing::new(STANDARD.decode(self.seed.expose()).ok()?);
        let seed: [u8; SEED_LEN] = bytes.as_slice().try_into().ok()?;
        Some(Key::new(Zeroizing::new(seed), self.created, self.retired))
    }
}

#[cfg(test)]
mod tests;
