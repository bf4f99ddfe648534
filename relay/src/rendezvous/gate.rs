//! Which frames of a harness reach the executor.
//!
//! An executor counts failed handshakes for a whole connection and stops admitting anybody after eight. So a harness can
//! provoke at most one failure per connection: until the executor has answered, only a handful of well-formed frames pass,
//! and only one handshake of a plausible size. Once the executor has answered, everything passes but a second handshake.

use rendezvous_wire::frame::peek::Kind;
use rendezvous_wire::frame::{Body, DecodeError, Frame};
use rendezvous_wire::limits::{HANDSHAKE_1_OVERHEAD, MAX_AUTHORIZATION};

use bytes::Bytes;

/// Largest frame before the executor has answered: message 1 with the longest authorization, and room for the rest of
/// the frame, trace context included.
pub const MAX_OPENING_FRAME: usize = HANDSHAKE_1_OVERHEAD + MAX_AUTHORIZATION + 2048;
/// Most frames before the executor has answered.
pub const MAX_OPENING_FRAMES: u32 = 8;

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was sent but, perhaps, a resume.
    Opening,
    /// The handshake is with the executor.
    Pending,
    /// The executor has answered.
    Open,
    /// Reset by one of the ends.
    Ended,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Forward it.
    Pass,
    /// Forward it once the core admits another handshake.
    Handshake,
    /// Forward it; the stream is over.
    End,
    /// The stream is over already: the frame crossed the executor's reset.
    Late,
}

/// Why a harness connection is closed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateError {
    /// Too many frames, or a frame that is too large, before the executor has answered.
    #[error("too much before the executor has answered")]
    TooMuch,
    /// Something else than the beginning of a stream.
    #[error("a stream begins with resume or handshake")]
    NotABeginning,
    /// Data before the executor has answered.
    #[error("data before the executor has answered")]
    EarlyData,
    /// A second handshake.
    #[error("second handshake on one stream")]
    SecondHandshake,
    /// A handshake message of a length that no executor accepts.
    #[error("handshake message of {0} bytes")]
    HandshakeSize(usize),
    /// A frame that no executor accepts.
    #[error(transparent)]
    Invalid(#[from] DecodeError),
}

/// The state of one harness connection's stream, as far as frames from the harness go.
#[derive(Debug, Default)]
pub struct Gate {
    opening: u32,
    handshake: bool,
}

impl Gate {
    /// Judges one frame. `phase` is the stream's present phase, `kind` what the frame was peeked to be.
    ///
    /// # Errors
    ///
    /// Says why the connection is to be closed; the frame must not be forwarded.
    pub fn check(&mut self, phase: Phase, kind: Option<Kind>, frame: &[u8]) -> Result<Verdict, GateError> {
        match phase {
            Phase::Ended => Ok(Verdict::Late),
            Phase::Open => match kind {
                Some(Kind::Handshake) => Err(GateError::SecondHandshake),
                Some(Kind::Reset) => Ok(Verdict::End),
                _ => Ok(Verdict::Pass),
            },
            Phase::Opening | Phase::Pending => self.opening(kind, frame),
        }
    }

    fn opening(&mut self, kind: Option<Kind>, frame: &[u8]) -> Result<Verdict, GateError> {
        self.opening += 1;
        if self.opening > MAX_OPENING_FRAMES || frame.len() > MAX_OPENING_FRAME {
            return Err(GateError::TooMuch);
        }
        let first = self.opening == 1;
        if first && !matches!(kind, Some(Kind::Resume | Kind::Handshake)) {
            return Err(GateError::NotABeginning);
        }
        // The whole frame is validated here, and only here: it is small, and comes once a connection.
        match Frame::decode(Bytes::copy_from_slice(frame))?.body {
            Body::Data { .. } => Err(GateError::EarlyData),
            Body::Handshake { .. } if self.handshake => Err(GateError::SecondHandshake),
            Body::Handshake { payload } => {
                let sizes = HANDSHAKE_1_OVERHEAD..=HANDSHAKE_1_OVERHEAD + MAX_AUTHORIZATION;
                if !sizes.contains(&payload.len()) {
                    return Err(GateError::HandshakeSize(payload.len()));
                }
                self.handshake = true;
                Ok(Verdict::Handshake)
            }
            Body::Reset { .. } => Ok(Verdict::End),
            Body::Resume { .. } | Body::Reattach { .. } | Body::Ack | Body::Heartbeat => Ok(Verdict::Pass),
        }
    }
}

#[cfg(test)]
mod tests;
