use rendezvous_wire::frame::DecodeError;
use rendezvous_wire::limits::{GAP_TIMEOUT, INITIALIZE_TIMEOUT};
use rendezvous_wire::reason;

use crate::budget::BudgetExhausted;
use crate::handshake::HandshakeError;
use crate::message::MessageError;
use crate::record::RecordError;
use crate::reliable::ReliableError;
use crate::reorder::ReorderError;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The peer, or somebody on the path who changes what it sends, broke the protocol.
    Peer,
    /// The path lost or delayed something.
    Path,
    /// We cannot serve more.
    Local,
}

/// Why a stream ended by our decision.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// Message 2 did not come.
    #[error("the executor did not answer the handshake within {limit} s", limit = INITIALIZE_TIMEOUT.as_secs())]
    HandshakeTimeout,
    /// A record came before the handshake was done.
    #[error("a record arrived before the handshake was done")]
    EarlyRecord,
    /// A handshake message came after the handshake was done.
    #[error("a second handshake message arrived")]
    SecondHandshake,
    /// The connection carried something that is no valid frame.
    #[error(transparent)]
    Frame(#[from] DecodeError),
    /// A record is not what the peer sealed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Records came too far out of order.
    #[error(transparent)]
    Reorder(ReorderError),
    /// A record never came.
    #[error("record {0} did not arrive within {limit} s", limit = GAP_TIMEOUT.as_secs())]
    Gap(u64),
    /// A message is empty or too long.
    #[error(transparent)]
    Message(MessageError),
    /// Unfinished messages and early records fill our memory budget.
    #[error(transparent)]
    Budget(BudgetExhausted),
    /// A reliable stream could not be kept.
    #[error(transparent)]
    Reliable(#[from] ReliableError),
}

impl StreamError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Handshake(HandshakeError::PayloadTooLong { .. } | HandshakeError::NoReason) => Fault::Local,
            Self::HandshakeTimeout | Self::Gap(_) => Fault::Path,
            Self::Record(RecordError::Exhausted) | Self::Budget(_) => Fault::Local,
            Self::Reliable(error) => error.fault(),
            _ => Fault::Peer,
        }
    }

    /// Whether a new stream may do better.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Handshake(error) => error.is_retryable(),
            _ => true,
        }
    }

    /// The reason of the reset that tells the peer. It gives nothing away about keys and plaintext.
    pub fn reset_reason(&self) -> &'static str {
        match self {
            Self::Gap(_) => reason::RECORD_GAP,
            Self::Budget(_) | Self::Reliable(ReliableError::NoMemory) => reason::BACKPRESSURE,
            _ => reason::PROTOCOL_ERROR,
        }
    }
}

impl From<ReorderError> for StreamError {
    fn from(error: ReorderError) -> Self {
        match error {
            ReorderError::Budget(error) => Self::Budget(error),
            error => Self::Reorder(error),
        }
    }
}

impl From<MessageError> for StreamError {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Budget(error) => Self::Budget(error),
            error => Self::Message(error),
        }
    }
}

/// Why a message was not taken for sending. The stream goes on.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The stream is over, or about to be.
    #[error("the stream is closed")]
    Closed,
    /// Too much waits already; try again when some of it is sent.
    #[error("too much waits to be sent")]
    Full,
    /// The message cannot be sent at all.
    #[error(transparent)]
    Message(#[from] MessageError),
}

impl SendError {
    /// Whether the same message may be taken later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Full)
    }
}
