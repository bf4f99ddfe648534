use std::fmt;

use bytes::Bytes;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::secret::Secret;

use crate::stream::StreamError;

/// Names one stream of one [`Acceptor`](super::Acceptor) for ever: a later stream with the same `stream_id` has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey(pub(super) u64);

/// Names one validation of one [`Acceptor`](super::Acceptor) for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValidationId(pub(super) u64);

/// The answer to a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The registry said that the harness key may use this executor.
    Admit,
    /// Anything else: a clear no, an error, no answer in time.
    Reject,
    /// Our own list does not have the harness key. The harness is told so, inside the handshake.
    NotListed,
    /// The registry refused the executor's own credential. The harness is told so, inside the handshake.
    CredentialRejected,
}

/// What an acceptor tells. `Debug` shows the size of a message, not its text.
#[derive(PartialEq, Eq)]
pub enum Event {
    /// A harness proved its key; ask the registry and answer with
    /// [`handle_verdict`](super::Acceptor::handle_verdict).
    ValidationRequested {
        /// To be given back with the verdict.
        id: ValidationId,
        /// The stream that waits.
        stream_id: StreamId,
        /// The key that the harness holds.
        initiator_key: PublicKey,
        /// What it presented.
        authorization: Secret,
    },
    /// A harness was admitted.
    StreamOpened {
        /// The stream's name from now on.
        key: StreamKey,
        /// Its name on the wire.
        stream_id: StreamId,
        /// The key that the harness holds.
        initiator_key: PublicKey,
    },
    /// One whole message arrived.
    Message {
        /// On which stream.
        key: StreamKey,
        /// The message.
        message: Bytes,
    },
    /// A reliable stream has lost its way to the harness, which may come back.
    StreamSuspended {
        /// Which one.
        key: StreamKey,
    },
    /// Its harness is back, and nothing is lost.
    StreamResumed {
        /// Which one.
        key: StreamKey,
    },
    /// A stream is over, exactly once for each that was opened.
    StreamClosed {
        /// Which one.
        key: StreamKey,
        /// Why.
        ended: Ended,
    },
}

/// Why a stream is over.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// We closed it, and everything is sent.
    Here,
    /// The peer, or somebody on the path, reset it; the reason is not authentic.
    Reset(String),
    /// It broke.
    Failed(StreamError),
    /// The peer ended it, and everything that it sent is here. The reason is authentic.
    There(String),
    /// The connection is gone, and the stream cannot outlive it.
    Disconnected,
}

/// What was refused on a connection so far. All of it is the peers' doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that are no valid frame.
    pub invalid_frames: u64,
    /// Handshakes that count as failures.
    pub failed_handshakes: u64,
    /// Times that admission paused because too many of those came.
    pub admission_pauses: u64,
    /// Resets sent for anything else.
    pub refused: u64,
    /// Handshakes that were seen before, byte for byte.
    pub replays: u64,
    /// Records and resumes for streams that do not exist.
    pub unknown_streams: u64,
    /// Refusals that were not sent because too many waited.
    pub dropped_refusals: u64,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValidationRequested { id, stream_id, .. } => write!(f, "ValidationRequested({id:?}, {stream_id})"),
            Self::StreamOpened { key, stream_id, .. } => write!(f, "StreamOpened({key:?}, {stream_id})"),
            Self::Message { key, message } => write!(f, "Message({key:?}, {} bytes)", message.len()),
            Self::StreamSuspended { key } => write!(f, "StreamSuspended({key:?})"),
            Self::StreamResumed { key } => write!(f, "StreamResumed({key:?})"),
            Self::StreamClosed { key, ended } => write!(f, "StreamClosed({key:?}, {ended:?})"),
        }
    }
}
