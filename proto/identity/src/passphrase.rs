//! What a file of keys is encrypted with: from a file, stdin or the environment, never from the command line.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use zeroize::Zeroizing;

use crate::disk::{self, FileError, Privacy};

/// Longest passphrase, in bytes.
pub const MAX_PASSPHRASE: usize = 1024;

/// A passphrase. `Debug` does not show it; its memory is wiped.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

/// Why there is no usable passphrase; the user must mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassphraseError {
    /// The file cannot be used.
    #[error("cannot take the passphrase")]
    File(#[from] FileError),
    /// Stdin or a pipe cannot be read.
    #[error("cannot read the passphrase from {origin}")]
    Read {
        /// Where from.
        origin: String,
        /// Why not.
        source: io::Error,
    },
    /// Nothing is there.
    #[error("the passphrase from {origin} is empty")]
    Empty {
        /// Where from.
        origin: String,
    },
    /// More than [`MAX_PASSPHRASE`] bytes.
    #[error("the passphrase from {origin} is longer than {MAX_PASSPHRASE} bytes")]
    TooLong {
        /// Where from.
        origin: String,
    },
}

impl Passphrase {
    /// Takes bytes without the line end behind them; `origin` names them in errors.
    ///
    /// # Errors
    ///
    /// There are none, or too many.
    pub fn new(bytes: impl Into<Vec<u8>>, origin: &str) -> Result<Self, PassphraseError> {
        let mut bytes = Zeroizing::new(bytes.into());
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        let origin = origin.to_owned();
        match bytes.len() {
            0 => Err(PassphraseError::Empty { origin }),
            1..=MAX_PASSPHRASE => Ok(Self(bytes)),
            _ => Err(PassphraseError::TooLong { origin }),
        }
    }

    /// Reads a file that nobody but its owner can read, or a pipe; stdin when the path is `-`.
    ///
    /// # Errors
    ///
    /// See [`PassphraseError`].
    pub fn read(path: &Path) -> Result<Self, PassphraseError> {
        if path == Path::new("-") {
            return Self::from_reader(io::stdin().lock(), "stdin");
        }
        let (bytes, _) = disk::read(path, Privacy::Handed, MAX_PASSPHRASE + 2)?;
        Self::new(bytes.as_slice(), &path.display().to_string())
    }

    /// Reads to the end.
    ///
    /// # Errors
    ///
    /// See [`PassphraseError`].
    pub fn from_reader(reader: impl Read, origin: &str) -> Result<Self, PassphraseError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_PASSPHRASE + 4));
        let limit = MAX_PASSPHRASE as u64 + 3;
        reader.take(limit).read_to_end(&mut bytes).map_err(|source| {
            let origin = origin.to_owned();
            PassphraseError::Read { origin, source }
        })?;
        Self::new(bytes.as_slice(), origin)
    }

    /// Takes it from an environment variable; none if that is unset or empty.
    ///
    /// # Errors
    ///
    /// It is too long.
    pub fn from_variable(name: &str) -> Result<Option<Self>, PassphraseError> {
        let text = std::env::var_os(name).filter(|text| !text.is_empty());
        text.map(|text| Self::new(text.into_vec(), name)).transpose()
    }

    /// The passphrase itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn one_line_of_anything() {
        for (text, expected) in [("correct horse\n", "correct horse"), (" ä\r\n", " ä"), ("x", "x")] {
            let passphrase = Passphrase::from_reader(text.as_bytes(), "stdin").unwrap();
            assert_eq!(passphrase.expose(), expected.as_bytes());
            assert!(!format!("{passphrase:?}").contains(expected));
        }
        for text in ["", "\n", "\r\n"] {
            let error = Passphrase::new(text, "stdin").unwrap_err();
            assert!(matches!(error, PassphraseError::Empty { .. }), "{text:?}");
        }
        let longest = "x".repeat(MAX_PASSPHRASE);
        assert!(Passphrase::from_reader(format!("{longest}\r\n").as_bytes(), "stdin").is_ok());
        let error = Passphrase::from_reader(format!("{longest}x").as_bytes(), "stdin").unwrap_err();
        assert!(matches!(error, PassphraseError::TooLong { .. }));
    }

    #[test]
    fn a_file_has_room_for_the_longest_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        let longest = "x".repeat(MAX_PASSPHRASE);
        fs::write(&path, format!("{longest}\r\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Passphrase::read(&path).unwrap().expose(), longest.as_bytes());
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = Passphrase::read(&path).unwrap_err();
        assert!(
            matches!(error, PassphraseError::File(FileError::Exposed { .. })),
            "{error}"
        );
    }
}
