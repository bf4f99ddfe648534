//! The signed capability inside a relay URL: an EdDSA JWT that a relay verifies offline.
//!
//! Here are the claims and the shape of the URL. The registry signs, the relay verifies.

use serde::{Deserialize, Serialize};

use crate::id::{BootId, CredentialId, EnvironmentId, RegistrationId};
use crate::key::KeyDigest;

/// Audience of an executor's ticket: any relay of the registry.
pub const EXECUTOR_AUDIENCE: &str = "rendezvous-relay";
/// Longest ticket that a relay looks at.
pub const MAX_TICKET: usize = 2048;
/// Query parameter that carries the ticket.
pub const PARAMETER: &str = "ticket";
/// First path segment of a relay connection: `/relay/{environment}?ticket=…`.
pub const PATH: &str = "relay";

/// Who holds the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// An executor: many streams, reused across reconnects.
    Executor,
    /// A harness: one stream, used once.
    Harness,
}

/// What a ticket says. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// [`EXECUTOR_AUDIENCE`], or the boot id of the one relay process that may accept a harness.
    pub aud: String,
    /// When it was signed.
    pub iat: u64,
    /// Until when it opens connections. They may last longer.
    pub exp: u64,
    /// Unique name; a harness ticket is used once.
    pub jti: String,
    /// Who holds it.
    pub role: Role,
    /// The environment.
    pub env: EnvironmentId,
    /// The registration.
    pub reg: RegistrationId,
    /// Number of the registration within its environment; grows strictly.
    #[serde(rename = "gen")]
    pub generation: u64,
    /// The credential that it was issued for.
    pub sub: CredentialId,
    /// When that credential ends, if it does: a harness's connection ends with it, an executor's goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<u64>,
    /// The harness's static key; absent for an executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyDigest>,
}

impl Claims {
    /// The boot id that a harness ticket is made out to.
    pub fn boot_id(&self) -> Option<BootId> {
        BootId::new(&self.aud).ok()
    }
}

/// The URL of a relay connection. `base` is the relay's public URL, with or without a trailing `/`.
pub fn relay_url(base: &str, environment: &EnvironmentId, ticket: &str) -> String {
    format!(
        "{}/{PATH}/{environment}?{PARAMETER}={ticket}",
        base.trim_end_matches('/')
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_at_the_end_of_the_base_does_not_matter() {
        let environment = EnvironmentId::new("e").expect("an id");
        for base in ["wss://relay.example/base", "wss://relay.example/base/"] {
            assert_eq!(
                relay_url(base, &environment, "t"),
                "wss://relay.example/base/relay/e?ticket=t"
            );
        }
    }
}
