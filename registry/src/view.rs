//! The JSON form of what the store holds, for `/v1` and `--json`. Times are RFC 3339 in UTC.

use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::secret::Secret;
use serde::Serialize;

use crate::clock::Timestamp;
use crate::store::{Credential, Environment, Live, Registration, Relay, Role, Status};

/// An environment.
#[derive(Debug, Serialize)]
pub struct EnvironmentView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: String,
    /// When its executor last came or went.
    pub last_seen: Option<String>,
    /// Its registration; only when one environment is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration: Option<RegistrationView>,
    /// Where its executor is; only when one environment is shown and the executor is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence: Option<PresenceView>,
}

/// A registration.
#[derive(Debug, Serialize)]
pub struct RegistrationView {
    /// Its id.
    pub id: String,
    /// Its number within the environment.
    pub generation: u64,
    /// What people compare the executor's key by.
    pub executor_fingerprint: Fingerprint,
    /// Whether the executor says that its key outlives its process.
    pub executor_key_persistent: bool,
    /// Earlier keys by which the executor says that it can still be reached, the newest first.
    pub previous_fingerprints: Vec<Fingerprint>,
    /// The credential it was made with.
    pub credential: String,
}

/// Where an executor is.
#[derive(Debug, Serialize)]
pub struct PresenceView {
    /// The relay's run.
    pub relay: String,
    /// The relay's public base URL.
    pub relay_url: String,
    /// Since when.
    pub since: String,
}

/// A relay whose lease holds.
#[derive(Debug, Serialize)]
pub struct RelayView {
    /// Its run.
    pub boot_id: String,
    /// Its public base URL.
    pub public_url: String,
    /// Its version.
    pub version: String,
    /// Whether it takes new streams.
    pub accepting: bool,
    /// Executors it holds.
    pub executors: u64,
}

/// A credential without its token.
#[derive(Debug, Serialize)]
pub struct CredentialView {
    /// Its id.
    pub id: String,
    /// What its holder is.
    pub role: Role,
    /// The only environment it reaches.
    pub environment: Option<String>,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: String,
    /// When it ends by itself.
    pub expires: Option<String>,
    /// When it was revoked.
    pub revoked: Option<String>,
    /// When it was last used, to a minute.
    pub last_used: Option<String>,
}

/// A new credential with its token.
#[derive(Debug, Serialize)]
pub struct IssuedView {
    #[serde(flatten)]
    credential: CredentialView,
    token: Secret,
}

impl IssuedView {
    /// Shows the token, once.
    pub fn new(credential: Credential, token: Secret) -> Self {
        Self {
            credential: credential.into(),
            token,
        }
    }
}

impl From<Environment> for EnvironmentView {
    fn from(environment: Environment) -> Self {
        Self {
            id: environment.id.into(),
            name: environment.name,
            created: environment.created.rfc3339(),
            last_seen: environment.last_seen.map(Timestamp::rfc3339),
            registration: None,
            presence: None,
        }
    }
}

impl From<Status> for EnvironmentView {
    fn from(status: Status) -> Self {
        Self {
            registration: status.registration.map(RegistrationView::from),
            presence: status.live.map(PresenceView::from),
            ..status.environment.into()
        }
    }
}

impl From<Registration> for RegistrationView {
    fn from(registration: Registration) -> Self {
        Self {
            id: registration.id.into(),
            generation: registration.generation,
            executor_fingerprint: registration.key.fingerprint(),
            executor_key_persistent: registration.identity.persistent,
            previous_fingerprints: registration
                .identity
                .previous
                .into_iter()
                .map(Fingerprint::from)
                .collect(),
            credential: registration.credential.into(),
        }
    }
}

impl From<Live> for PresenceView {
    fn from(live: Live) -> Self {
        Self {
            relay: live.relay.into(),
            relay_url: live.public_url,
            since: live.since.rfc3339(),
        }
    }
}

impl From<Relay> for RelayView {
    fn from(relay: Relay) -> Self {
        Self {
            boot_id: relay.boot_id.into(),
            public_url: relay.public_url,
            version: relay.version,
            accepting: relay.accepting,
            executors: relay.executors,
        }
    }
}

impl From<Credential> for CredentialView {
    fn from(credential: Credential) -> Self {
        Self {
            id: credential.id.into(),
            role: credential.role,
            environment: credential.environment.map(String::from),
            name: credential.name,
            created: credential.created.rfc3339(),
            expires: credential.expires.map(Timestamp::rfc3339),
            revoked: credential.revoked.map(Timestamp::rfc3339),
            last_used: credential.last_used.map(Timestamp::rfc3339),
        }
    }
}
