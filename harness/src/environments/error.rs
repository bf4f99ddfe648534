//! What is wrong with environments: the configuration, or what was asked for. The user must change something.

use std::io;
use std::path::PathBuf;

use rendezvous_transport::policy::UrlError;

use super::MAX_ENVIRONMENTS;
use super::file::MAX_FILE;

/// Why environments cannot be used as they are configured or asked for. Nothing of it goes away by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The file exists but cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// The file is too large.
    #[error("{} is larger than {MAX_FILE} bytes", .0.display())]
    TooLarge(PathBuf),
    /// The file is no TOML, or has keys or values that no environment has.
    #[error("{} cannot be used: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line.
        reason: String,
    },
    /// An id is no name for an environment.
    #[error("environment id {id:?} {reason}")]
    Id {
        /// The id.
        id: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two entries have one id.
    #[error("environment id {0:?} is there twice")]
    Duplicate(String),
    /// An entry contradicts itself.
    #[error("environment `{id}`: {reason}")]
    Entry {
        /// The entry.
        id: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A URL cannot be used. It is not repeated, as it may hold a secret.
    #[error("environment `{id}`: URL cannot be used")]
    Url {
        /// The environment.
        id: String,
        /// Why not.
        #[source]
        error: UrlError,
    },
    /// More environments than are kept.
    #[error("more than {MAX_ENVIRONMENTS} environments")]
    TooMany,
    /// The default is the id of no environment.
    #[error("the default environment {0:?} is not configured")]
    UnknownDefault(String),
    /// No environment has this id.
    #[error("there is no environment {0:?}")]
    Unknown(String),
    /// None was named, and there is no default.
    #[error("there is no default environment; name one")]
    NoDefault,
}
