use super::{DEAD_AFTER, MAX_BUDGET_WAIT};
use crate::stream::Fault;

/// Why a reliable stream ended.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReliableError {
    /// The plaintext of a record has no trailer that is known.
    #[error("a record has no valid trailer")]
    Trailer,
    /// The peer sent more than it may.
    #[error("the peer sent beyond its credit")]
    Overdrawn,
    /// The peer says that it has what was never sent.
    #[error("the peer confirms records that were not sent")]
    NeverSent,
    /// The peer went on behind its end, or behind its first message before it knew whether it may.
    #[error("the peer sent a record where none may be")]
    OutOfPlace,
    /// No connection was resumed within the grace period.
    #[error("the stream was not resumed in time")]
    NotResumed,
    /// Nothing was confirmed for too long.
    #[error("the peer confirmed nothing for {limit} s", limit = DEAD_AFTER.as_secs())]
    Silent,
    /// Unfinished messages left no memory for too long.
    #[error("no memory was free for {limit} s", limit = MAX_BUDGET_WAIT.as_secs())]
    NoMemory,
}

impl ReliableError {
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::Trailer | Self::Overdrawn | Self::NeverSent | Self::OutOfPlace => Fault::Peer,
            Self::NotResumed | Self::Silent => Fault::Path,
            Self::NoMemory => Fault::Local,
        }
    }
}
