//! What a relay and the registry tell each other over the control connection.
//!
//! A stand-alone relay opens `GET {registry}/v1/relay/control` as a WebSocket with its credential as bearer; each side
//! sends JSON text messages of these types, one a message. An embedded relay exchanges the same values in memory.
//!
//! The relay says [`FromRelay::Hello`] first and then names every executor it holds; the registry answers
//! [`ToRelay::Welcome`]. Presence holds for [`crate::limits::PRESENCE_LEASE`] after the last
//! [`FromRelay::Renew`], which a relay sends every five seconds. While the connection is out, the relay keeps
//! serving with the keys and revocations it knows, and tells the whole presence again when it is back.

use serde::{Deserialize, Serialize};

use crate::id::{BootId, CredentialId, EnvironmentId, RegistrationId};

/// Path of the control connection under the registry's base URL, without a leading `/`.
pub const PATH: &str = "v1/relay/control";
/// Largest control message.
pub const MAX_CONTROL_MESSAGE: usize = 1024 * 1024;
/// Seconds between two renewals.
pub const RENEW_SECONDS: u64 = 5;

/// From a relay to the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FromRelay {
    /// First message.
    Hello {
        /// This run of the relay process.
        boot_id: BootId,
        /// `ws://` or `wss://` base that executors and harnesses can reach.
        public_url: String,
        /// The relay's version, shown to operators.
        version: String,
    },
    /// An executor's connection is up. Repeated for each one after a new `Hello`.
    ExecutorUp(Presence),
    /// An executor's connection is gone.
    ExecutorDown(Presence),
    /// Every executor told so far is still here.
    Renew {
        /// Number of executors held.
        executors: u64,
        /// Whether the relay takes new streams; false while it drains.
        accepting: bool,
    },
    /// Answer to [`ToRelay::Probe`].
    ProbeResult {
        /// The probe's number.
        probe: u64,
        /// Whether the executor answered a ping in time.
        alive: bool,
    },
}

/// One executor connection at a relay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Presence {
    /// The environment.
    pub environment: EnvironmentId,
    /// The registration whose executor is connected.
    pub registration: RegistrationId,
    /// The registration's number within its environment.
    pub generation: u64,
    /// Number of the connection at this relay; a later connection of the same registration has a greater one.
    pub connection: u64,
}

/// From the registry to a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToRelay {
    /// Answer to `Hello`.
    Welcome {
        /// Every key that signs tickets.
        keys: Vec<TicketKey>,
        /// Every revoked credential whose tickets may still look valid.
        revoked: Vec<CredentialId>,
    },
    /// Replaces the key set.
    Keys {
        /// Every key that signs tickets.
        keys: Vec<TicketKey>,
    },
    /// Cut every connection of this credential now and refuse its tickets from now on.
    Revoke {
        /// The revoked credential.
        credential: CredentialId,
    },
    /// A newer registration took the environment: close connections of older ones, refuse their tickets.
    Supersede {
        /// The environment.
        environment: EnvironmentId,
        /// The newest registration's number; older ones are out.
        generation: u64,
    },
    /// The environment was deleted: cut everything that belongs to it. Another one may have its id by now.
    Forget {
        /// The environment.
        environment: EnvironmentId,
        /// The number of its last registration; that one is out too.
        generation: u64,
    },
    /// Ping the executor of this registration within five seconds.
    Probe {
        /// Number to answer with.
        probe: u64,
        /// The registration in question.
        registration: RegistrationId,
    },
}

/// A public key that verifies tickets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketKey {
    /// The `kid` of the tickets it signs.
    pub kid: String,
    /// The Ed25519 public key, URL-safe base64 without padding (the `x` of a JWK).
    pub x: String,
}
