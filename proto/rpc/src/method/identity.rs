//! The extension by which an executor says inside the channel which key it has.

use rendezvous_wire::key::PublicKey;
use serde::{Deserialize, Serialize};

use super::initialize::Extensions;

/// The extension that adds [`IdentityStatement`] to the result of `initialize`. It belongs to whoever ends the channel.
pub const IDENTITY: &str = "identity";
/// Its version.
const VERSION: u64 = 1;

/// What an executor says of its key. It counts because the channel authenticates whoever says it: the holder of the key
/// that the handshake was made for, which may be an earlier one than `key`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityStatement {
    version: u64,
    /// Whether the key outlives the executor's process.
    pub persistent: bool,
    /// The key that the executor has now.
    pub key: PublicKey,
}

impl IdentityStatement {
    /// A statement of the version that we speak.
    pub fn new(key: PublicKey, persistent: bool) -> Self {
        Self {
            version: VERSION,
            persistent,
            key,
        }
    }
}

impl Extensions {
    /// Offers to take a statement.
    pub fn with_identity(self) -> Self {
        self.with(IDENTITY, VERSION)
    }

    /// Whether the client offers to take a statement.
    pub fn wants_identity(&self) -> bool {
        self.has(IDENTITY, VERSION)
    }

    /// Adds the executor's statement.
    pub fn stating(mut self, statement: &IdentityStatement) -> Self {
        // Every key can be written; if one could not, nothing is said.
        if let Ok(value) = serde_json::to_value(statement) {
            self.0.insert(IDENTITY.to_owned(), value);
        }
        self
    }

    /// The executor's statement, if there is one that can be read.
    pub fn identity(&self) -> Option<IdentityStatement> {
        let statement = IdentityStatement::deserialize(self.0.get(IDENTITY)?).ok()?;
        (statement.version == VERSION).then_some(statement)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_statement_comes_as_it_went() {
        let key = PublicKey {
            x25519: [1; 32],
            mlkem768: Box::new([2; 1184]),
        };
        let statement = IdentityStatement::new(key, true);
        let extensions = Extensions::default().stating(&statement);
        let json = serde_json::to_value(&extensions).unwrap();
        assert_eq!(json["identity"]["version"], 1);
        assert_eq!(json["identity"]["persistent"], true);
        let mut read: Extensions = serde_json::from_value(json).unwrap();
        assert_eq!(read.identity(), Some(statement));
        // An offer is no statement, and neither is what another version says.
        assert_eq!(Extensions::default().with_identity().identity(), None);
        assert!(Extensions::default().with_identity().wants_identity());
        read.0.get_mut("identity").unwrap()["version"] = json!(2);
        assert_eq!(read.identity(), None);
        assert_eq!(Extensions::default().identity(), None);
    }
}
