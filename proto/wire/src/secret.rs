//! Text that must never be printed.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize as _;

/// A token, authorization or URL with a ticket in it. `Debug` and `Display` print a mark instead of the text; its memory
/// is wiped when it is dropped.
///
/// Serialisation writes the text: it is how a secret travels.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself: for sending, never for printing.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
