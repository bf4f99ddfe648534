//! The harnesses that an executor serves, whatever the registry says.
//!
//! One fingerprint a line, perhaps with a name behind it; `#` begins a comment:
//!
//! ```text
//! # who may come
//! 4g7q-2mzt-9x0c-k1ve-88ah-t5rn-wd3b  alice's agent
//! ```

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rendezvous_wire::fingerprint::Fingerprint;

use crate::disk::{self, FileError, Privacy, Stamp};
use crate::time;

/// Longest file.
const MAX_FILE: usize = 1024 * 1024;

/// Why the file cannot be used; the user must mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorizedError {
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
        reason: String,
    },
}

/// The harnesses in a file, which is read again when it changes.
#[derive(Debug)]
pub struct AuthorizedHarnesses {
    path: PathBuf,
    read: Mutex<Read>,
}

#[derive(Debug)]
struct Read {
    stamp: Stamp,
    /// Whether the stamp was old enough to stand for this content only.
    is_settled: bool,
    harnesses: HashSet<Fingerprint>,
}

impl AuthorizedHarnesses {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// See [`AuthorizedError`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, AuthorizedError> {
        let path = path.into();
        let read = Mutex::new(read(&path)?);
        Ok(Self { path, read })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a harness with this key may come, by what the file says now.
    ///
    /// # Errors
    ///
    /// The file cannot be read any more, or is wrong: then nobody may come.
    pub fn allows(&self, harness: Fingerprint) -> Result<bool, AuthorizedError> {
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.is_settled || Stamp::at(&self.path)? != last.stamp {
            *last = read(&self.path)?;
        }
        Ok(last.harnesses.contains(&harness))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.harnesses.len()
    }

    /// Whether nobody may come.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn read(path: &Path) -> Result<Read, AuthorizedError> {
    let (bytes, stamp) = disk::read(path, Privacy::Public, MAX_FILE)?;
    let mut harnesses = HashSet::new();
    for (index, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let line = line.trim();
        let Some(word) = line.split_whitespace().next().filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let fingerprint = word.parse().map_err(|error| AuthorizedError::Line {
            path: path.to_owned(),
            line: index + 1,
            reason: format!("{error}"),
        })?;
        harnesses.insert(fingerprint);
    }
    Ok(Read {
        stamp,
        is_settled: stamp.is_settled(time::now()),
        harnesses,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use rendezvous_wire::key::KeyDigest;

    use super::*;

    fn harness(byte: u8) -> Fingerprint {
        KeyDigest([byte; 32]).fingerprint()
    }

    #[test]
    fn who_is_in_the_file_may_come() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("harnesses");
        let two = harness(2).to_string().to_uppercase();
        fs::write(&path, format!("# all\n\n{}\tme\n  {two} # you\n", harness(1))).unwrap();
        let authorized = AuthorizedHarnesses::open(&path).unwrap();
        assert_eq!(authorized.len(), 2);
        for (byte, may) in [(1, true), (2, true), (3, false)] {
            assert_eq!(authorized.allows(harness(byte)).unwrap(), may, "{byte}");
        }
    }

    #[test]
    fn what_the_file_says_now_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("harnesses");
        fs::write(&path, harness(1).to_string()).unwrap();
        let authorized = AuthorizedHarnesses::open(&path).unwrap();
        // As long as before, so that its length tells nothing.
        fs::write(&path, harness(2).to_string()).unwrap();
        assert!(!authorized.allows(harness(1)).unwrap());
        assert!(authorized.allows(harness(2)).unwrap());
        fs::write(&path, "").unwrap();
        assert!(!authorized.allows(harness(2)).unwrap());
        assert!(authorized.is_empty());
    }

    #[test]
    fn an_old_file_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("harnesses");
        fs::write(&path, harness(1).to_string()).unwrap();
        let authorized = AuthorizedHarnesses::open(&path).unwrap();
        // As if it had been read long after its last change.
        authorized.read.lock().unwrap().is_settled = true;
        assert!(authorized.allows(harness(1)).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, format!("{}\n", harness(2))).unwrap();
        assert!(authorized.allows(harness(2)).unwrap());
        assert!(!authorized.allows(harness(1)).unwrap());
        // As long as before, and with a time of change that says nothing.
        let modified = path.metadata().unwrap().modified().unwrap();
        fs::write(&path, format!("{}\n", harness(3))).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(modified)
            .unwrap();
        authorized.read.lock().unwrap().is_settled = true;
        assert!(!authorized.allows(harness(2)).unwrap());
        // What was read before the file went says nothing about now.
        authorized.read.lock().unwrap().is_settled = true;
        fs::remove_file(&path).unwrap();
        assert!(authorized.allows(harness(3)).is_err());
    }

    #[test]
    fn a_change_within_one_tick_of_the_clock_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("harnesses");
        fs::write(&path, harness(1).to_string()).unwrap();
        let authorized = AuthorizedHarnesses::open(&path).unwrap();
        fs::write(&path, harness(2).to_string()).unwrap();
        authorized.read.lock().unwrap().stamp = Stamp::at(&path).unwrap();
        assert!(!authorized.allows(harness(1)).unwrap());
        assert!(authorized.allows(harness(2)).unwrap());
    }

    #[test]
    fn a_file_that_is_wrong_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("harnesses");
        fs::write(&path, harness(1).to_string()).unwrap();
        let authorized = AuthorizedHarnesses::open(&path).unwrap();
        fs::write(&path, format!("{}\nnobody\n", harness(1))).unwrap();
        let error = authorized.allows(harness(1)).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert!(authorized.allows(harness(1)).is_err(), "and not the second time either");
        fs::write(&path, harness(1).to_string()).unwrap();
        assert!(authorized.allows(harness(1)).unwrap());
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(
            authorized.allows(harness(1)),
            Err(AuthorizedError::File(FileError::Exposed { .. }))
        ));
        fs::remove_file(&path).unwrap();
        assert!(authorized.allows(harness(1)).is_err());
    }
}
