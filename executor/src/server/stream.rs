//! Streams of a relay connection or of a direct one as streams of the server.

use std::time::Instant;

use bytes::Bytes;
use rendezvous_transport::stream::{MessageReceiver, MessageSender};

use super::{Sink, Source};

impl Sink for MessageSender {
    async fn send(&self, message: Bytes) -> bool {
        Self::send(self, message).await.is_ok()
    }

    async fn over(&self) {
        Self::over(self).await;
    }

    fn initialized(&self) {
        self.set_initialized();
    }

    fn is_undecided(&self) -> bool {
        self.continuity().borrow().is_offered
    }

    fn settle(&self, agreed: bool) {
        Self::settle(self, agreed);
    }

    fn suspended_since(&self) -> Option<Instant> {
        self.continuity().borrow().suspended_since
    }
}

/// Borrowed, so that whoever owns it can wait for the end of what was sent.
impl Source for &mut MessageReceiver {
    async fn recv(&mut self) -> Option<Bytes> {
        Source::recv(*self).await
    }
}

impl Source for MessageReceiver {
    async fn recv(&mut self) -> Option<Bytes> {
        match Self::recv(self).await? {
            Ok(message) => Some(message),
            Err(end) => {
                tracing::debug!(%end, "stream ended");
                None
            }
        }
    }
}
