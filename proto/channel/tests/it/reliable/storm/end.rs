//! The application at one end: what it says, what it has heard, and how fast it reads.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_channel::reliable::{FIRST_WINDOW, MAX_WINDOW};
use rendezvous_channel::stream::{Event, Stream};

use crate::support::TestRng;

/// What nobody may read on a link.
pub(super) const MARK: &[u8] = b"plaintext that nobody may see";

pub(super) struct End {
    pub(super) stream: Stream,
    to_say: VecDeque<Bytes>,
    expected: VecDeque<Bytes>,
    unread: VecDeque<Bytes>,
    unread_bytes: usize,
    pub(super) reads_at: Instant,
    longest: usize,
    /// Nothing happens here before.
    pub(super) stalled_until: Instant,
    /// When it learns that its connection is gone.
    pub(super) told_at: Option<Instant>,
    pub(super) suspensions: u64,
    pub(super) resumptions: u64,
    pub(super) was_full: bool,
}

impl End {
    pub(super) fn new(now: Instant, stream: Stream, to_say: &[Bytes], expected: &[Bytes]) -> Self {
        Self {
            stream,
            to_say: to_say.iter().cloned().collect(),
            expected: expected.iter().cloned().collect(),
            unread: VecDeque::new(),
            unread_bytes: 0,
            reads_at: now,
            longest: expected.iter().map(Bytes::len).max().unwrap_or(0),
            stalled_until: now,
            told_at: None,
            suspensions: 0,
            resumptions: 0,
            was_full: false,
        }
    }

    pub(super) fn speak(&mut self) {
        while self.stream.has_room()
            && let Some(message) = self.to_say.pop_front()
        {
            self.stream.send(message).unwrap();
        }
        self.was_full |= !self.stream.has_room();
    }

    /// What the stream tells. Says whether it was suspended.
    pub(super) fn listen(&mut self) -> bool {
        let mut suspended = false;
        while let Some(event) = self.stream.poll_event() {
            match event {
                Event::Message(message) => {
                    let next = self.expected.pop_front().expect("more than was said");
                    assert!(message == next, "not what was said, {} are left", self.expected.len());
                    self.unread_bytes += message.len();
                    self.unread.push_back(message);
                }
                Event::Suspended => {
                    suspended = true;
                    self.suspensions += 1;
                }
                Event::Resumed => self.resumptions += 1,
                event => panic!("{event:?}"),
            }
        }
        // A window of what is on its way, and the message that was unfinished when the window filled.
        assert!(self.unread_bytes <= MAX_WINDOW.max(FIRST_WINDOW) + self.longest);
        suspended
    }

    /// Reads a message, and sometimes takes a rest.
    pub(super) fn read(&mut self, now: Instant, is_clear: bool, rng: &mut TestRng) {
        while self.reads_at <= now
            && let Some(message) = self.unread.pop_front()
        {
            self.unread_bytes -= message.len();
            self.stream.taken(now, message.len());
            if !is_clear {
                let rest = [0, 0, 0, 5, 100, 20_000][usize::try_from(rng.below(6)).unwrap()];
                self.reads_at = now + Duration::from_millis(rng.below(rest + 1));
            }
        }
    }

    pub(super) fn next_moment(&self) -> Option<Instant> {
        let reads = self.reads_at;
        let reads = (!self.unread.is_empty()).then_some(reads);
        let next = [self.stream.poll_timeout(), reads, self.told_at];
        let next = next.into_iter().flatten().min()?;
        Some(next.max(self.stalled_until))
    }

    pub(super) fn has_all(&self) -> bool {
        self.expected.is_empty() && self.unread.is_empty() && self.to_say.is_empty()
    }

    pub(super) fn left(&self) -> (usize, usize, usize) {
        (self.to_say.len(), self.expected.len(), self.unread.len())
    }
}
