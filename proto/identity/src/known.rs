//! The executors whose keys a harness knows.
//!
//! One line for each environment of each registry: registry, environment, fingerprint, since when, and the halves of the
//! key in base64. `#` begins a comment. The whole key is there because the harness may need to prove it: it can begin a
//! handshake with a key that the registry names no more.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::key::{MLKEM768_LEN, PublicKey, X25519_LEN};

use crate::disk::{self, FileError, Lock, Privacy};

/// Longest file: some four thousand executors.
const MAX_FILE: usize = 8 * 1024 * 1024;
/// What a new file begins with.
const HEADER: &str = "# Keys of known executors; see `harness known-executors --help`.\n";

/// Why the file cannot be used; the user must mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is wrong.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// Somebody else changed the entry meanwhile.
    #[error("{} was changed meanwhile by another program", .0.display())]
    Changed(PathBuf),
}

/// A known key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The registry's URL.
    pub registry: String,
    /// The environment.
    pub environment: EnvironmentId,
    /// The executor's key.
    pub key: PublicKey,
    /// Since when it is known, RFC 3339.
    pub since: String,
}

impl Pin {
    /// What people compare the key by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.key.fingerprint()
    }

    fn is_of(&self, registry: &str, environment: &EnvironmentId) -> bool {
        self.registry == registry && self.environment == *environment
    }

    fn line(&self) -> String {
        format!(
            "{} {} {} {} {} {}",
            self.registry,
            self.environment,
            self.fingerprint(),
            self.since,
            STANDARD.encode(self.key.x25519),
            STANDARD.encode(self.key.mlkem768.as_slice()),
        )
    }

    fn parse(line: &str) -> Result<Self, &'static str> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [registry, environment, fingerprint, since, x25519, mlkem768] = words[..] else {
            return Err("it must have six words");
        };
        let mut key = PublicKey {
            x25519: [0; X25519_LEN],
            mlkem768: Box::new([0; MLKEM768_LEN]),
        };
        let fill = |out: &mut [u8], text: &str| match STANDARD.decode(text) {
            Ok(bytes) if bytes.len() == out.len() => {
                out.copy_from_slice(&bytes);
                Ok(())
            }
            _ => Err("the key is broken"),
        };
        fill(&mut key.x25519, x25519)?;
        fill(key.mlkem768.as_mut_slice(), mlkem768)?;
        let fingerprint: Fingerprint = fingerprint.parse().map_err(|_| "the fingerprint is broken")?;
        if fingerprint != key.fingerprint() {
            return Err("the fingerprint is not that of the key");
        }
        Ok(Self {
            registry: registry.to_owned(),
            environment: EnvironmentId::new(environment).map_err(|_| "the environment is no id")?,
            key,
            since: since.to_owned(),
        })
    }
}

/// The known keys in a file, which need not exist. Every call reads it anew; what changes it waits for others that do.
#[derive(Clone, Debug)]
pub struct KnownExecutors {
    path: PathBuf,
}

/// A line of the file, as it stands there and as it is understood.
struct Line {
    text: String,
    pin: Option<Pin>,
}

impl KnownExecutors {
    /// The keys in the file at `path`; nothing is read yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of an executor.
    ///
    /// # Errors
    ///
    /// See [`KnownError`].
    pub fn find(&self, registry: &str, environment: &EnvironmentId) -> Result<Option<Pin>, KnownError> {
        let found = self.list()?.into_iter().find(|pin| pin.is_of(registry, environment));
        Ok(found)
    }

    /// All known keys, in the order of the file.
    ///
    /// # Errors
    ///
    /// See [`KnownError`].
    pub fn list(&self) -> Result<Vec<Pin>, KnownError> {
        Ok(self.read()?.into_iter().filter_map(|line| line.pin).collect())
    }

    /// Notes a key in the place of `before`, which is what the caller decided by.
    ///
    /// # Errors
    ///
    /// The file knows another key than `before` by now, or see [`KnownError`].
    pub fn note(&self, pin: &Pin, before: Option<&PublicKey>) -> Result<(), KnownError> {
        self.change(|lines| {
            let is_it = |line: &&mut Line| {
                let known = line.pin.as_ref();
                known.is_some_and(|known| known.is_of(&pin.registry, &pin.environment))
            };
            let Some(line) = lines.iter_mut().find(is_it) else {
                if before.is_some() {
                    return Err(KnownError::Changed(self.path.clone()));
                }
                let text = pin.line();
                lines.push(Line { text, pin: None });
                return Ok(true);
            };
            let known = line.pin.as_ref().map(|known| &known.key);
            if known == Some(&pin.key) {
                return Ok(false);
            }
            if known != before {
                return Err(KnownError::Changed(self.path.clone()));
            }
            line.text = pin.line();
            Ok(true)
        })
    }

    /// Forgets what is known of an environment, at one registry or at all; gives what was known.
    ///
    /// # Errors
    ///
    /// See [`KnownError`].
    pub fn remove(&self, registry: Option<&str>, environment: &EnvironmentId) -> Result<Vec<Pin>, KnownError> {
        let mut removed = Vec::new();
        self.change(|lines| {
            lines.retain_mut(|line| {
                let gone = line.pin.take_if(|pin| {
                    pin.environment == *environment && registry.is_none_or(|registry| pin.registry == registry)
                });
                let stays = gone.is_none();
                removed.extend(gone);
                stays
            });
            Ok(!removed.is_empty())
        })?;
        Ok(removed)
    }

    /// Reads, changes and writes, if there is something to write, while nobody else does.
    fn change(&self, change: impl FnOnce(&mut Vec<Line>) -> Result<bool, KnownError>) -> Result<(), KnownError> {
        let _lock = Lock::of(&self.path)?;
        let mut lines = self.read()?;
        if !change(&mut lines)? {
            return Ok(());
        }
        let mut text = String::new();
        if lines.first().is_none_or(|line| !line.text.starts_with('#')) {
            text.push_str(HEADER);
        }
        for line in lines {
            text.push_str(&line.text);
            text.push('\n');
        }
        if text.len() > MAX_FILE {
            let (path, limit) = (self.path.clone(), MAX_FILE);
            return Err(FileError::TooLong { path, limit }.into());
        }
        Ok(disk::replace(&self.path, text.as_bytes())?)
    }

    fn read(&self) -> Result<Vec<Line>, KnownError> {
        let bytes = match disk::read(&self.path, Privacy::Public, MAX_FILE) {
            Ok((bytes, _)) => bytes,
            Err(FileError::Missing(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().enumerate().map(|(index, text)| {
            let is_entry = !text.trim().is_empty() && !text.trim_start().starts_with('#');
            let pin = is_entry.then(|| Pin::parse(text)).transpose();
            let pin = pin.map_err(|reason| KnownError::Line {
                path: self.path.clone(),
                line: index + 1,
                reason,
            })?;
            let text = text.to_owned();
            Ok(Line { text, pin })
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests;
