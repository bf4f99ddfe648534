//! Why a call on files failed.

use std::io;

/// Why a call on files failed. Its text is the operating system's where that refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The call itself can not be done.
    #[error("{0}")]
    Refused(String),
    /// No handle of this name is open.
    #[error("unknown file handle `{0}`")]
    UnknownHandle(String),
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What was named does not exist.
    NotFound,
    /// The request is invalid or not permitted.
    Request,
    /// The machine, or the state of its files.
    Host,
}

impl FileError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::UnknownHandle(_) => Fault::NotFound,
            Self::Refused(_) => Fault::Request,
            Self::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => Fault::NotFound,
                io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied => Fault::Request,
                _ => Fault::Host,
            },
        }
    }

    /// Whether the same call may succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Io(error) if matches!(
            error.kind(),
            io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy | io::ErrorKind::OutOfMemory
        ))
    }

    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }

    pub(super) fn link() -> Self {
        Self::refused("path contains a symbolic link")
    }

    pub(super) fn stopped() -> Self {
        Self::Io(io::Error::other("the call was abandoned"))
    }
}
