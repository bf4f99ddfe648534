//! What an executor says of its key to people who ask the registry. Nothing is decided by it alone: the registry could
//! say anything.

use std::fmt;
use std::str::FromStr;

use crate::key::{KeyDigest, KeyError};

/// Header in which it travels: with the request of `register` and the answer of `connect`. In a header, because some
/// registries refuse members that they do not know.
pub const IDENTITY_HEADER: &str = "x-rendezvous-identity";
/// Most earlier keys of an executor.
pub const MAX_PREVIOUS_KEYS: usize = 8;

const PERSISTENT: &str = "persistent";
const EPHEMERAL: &str = "ephemeral";
const PREVIOUS: &str = "previous=";

/// How long an executor keeps its key, and which keys it had before and still holds.
///
/// `ephemeral`, `persistent`, or `persistent; previous=DIGEST,DIGEST`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityClaim {
    /// Whether the key outlives the process. Executors that say nothing, stock ones among them, have a new one each time.
    pub persistent: bool,
    /// Earlier keys by which the executor can still be reached, so that it can prove who came after them; the newest first.
    pub previous: Vec<KeyDigest>,
}

impl fmt::Display for IdentityClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.persistent { PERSISTENT } else { EPHEMERAL })?;
        for (index, digest) in self.previous.iter().enumerate() {
            f.write_str(if index == 0 { "; previous=" } else { "," })?;
            digest.fmt(f)?;
        }
        Ok(())
    }
}

/// A claim that cannot be read.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimError {
    /// It is neither `persistent` nor `ephemeral`, or something else stands behind it.
    #[error("`{IDENTITY_HEADER}` must be `ephemeral` or `persistent`, perhaps with `; previous=DIGEST,DIGEST`")]
    Syntax,
    /// A key has no digest there.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// More keys than [`MAX_PREVIOUS_KEYS`].
    #[error("`{IDENTITY_HEADER}` names more than {MAX_PREVIOUS_KEYS} earlier keys")]
    TooMany,
}

impl FromStr for IdentityClaim {
    type Err = ClaimError;

    fn from_str(text: &str) -> Result<Self, ClaimError> {
        let (kind, rest) = match text.split_once(';') {
            Some((kind, rest)) => (kind, Some(rest.trim())),
            None => (text, None),
        };
        let persistent = match kind.trim() {
            PERSISTENT => true,
            EPHEMERAL if rest.is_none() => false,
            _ => return Err(ClaimError::Syntax),
        };
        let mut previous = Vec::new();
        if let Some(rest) = rest {
            let digests = rest.strip_prefix(PREVIOUS).ok_or(ClaimError::Syntax)?;
            for digest in digests.split(',') {
                if previous.len() == MAX_PREVIOUS_KEYS {
                    return Err(ClaimError::TooMany);
                }
                previous.push(digest.parse()?);
            }
        }
        Ok(Self { persistent, previous })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        let digests: Vec<KeyDigest> = (0..8).map(|byte| KeyDigest([byte; 32])).collect();
        for previous in [0, 1, 2, 8] {
            let claim = IdentityClaim {
                persistent: true,
                previous: digests[..previous].to_vec(),
            };
            assert_eq!(claim.to_string().parse(), Ok(claim));
        }
        let nothing = IdentityClaim::default();
        assert_eq!(nothing.to_string(), "ephemeral");
        assert_eq!("ephemeral".parse(), Ok(nothing));
    }

    #[test]
    fn everything_else_is_refused() {
        let digest = KeyDigest([1; 32]).to_string();
        let nine = [digest.as_str(); 9].join(",");
        for (text, expected) in [
            (String::new(), ClaimError::Syntax),
            ("forever".into(), ClaimError::Syntax),
            ("persistent;".into(), ClaimError::Syntax),
            (format!("ephemeral; previous={digest}"), ClaimError::Syntax),
            (format!("persistent; next={digest}"), ClaimError::Syntax),
            ("persistent; previous=".into(), ClaimError::Key(KeyError::Digest)),
            (
                format!("persistent; previous={digest},"),
                ClaimError::Key(KeyError::Digest),
            ),
            (format!("persistent; previous={nine}"), ClaimError::TooMany),
        ] {
            assert_eq!(text.parse::<IdentityClaim>(), Err(expected), "{text}");
        }
    }
}
