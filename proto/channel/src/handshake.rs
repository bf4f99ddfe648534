//! The handshake: Noise pattern hybridIK over X25519 and ML-KEM-768, AES-256-GCM and SHA-256.
//!
//! ```text
//! <- s
//! ...
//! -> skem, e, es, s, ss, payload: the authorization
//! <- ekem, skem, e, ee, se, payload: empty, or why the executor refuses
//! ```
//!
//! Every key is a pair: `e` and `s` stand for an X25519 key followed by an ML-KEM key. States are consumed by each step,
//! so that nothing can go on after an error.

mod error;
mod initiator;
mod prologue;
mod reader;
mod responder;

use std::fmt;

use rendezvous_wire::limits::MAX_NOISE_MESSAGE;

pub use error::HandshakeError;
pub use initiator::Initiator;
pub use prologue::Prologue;
pub use responder::{Paused, Responder};

use crate::primitives::hash::{Hash, SecretHash};
use crate::record::{Opener, Sealer};
use crate::reliable::{ResumeKey, Role};
use crate::symmetric::SymmetricState;

/// The payload of message 2 by which an executor says that the registry refused the executor's own credential. A stock
/// harness tells it from others by this text.
pub const CREDENTIAL_REJECTED: &[u8] = b"codex-registry-authentication-rejected/v1";
/// The payload of message 2 by which an executor says that its own list of harnesses does not have the harness's key. As
/// long as the other one, so that its length does not tell a relay which of them it is.
pub const HARNESS_NOT_LISTED: &[u8; CREDENTIAL_REJECTED.len()] = b"rendezvous-harness-identity-not-listed/v1";

/// What a finished handshake leaves. The keys are wiped on drop.
pub struct SessionKeys {
    sending: SecretHash,
    receiving: SecretHash,
    exporter: SecretHash,
    role: Role,
    hash: Hash,
}

impl SessionKeys {
    /// The hash of the whole handshake: the same on both sides, unique for each session.
    pub fn handshake_hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// The two directions as records, both at their first: what we seal, what we open.
    pub fn records(&self) -> (Sealer, Opener) {
        (Sealer::new(&self.sending), Opener::new(&self.receiving))
    }

    pub(crate) fn resume_key(&self) -> (Role, ResumeKey) {
        (self.role, ResumeKey::new(&self.hash, &self.exporter))
    }

    fn initiator(symmetric: SymmetricState) -> Self {
        let ([sending, receiving, exporter], hash) = symmetric.split();
        Self {
            sending,
            receiving,
            exporter,
            role: Role::Initiator,
            hash,
        }
    }

    fn responder(symmetric: SymmetricState) -> Self {
        let ([receiving, sending, exporter], hash) = symmetric.split();
        Self {
            sending,
            receiving,
            exporter,
            role: Role::Responder,
            hash,
        }
    }
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKeys([redacted])")
    }
}

/// Refuses a payload that would make a message longer than Noise allows.
fn check_payload(overhead: usize, payload: &[u8]) -> Result<(), HandshakeError> {
    let limit = MAX_NOISE_MESSAGE - overhead;
    if payload.len() > limit {
        return Err(HandshakeError::PayloadTooLong {
            len: payload.len(),
            limit,
        });
    }
    Ok(())
}

/// Refuses a received message outside of `overhead..=65535` bytes.
fn check_length(overhead: usize, message: &[u8]) -> Result<(), HandshakeError> {
    if (overhead..=MAX_NOISE_MESSAGE).contains(&message.len()) {
        Ok(())
    } else {
        Err(HandshakeError::Length {
            len: message.len(),
            at_least: overhead,
        })
    }
}

#[cfg(test)]
mod tests;
