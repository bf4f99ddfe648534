//! Streams of the relay connection as streams of the server.

use bytes::Bytes;
use rendezvous_transport::stream::{MessageReceiver, MessageSender};

use super::{Sink, Source};

impl Sink for MessageSender {
    async fn send(&self, message: Bytes) -> bool {
        Self::send(self, message).await.is_ok()
    }

    fn initialized(&self) {
        self.set_initialized();
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
