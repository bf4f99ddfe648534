//! What the store holds.

use std::fmt;

use rendezvous_wire::id::{BootId, CredentialId, EnvironmentId, RegistrationId};
use rendezvous_wire::identity::IdentityClaim;
use rendezvous_wire::key::{KeyDigest, PublicKey};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::clock::Timestamp;
use crate::token::Digest;

/// An addressable target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Its name on the wire.
    pub id: EnvironmentId,
    /// What people call it; may be empty.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// Number of the last registration. Starts at the creation time in milliseconds and only grows, so that the
    /// numbers of an environment that was deleted and made again stay greater than the old ones.
    pub generation: u64,
    /// When an executor's connection last came or went.
    pub last_seen: Option<Timestamp>,
}

/// What a credential's holder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Manages environments and credentials.
    Admin,
    /// Registers and validates.
    Executor,
    /// Connects.
    Harness,
    /// Opens the control connection.
    Relay,
}

impl Role {
    /// The role's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Executor => "executor",
            Self::Harness => "harness",
            Self::Relay => "relay",
        }
    }

    /// Whether a credential of this role may be limited to one environment.
    pub const fn may_be_scoped(self) -> bool {
        matches!(self, Self::Executor | Self::Harness)
    }

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Admin, Self::Executor, Self::Harness, Self::Relay]
            .into_iter()
            .find(|role| role.as_str() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A bearer token's record. The token itself is stored nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Its public name.
    pub id: CredentialId,
    /// SHA-256 of the token.
    pub digest: Digest,
    /// What its holder is.
    pub role: Role,
    /// The only environment it reaches; `None` for all.
    pub environment: Option<EnvironmentId>,
    /// What people call it; may be empty.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends by itself.
    pub expires: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
    /// When it was last used, to a minute.
    pub last_used: Option<Timestamp>,
}

impl Credential {
    /// Whether it is neither revoked nor expired.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }

    /// Whether it may be used for `environment`.
    pub fn reaches(&self, environment: &EnvironmentId) -> bool {
        self.environment.as_ref().is_none_or(|scope| scope == environment)
    }
}

/// The binding of an environment to one executor key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its name on the wire.
    pub id: RegistrationId,
    /// Its number within the environment.
    pub generation: u64,
    /// The executor's key.
    pub key: PublicKey,
    /// What the executor says of it.
    pub identity: IdentityClaim,
    /// The credential it was made with.
    pub credential: CredentialId,
}

/// A registration to be made.
#[derive(Clone, Debug)]
pub struct NewRegistration {
    /// The environment.
    pub environment: EnvironmentId,
    /// Its name on the wire.
    pub id: RegistrationId,
    /// The executor's key.
    pub key: PublicKey,
    /// What the executor says of it.
    pub identity: IdentityClaim,
    /// The credential it is made with.
    pub credential: CredentialId,
    /// The environment's generation that the caller decided by; another one is a conflict.
    pub expected_generation: u64,
}

/// A relay that holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// This run of the relay process.
    pub boot_id: BootId,
    /// Its `ws://` or `wss://` base.
    pub public_url: String,
    /// Its version.
    pub version: String,
    /// Whether it takes new streams.
    pub accepting: bool,
    /// Executors it holds.
    pub executors: u64,
    /// When its presence ends without renewal.
    pub lease_until: Timestamp,
}

/// Where an environment's executor is, as long as its relay's lease holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The relay that holds the executor.
    pub relay: BootId,
    /// That relay's public base URL.
    pub public_url: String,
    /// Whether that relay takes new streams.
    pub accepting: bool,
    /// Since when the executor has been there.
    pub since: Timestamp,
}

/// An environment with everything that `connect` and `register` decide by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The environment.
    pub environment: Environment,
    /// Its current registration.
    pub registration: Option<Registration>,
    /// Where the executor of the current registration is.
    pub live: Option<Live>,
}

/// An authorization to be stored.
#[derive(Clone, Debug)]
pub struct NewAuthorization {
    /// Digest of the opaque string.
    pub digest: Digest,
    /// The environment.
    pub environment: EnvironmentId,
    /// The registration.
    pub registration: RegistrationId,
    /// The harness key it is bound to.
    pub key: KeyDigest,
    /// The harness's credential.
    pub credential: CredentialId,
    /// When it ends.
    pub expires: Timestamp,
}

/// An authorization as `validate` presents it.
#[derive(Clone, Debug)]
pub struct Presented {
    /// Digest of the opaque string.
    pub digest: Digest,
    /// The environment in the call's path.
    pub environment: EnvironmentId,
    /// The registration in the call's body.
    pub registration: String,
    /// The harness key in the call's body.
    pub key: KeyDigest,
    /// The stream of the handshake; empty when the executor does not say.
    pub stream: String,
}

/// A relay that says hello.
#[derive(Clone, Debug)]
pub struct RelayHello {
    /// This run of the relay process.
    pub boot_id: BootId,
    /// Its `ws://` or `wss://` base.
    pub public_url: String,
    /// Its version.
    pub version: String,
    /// The relay's credential, or the name that stands for an embedded one.
    pub credential: CredentialId,
    /// This control connection; writes of an older one for the same run are refused.
    pub session: String,
    /// Whether it takes new streams.
    pub accepting: bool,
    /// Executors it holds.
    pub executors: u64,
}

/// How an executor's connection stands against the current registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the current registration's.
    Current,
    /// A registration with this greater number is current, or this registration is unknown.
    Superseded {
        /// The current number.
        generation: u64,
    },
    /// There is no such environment.
    Unknown,
}

/// A key pair that signs tickets.
#[derive(Clone)]
pub struct SigningKey {
    /// Its name in tickets.
    pub kid: String,
    /// The private key as PKCS #8.
    pub pkcs8: Zeroizing<Vec<u8>>,
    /// The public key, URL-safe base64 without padding.
    pub x: String,
    /// When it was made.
    pub created: Timestamp,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}
