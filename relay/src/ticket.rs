//! Tickets, verified offline with the registry's published keys.

mod replay;

use std::collections::HashMap;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use rendezvous_wire::control::TicketKey;
use rendezvous_wire::id::{BootId, EnvironmentId};
use rendezvous_wire::ticket::{Claims, EXECUTOR_AUDIENCE, MAX_TICKET, Role};

pub use replay::{UseError, UsedTickets};

/// Most keys of a registry; more are ignored.
pub const MAX_KEYS: usize = 64;
/// Longest `jti` that is accepted.
pub const MAX_JTI: usize = 64;

/// Why a ticket is no good here. All of them are answered with 401.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TicketError {
    /// Longer than [`MAX_TICKET`], or not a JWT with the right claims.
    #[error("malformed ticket")]
    Malformed,
    /// Signed with a key that is not in the key set.
    #[error("unknown signing key")]
    UnknownKey,
    /// Not signed by that key, or with another algorithm.
    #[error("invalid signature")]
    Signature,
    /// Past its end.
    #[error("ticket expired")]
    Expired,
    /// For another environment than the URL's.
    #[error("ticket is for another environment")]
    Environment,
    /// For another relay, or for another run of this one.
    #[error("ticket is for another relay")]
    Audience,
    /// Role and the other claims do not fit.
    #[error("ticket's role does not fit")]
    Role,
    /// Used before.
    #[error("ticket was used")]
    Used,
}

impl TicketError {
    /// The text of the rejection header.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Malformed => "malformed_query",
            Self::UnknownKey => "invalid_secret",
            Self::Signature => "invalid_signature",
            Self::Expired => "expired",
            Self::Environment => "unexpected_environment",
            Self::Audience => "wrong_rendezvous_cluster",
            Self::Role => "invalid_role",
            Self::Used => "already_used",
        }
    }
}

/// The registry's public keys.
#[derive(Clone, Default)]
pub struct KeySet(HashMap<String, DecodingKey>);

impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl KeySet {
    /// Takes what the registry published; a key that is none is left out.
    pub fn new(keys: &[TicketKey]) -> Self {
        let mut set = HashMap::new();
        for key in keys.iter().take(MAX_KEYS) {
            match DecodingKey::from_ed_components(&key.x) {
                Ok(decoding) => {
                    set.insert(key.kid.clone(), decoding);
                }
                Err(error) => tracing::warn!(kid = key.kid, %error, "the registry published a malformed key"),
            }
        }
        Self(set)
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Verifies a ticket for a connection to `environment` at the relay process `boot_id`; `now` is in seconds since the
    /// Unix epoch. Whether it was used before is [`UsedTickets`]' to say.
    ///
    /// # Errors
    ///
    /// Says why it is no good.
    pub fn verify(
        &self,
        ticket: &str,
        environment: &EnvironmentId,
        boot_id: &BootId,
        now: u64,
    ) -> Result<Claims, TicketError> {
        if ticket.len() > MAX_TICKET {
            return Err(TicketError::Malformed);
        }
        let header = decode_header(ticket).map_err(|_| TicketError::Malformed)?;
        if header.alg != Algorithm::EdDSA {
            return Err(TicketError::Signature);
        }
        let key = header
            .kid
            .and_then(|kid| self.0.get(&kid))
            .ok_or(TicketError::UnknownKey)?;
        let claims = decode::<Claims>(ticket, key, &validation())
            .map_err(|error| match error.kind() {
                jsonwebtoken::errors::ErrorKind::InvalidSignature
                | jsonwebtoken::errors::ErrorKind::InvalidAlgorithm => TicketError::Signature,
                _ => TicketError::Malformed,
            })?
            .claims;
        check(&claims, environment, boot_id, now)?;
        Ok(claims)
    }
}

/// Only the signature: the claims are checked by [`check`], with the caller's clock.
fn validation() -> Validation {
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}

fn check(claims: &Claims, environment: &EnvironmentId, boot_id: &BootId, now: u64) -> Result<(), TicketError> {
    if claims.exp <= now || claims.ends.is_some_and(|end| end <= now) {
        return Err(TicketError::Expired);
    }
    if claims.env != *environment {
        return Err(TicketError::Environment);
    }
    let fits = match claims.role {
        Role::Executor => claims.key.is_none(),
        Role::Harness => claims.key.is_some() && (1..=MAX_JTI).contains(&claims.jti.len()),
    };
    if !fits {
        return Err(TicketError::Role);
    }
    let audience = match claims.role {
        Role::Executor => EXECUTOR_AUDIENCE,
        Role::Harness => boot_id.as_str(),
    };
    if claims.aud != audience {
        // A ticket that would fit the other role is a mix-up of roles, not of relays.
        return Err(
            match claims.aud == EXECUTOR_AUDIENCE || claims.aud == boot_id.as_str() {
                true => TicketError::Role,
                false => TicketError::Audience,
            },
        );
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
