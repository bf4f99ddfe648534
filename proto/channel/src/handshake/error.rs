use rendezvous_wire::limits::MAX_NOISE_MESSAGE;

use crate::primitives::aead::AeadError;

/// Why a handshake failed. The state is gone; a retry begins with a new one.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// Our payload does not fit into a Noise message.
    #[error("handshake payload of {len} bytes is too long, at most {limit} fit")]
    PayloadTooLong {
        /// Length of the payload.
        len: usize,
        /// What fits.
        limit: usize,
    },
    /// A refusal needs a reason: an empty payload accepts.
    #[error("a refusal needs a reason")]
    NoReason,
    /// The responder's key that we were told is no valid ML-KEM-768 key.
    #[error("the executor's public key is invalid")]
    InvalidResponderKey,
    /// The peer's message is too short or too long to be one.
    #[error("handshake message of {len} bytes, expected {at_least} to {MAX_NOISE_MESSAGE}")]
    Length {
        /// Length of the message.
        len: usize,
        /// Shortest message of this kind.
        at_least: usize,
    },
    /// The peer sent a key that is no valid ML-KEM-768 key.
    #[error("the peer sent an invalid public key")]
    InvalidPeerKey,
    /// The message was made with other keys or another prologue, or was changed on the way.
    #[error("handshake message is not authentic")]
    NotAuthentic,
    /// The executor proved who it is, and its own list of harnesses does not have our key.
    #[error("the executor serves the harnesses of its own list only, and our key is not in it")]
    NotListed,
    /// The executor proved who it is and refused; the text is printable and at most 256 bytes.
    #[error("the executor refused: {0}")]
    Refused(String),
}

impl HandshakeError {
    /// Whether a new attempt, with a freshly looked up executor key, may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Length { .. } | Self::InvalidPeerKey | Self::NotAuthentic => true,
            Self::PayloadTooLong { .. }
            | Self::NoReason
            | Self::InvalidResponderKey
            | Self::NotListed
            | Self::Refused(_) => false,
        }
    }

    /// Makes the peer's reason fit to be shown: bounded, and without control characters.
    pub(super) fn refused(reason: &[u8]) -> Self {
        const SHOWN: usize = 256;
        if reason == super::HARNESS_NOT_LISTED {
            return Self::NotListed;
        }
        if reason == super::CREDENTIAL_REJECTED {
            return Self::Refused("the registry rejected the executor's credential".to_owned());
        }
        let mut text = String::new();
        for chunk in reason[..reason.len().min(SHOWN)].utf8_chunks() {
            text.extend(chunk.valid().chars().filter(|c| !c.is_control()));
        }
        if text.trim().is_empty() {
            text = "no readable reason".to_owned();
        }
        Self::Refused(text)
    }
}

impl From<AeadError> for HandshakeError {
    fn from(_: AeadError) -> Self {
        Self::NotAuthentic
    }
}
