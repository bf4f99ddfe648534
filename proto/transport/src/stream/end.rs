use std::sync::Arc;

use rendezvous_channel::handshake::HandshakeError;
use rendezvous_channel::stream::StreamError;

use super::RedialError;
use crate::link::LinkError;

/// Why a stream is over.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamEnd {
    /// We closed it.
    #[error("the stream is closed")]
    Closed,
    /// The peer, or somebody on the path, reset it; the reason is not authentic.
    #[error("the stream was reset: {0}")]
    Reset(String),
    /// It broke.
    #[error("the stream failed")]
    Failed(#[source] Arc<StreamError>),
    /// The connection below it is gone.
    #[error("the connection is gone")]
    Disconnected(#[source] Arc<LinkError>),
    /// The connection is gone, and no other one leads to the stream.
    #[error("the connection is gone and could not be made again")]
    NotResumed(#[source] Arc<RedialError>),
    /// What arrived was not taken in time.
    #[error("messages were not taken in time")]
    Backpressure,
    /// A message of this length cannot be sent; the stream goes on.
    #[error("a message of {0} bytes cannot be sent")]
    Unsendable(usize),
    /// The task that drove it was stopped.
    #[error("the connection was dropped")]
    Stopped,
}

impl StreamEnd {
    /// Whether the executor proved who it is, and said that its own list does not have our key.
    pub fn is_not_listed(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        matches!(**error, StreamError::Handshake(HandshakeError::NotListed))
    }

    /// Whether a new stream may do better.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Closed | Self::Unsendable(_) => false,
            Self::Failed(error) => error.is_retryable(),
            Self::Reset(_) | Self::Disconnected(_) | Self::NotResumed(_) | Self::Backpressure | Self::Stopped => true,
        }
    }
}

impl From<StreamError> for StreamEnd {
    fn from(error: StreamError) -> Self {
        Self::Failed(Arc::new(error))
    }
}

impl From<LinkError> for StreamEnd {
    fn from(error: LinkError) -> Self {
        Self::Disconnected(Arc::new(error))
    }
}
