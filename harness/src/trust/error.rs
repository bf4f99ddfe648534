use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rendezvous_identity::KnownError;
use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::id::EnvironmentId;

use crate::error::exit;

/// Which executor is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The registry's URL.
    pub registry: String,
    /// The environment.
    pub environment: EnvironmentId,
    /// The file of known keys, if it is not the usual one.
    pub known: Option<Box<Path>>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the executor of `{}` at {}", self.environment, self.registry)
    }
}

/// Why an executor is not spoken to. Time heals none of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Another key is known.
    #[error(
        "THE KEY HAS CHANGED of {place}: {known} is known, {shown} ({}) is shown. Its owner may have replaced it, or somebody \
         pretends to be it; nothing was sent to it. Ask its owner for its fingerprint, then: {}",
        kind(.persistent),
        remedy(place, shown, .persistent)
    )]
    Changed {
        /// Which executor.
        place: Place,
        /// The key that is known.
        known: Fingerprint,
        /// The key that the registry names now.
        shown: Fingerprint,
        /// Whether the new one is said to outlive its process.
        persistent: bool,
    },
    /// Another key is known, and its holder does not confirm the new one though it is said that it can.
    #[error(
        "THE KEY HAS CHANGED of {place}: {known} is known, {shown} is shown, and the holder of the known key does not confirm \
         it; no request was sent. Ask its owner for its fingerprint, then: {}",
        accept(place, shown)
    )]
    NotProven {
        /// Which executor.
        place: Place,
        /// The key that is known.
        known: Fingerprint,
        /// The key that the registry names now.
        shown: Fingerprint,
    },
    /// Another fingerprint was given.
    #[error("{place} shows the key {shown}, and {expected} is expected; nothing was sent to it")]
    Unexpected {
        /// Which executor.
        place: Place,
        /// The fingerprint that was given.
        expected: Fingerprint,
        /// The key that the registry names.
        shown: Fingerprint,
    },
    /// No key is known, and only known ones are to be taken.
    #[error(
        "the key of {place} is not known: {shown} is shown; nothing was sent to it. Ask its owner for its fingerprint, then: {}",
        accept(place, shown)
    )]
    Unknown {
        /// Which executor.
        place: Place,
        /// The key that the registry names.
        shown: Fingerprint,
    },
    /// The executor says inside the channel that it has another key than the registry says.
    #[error("{place} says that its key is {stated}, but the registry names {shown}; no request was sent")]
    Contradicted {
        /// Which executor.
        place: Place,
        /// The key that the executor names.
        stated: Fingerprint,
        /// The key that the registry names.
        shown: Fingerprint,
    },
    /// The file of known keys cannot be used.
    #[error("cannot use the file of known executors")]
    Known(#[source] Arc<KnownError>),
}

impl From<KnownError> for KeyError {
    fn from(error: KnownError) -> Self {
        Self::Known(Arc::new(error))
    }
}

impl KeyError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Known(_) => exit::USAGE,
            _ => exit::NOT_AUTHORIZED,
        }
    }
}

fn kind(persistent: &bool) -> &'static str {
    if *persistent { "persistent" } else { "ephemeral" }
}

fn accept(place: &Place, shown: &Fingerprint) -> String {
    let Place {
        registry, environment, ..
    } = place;
    let (registry, known) = (quoted(registry), known_flag(place));
    format!("harness -e {environment} --registry-url {registry}{known} known-executors accept {shown}")
}

fn known_flag(place: &Place) -> String {
    let file = place.known.as_ref().map(|file| quoted(&file.to_string_lossy()));
    file.map(|file| format!(" --known-executors={file}"))
        .unwrap_or_default()
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// That a key is gone tomorrow is only what the registry says, so whoever takes it looks at its fingerprint, too.
fn remedy(place: &Place, shown: &Fingerprint, persistent: &bool) -> String {
    let accept = accept(place, shown);
    if *persistent {
        return accept;
    }
    format!(
        "{accept} (it is said to have another key when it starts again; to take any from then on: harness{} \
         known-executors remove {})",
        known_flag(place),
        place.environment
    )
}
