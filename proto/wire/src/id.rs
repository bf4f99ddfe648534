//! The names of the protocol, checked when they are made.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_STREAM_ID;

/// Why a text is no id. The message says what is allowed.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{what} must be {rule}")]
pub struct IdError {
    what: &'static str,
    rule: &'static str,
}

/// Makes a newtype over shared text with one rule.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "Cow<'_, str>", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes the text.
            ///
            /// # Errors
            ///
            /// Says which texts are allowed.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(IdError { what: $what, rule: $rule })
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<Cow<'_, str>> for $name {
            type Error = IdError;
            fn try_from(text: Cow<'_, str>) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }
    };
}

/// `[A-Za-z0-9_-]`, 1 to `limit` bytes.
fn is_plain(text: &str, limit: usize) -> bool {
    (1..=limit).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

text_id!(
    /// Names an environment, the addressable target: `[A-Za-z0-9_-]{1,64}`.
    EnvironmentId,
    "environment id",
    "1 to 64 letters, digits, '_' or '-'",
    |text| is_plain(text, 64)
);
text_id!(
    /// Names one end-to-end stream. Not blank, at most [`MAX_STREAM_ID`] bytes; peers use UUIDs.
    StreamId,
    "stream id",
    "1 to 128 bytes and not blank",
    |text| text.len() <= MAX_STREAM_ID && !text.trim().is_empty()
);
text_id!(
    /// Names the binding of an environment to one executor key. Not blank, at most 256 bytes; ours are UUIDs.
    RegistrationId,
    "executor registration id",
    "1 to 256 bytes and not blank",
    |text| text.len() <= 256 && !text.trim().is_empty()
);
text_id!(
    /// Names a credential in the registry; not secret.
    CredentialId,
    "credential id",
    "1 to 64 letters, digits, '_' or '-'",
    |text| is_plain(text, 64)
);
text_id!(
    /// Names one run of a relay process; harness tickets are made out to it, so that a restart opens no replay.
    BootId,
    "boot id",
    "1 to 64 letters, digits, '_' or '-'",
    |text| is_plain(text, 64)
);
