//! Messages that arrived while an earlier one is being answered.

use std::collections::VecDeque;

use bytes::Bytes;

/// Messages that may wait. A stock client has at most 1025 calls in flight.
const MAX_MESSAGES: usize = 2048;
/// Bytes that may wait before the stream is no longer read; the last message may exceed them.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// A bounded queue. A stream whose inbox is full is not read, so its transport holds up the client.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    messages: VecDeque<Bytes>,
    bytes: usize,
}

impl Inbox {
    pub(super) fn has_room(&self) -> bool {
        self.messages.len() < MAX_MESSAGES && self.bytes < MAX_BYTES
    }

    pub(super) fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.messages.push_back(message);
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_bounded_in_messages_and_bytes() {
        let mut inbox = Inbox::default();
        for _ in 0..MAX_MESSAGES {
            assert!(inbox.has_room());
            inbox.push(Bytes::from_static(b"{}"));
        }
        assert!(!inbox.has_room());
        while inbox.pop().is_some() {}
        inbox.push(vec![0; MAX_BYTES].into());
        assert!(!inbox.has_room());
        inbox.pop();
        assert!(inbox.has_room());
    }
}
