use std::path::PathBuf;

use rendezvous_wire::fingerprint::Fingerprint;

use crate::disk::FileError;

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
