//! Issuing credentials, from the command line or over HTTP.

use std::time::Duration;

use rendezvous_wire::id::{CredentialId, EnvironmentId};
use rendezvous_wire::secret::Secret;

use crate::clock::Timestamp;
use crate::store::{Credential, Role, Store, StoreError};
use crate::token::{self, Digest, RandomError};

/// A new credential and its token, which exists nowhere else.
#[derive(Debug)]
pub struct Issued {
    /// The stored record.
    pub credential: Credential,
    /// The bearer token.
    pub token: Secret,
}

/// Why a credential was not issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The role cannot be limited to an environment.
    #[error("a credential of role {0} cannot be limited to one environment")]
    Scope(Role),
    /// It would end at once.
    #[error("a credential must live for at least one second")]
    Lifetime,
    /// The operating system gave no randomness.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The store failed; `NotFound` means the environment.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a credential and stores it.
///
/// # Errors
///
/// The role does not allow the scope, the environment does not exist, or the store failed.
pub async fn issue(
    store: &dyn Store,
    role: Role,
    environment: Option<EnvironmentId>,
    name: String,
    lifetime: Option<Duration>,
    now: Timestamp,
) -> Result<Issued, IssueError> {
    if environment.is_some() && !role.may_be_scoped() {
        return Err(IssueError::Scope(role));
    }
    if lifetime.is_some_and(|lifetime| lifetime < Duration::from_secs(1)) {
        return Err(IssueError::Lifetime);
    }
    let token = token::generate()?;
    let credential = Credential {
        id: CredentialId::new(token::id("cred_")).map_err(|error| StoreError::Corrupt(error.to_string()))?,
        digest: Digest::of(token.expose()),
        role,
        environment,
        name,
        created: now,
        expires: lifetime.map(|lifetime| now.after(lifetime)),
        revoked: None,
        last_used: None,
    };
    store.create_credential(&credential).await?;
    Ok(Issued { credential, token })
}
