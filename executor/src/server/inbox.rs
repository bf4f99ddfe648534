//! Messages that arrived and are not answered yet.

use std::collections::VecDeque;

use bytes::Bytes;
use rendezvous_rpc::envelope::Request;

/// Messages that may wait. A stock client has at most 1025 calls in flight.
const MAX_MESSAGES: usize = 2048;
/// Bytes that may wait before the stream is no longer read; the last message may exceed them.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Which calls may overtake which, when several are answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Short calls that steer what long ones do.
    Control,
    /// All others.
    Ordinary,
}

/// Bounded queues: of what nobody looked at yet, and of the calls of each lane. A stream whose inbox is full is not read,
/// so its transport holds up the client.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    unread: VecDeque<Bytes>,
    control: VecDeque<(Request, usize)>,
    ordinary: VecDeque<(Request, usize)>,
    bytes: usize,
}

impl Inbox {
    pub(super) fn has_room(&self) -> bool {
        self.unread.len() + self.control.len() + self.ordinary.len() < MAX_MESSAGES && self.bytes < MAX_BYTES
    }

    pub(super) fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.unread.push_back(message);
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let message = self.unread.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }

    /// Keeps a call, which came in a message of `len` bytes, until its lane is free.
    pub(super) fn push_call(&mut self, lane: Lane, call: Request, len: usize) {
        self.bytes += len;
        self.lane(lane).push_back((call, len));
    }

    pub(super) fn pop_call(&mut self, lane: Lane) -> Option<Request> {
        let (call, len) = self.lane(lane).pop_front()?;
        self.bytes -= len;
        Some(call)
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<(Request, usize)> {
        match lane {
            Lane::Control => &mut self.control,
            Lane::Ordinary => &mut self.ordinary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Request {
        Request {
            id: 1.into(),
            method: "m".to_owned(),
            params: None,
            trace: None,
        }
    }

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

    #[test]
    fn waiting_calls_count_too() {
        let mut inbox = Inbox::default();
        for _ in 0..MAX_MESSAGES / 2 {
            inbox.push_call(Lane::Control, call(), 2);
            assert!(inbox.has_room());
            inbox.push_call(Lane::Ordinary, call(), 2);
        }
        assert!(!inbox.has_room());
        assert!(inbox.pop_call(Lane::Ordinary).is_some());
        assert!(inbox.has_room());
        inbox.push_call(Lane::Ordinary, call(), MAX_BYTES);
        for lane in [Lane::Control, Lane::Ordinary] {
            while inbox.pop_call(lane).is_some() {}
        }
        assert_eq!(inbox.bytes, 0);
    }
}
