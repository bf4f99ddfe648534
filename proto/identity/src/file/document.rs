//! What stands in the file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::identity::MAX_PREVIOUS_KEYS;
use rendezvous_wire::secret::Secret;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use zeroize::Zeroizing;

use super::key::{Key, Keys, Retired, SEED_LEN, Seed};
use super::{IdentityError, MAX_FILE};
use crate::passphrase::Passphrase;
use crate::seal::{SealError, Sealed};

/// The number of this format.
const FORMAT: u64 = 1;

/// Why a document gives no keys, or keys no document; [`IdentityError`] without the file's name.
#[derive(Debug)]
pub(super) enum Fault {
    Malformed(String),
    PassphraseNeeded,
    WrongPassphrase,
    NotEncrypted,
    System(&'static str),
}

impl Fault {
    pub(super) fn of(self, path: &std::path::Path) -> IdentityError {
        let path = path.to_owned();
        match self {
            Self::Malformed(reason) => IdentityError::Malformed { path, reason },
            Self::PassphraseNeeded => IdentityError::PassphraseNeeded(path),
            Self::WrongPassphrase => IdentityError::WrongPassphrase(path),
            Self::NotEncrypted => IdentityError::NotEncrypted(path),
            Self::System(what) => IdentityError::System(what),
        }
    }
}

impl From<SealError> for Fault {
    fn from(error: SealError) -> Self {
        match error {
            SealError::NotAuthentic => Self::WrongPassphrase,
            SealError::Malformed(what) => Self::Malformed(format!("`sealed` cannot be read: {what}")),
            SealError::System(what) => Self::System(what),
        }
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        // Not its own text, which may quote what it found, and that may be a key.
        let what = match error.classify() {
            Category::Eof => "it ends too early",
            Category::Data => "something else is expected",
            Category::Syntax | Category::Io => "that is no JSON",
        };
        let (line, column) = (error.line(), error.column());
        Self::Malformed(format!("line {line}, column {column}: {what}"))
    }
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

/// The whole text of the file, encrypted if there is a passphrase.
pub(super) fn encode(keys: &Keys, passphrase: Option<&Passphrase>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let all = std::iter::once(&keys.current).chain(&keys.earlier);
    let entries: Vec<Entry> = all.map(Entry::from).collect();
    let fingerprint = keys.current.fingerprint();
    let mut document = Document {
        rendezvous_identity: FORMAT,
        fingerprint,
        keys: None,
        sealed: None,
    };
    match passphrase {
        None => document.keys = Some(entries),
        Some(passphrase) => {
            let plain = text(|out| serde_json::to_writer(out, &entries))?;
            document.sealed = Some(Sealed::seal(&plain, passphrase, &context(fingerprint))?);
        }
    }
    let mut text = text(|out| serde_json::to_writer_pretty(out, &document))?;
    text.push(b'\n');
    Ok(text)
}

/// JSON in a buffer that never has to grow, which would leave what it had behind in memory.
fn text(write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_FILE));
    write(&mut text).map_err(|_| Fault::System("the keys cannot be written as JSON"))?;
    Ok(text)
}

/// The keys in such a text. A passphrase must be given if, and only if, it is encrypted.
pub(super) fn decode(bytes: &[u8], passphrase: Option<&Passphrase>) -> Result<Keys, Fault> {
    let malformed = |reason: &str| Fault::Malformed(reason.to_owned());
    let document: Document = serde_json::from_slice(bytes)?;
    if document.rendezvous_identity != FORMAT {
        let format = document.rendezvous_identity;
        return Err(Fault::Malformed(format!(
            "its format is {format}, and this program knows {FORMAT}"
        )));
    }
    let entries: Vec<Entry> = match (document.keys, document.sealed, passphrase) {
        (Some(entries), None, None) => entries,
        (Some(_), None, Some(_)) => return Err(Fault::NotEncrypted),
        (None, Some(_), None) => return Err(Fault::PassphraseNeeded),
        (None, Some(sealed), Some(passphrase)) => {
            let plain = sealed.open(passphrase, &context(document.fingerprint))?;
            serde_json::from_slice(&plain)?
        }
        (Some(_), Some(_), _) | (None, None, _) => {
            return Err(malformed("it must have one of `keys` and `sealed`"));
        }
    };
    if entries.len() > 1 + MAX_PREVIOUS_KEYS {
        return Err(malformed("it has too many keys"));
    }
    let keys: Option<Vec<Key>> = entries.iter().map(Entry::key).collect();
    let mut keys = keys.ok_or_else(|| malformed("a seed is not 96 bytes in base64"))?;
    if keys.is_empty() {
        return Err(malformed("it has no key"));
    }
    let current = keys.remove(0);
    if current.fingerprint() != document.fingerprint {
        return Err(malformed("its fingerprint is not that of its first key"));
    }
    Ok(Keys { current, earlier: keys })
}

/// What binds sealed keys to the clear text around them.
fn context(fingerprint: Fingerprint) -> Vec<u8> {
    format!("rendezvous identity {FORMAT} {fingerprint}").into_bytes()
}

impl From<&Key> for Entry {
    fn from(key: &Key) -> Self {
        Self {
            seed: Secret::new(STANDARD.encode(key.seed().as_slice())),
            created: key.created(),
            retired: key.retired(),
        }
    }
}

impl Entry {
    fn key(&self) -> Option<Key> {
        let bytes = Zeroizing::new(STANDARD.decode(self.seed.expose()).ok()?);
        let mut seed = Seed::new([0; SEED_LEN]);
        if bytes.len() != SEED_LEN {
            return None;
        }
        seed.copy_from_slice(&bytes);
        Some(Key::new(seed, self.created, self.retired))
    }
}
