//! Whose turn it is to send: start-time fair queueing. Who has sent little goes first, so that a small message passes the
//! bulk of other streams, and nobody gets more than another who wants as much.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Acceptor, StreamKey};

/// Longest frame that is taken for an urgent one, in bytes.
const SHORT: usize = 4 * 1024;
/// How long the way counts as shared after a short frame was sent between those of other streams.
const SHARED: Duration = Duration::from_secs(1);

/// The streams that have something to send, each once.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: BTreeSet<(u64, StreamKey)>,
    /// What the stream that was last in turn had sent before, as `Share::sent`.
    reached: u64,
    /// Whose frame was the last one.
    last: Option<StreamKey>,
    /// When a short frame was sent last behind one of another stream.
    shared: Option<Instant>,
}

/// What one stream has sent: bytes, and what it let pass while it had nothing to send.
#[derive(Debug, Default)]
pub(super) struct Share {
    sent: u64,
    is_waiting: bool,
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The stream has something to send.
    pub(super) fn wait(&mut self, key: StreamKey, share: &mut Share) {
        if !std::mem::replace(&mut share.is_waiting, true) {
            // Nothing is saved up.
            share.sent = share.sent.max(self.reached);
            self.waiting.insert((share.sent, key));
        }
    }

    /// Whose turn it is. Its share has to be told, with [`Self::taken`] if there still is one.
    pub(super) fn pop(&mut self) -> Option<StreamKey> {
        let (sent, key) = self.waiting.pop_first()?;
        self.reached = sent;
        Some(key)
    }

    /// The stream that [`Self::pop`] gave has had its turn; it may wait again.
    pub(super) fn taken(&mut self, share: &mut Share, bytes: usize) {
        share.is_waiting = false;
        share.sent = self.reached + bytes as u64;
    }

    /// The stream has sent a frame, which may be a whole message: the end of a long one, or a confirmation, is not urgent.
    pub(super) fn sent(&mut self, now: Option<Instant>, key: StreamKey, bytes: usize, is_message: bool) {
        let is_another = self.last.replace(key).is_some_and(|last| last != key);
        if is_another && is_message && bytes <= SHORT {
            self.shared = now;
        }
    }

    /// Whether short messages went out between those of other streams lately.
    pub(super) fn are_shared(&self, now: Option<Instant>) -> bool {
        let (Some(shared), Some(now)) = (self.shared, now) else {
            return false;
        };
        now.saturating_duration_since(shared) < SHARED
    }
}

impl Acceptor {
    /// Whether short messages of some streams were sent between those of others within the last second: who sends much should
    /// not keep them waiting.
    pub fn is_shared(&self) -> bool {
        self.turns.are_shared(self.now)
    }

    /// Makes records at most `limit` bytes of plaintext long from now on: what is urgent waits for the one that is being sent. No
    /// limit makes them shorter than [`MIN_PIECE_LIMIT`](crate::message::MIN_PIECE_LIMIT).
    pub fn limit_records(&mut self, limit: usize) {
        self.record_limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves streams with so much to send, in frames of this length, and says who was served.
    fn serve(turns: &mut Turns, streams: &mut [(Share, usize, u32)], rounds: usize) -> Vec<u64> {
        let mut served = Vec::new();
        for _ in 0..rounds {
            for (number, (share, _, left)) in streams.iter_mut().enumerate() {
                if *left > 0 {
                    turns.wait(StreamKey(number as u64), share);
                }
            }
            let Some(StreamKey(number)) = turns.pop() else { break };
            let (share, frame, left) = &mut streams[usize::try_from(number).unwrap()];
            *left -= 1;
            turns.taken(share, *frame);
            served.push(number);
        }
        served
    }

    #[test]
    fn those_who_want_the_same_take_turns() {
        let mut streams = [0, 1, 2].map(|_| (Share::default(), 100, 3));
        let served = serve(&mut Turns::default(), &mut streams, 100);
        assert_eq!(served, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn small_frames_pass_large_ones_but_share_the_bytes() {
        let mut streams = [(Share::default(), 1000, 5), (Share::default(), 100, 50)];
        let served = serve(&mut Turns::default(), &mut streams, 100);
        assert_eq!(served.len(), 55);
        // Never far apart.
        let mut sent = [0_i64; 2];
        for number in served {
            sent[usize::try_from(number).unwrap()] += [1000, 100][usize::try_from(number).unwrap()];
            assert!((sent[0] - sent[1]).abs() <= 1000, "{sent:?}");
        }
    }

    #[test]
    fn only_short_frames_between_those_of_others_share_the_way_and_for_a_while() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        let (bulk, small) = (StreamKey(1), StreamKey(2));
        turns.sent(Some(now), small, SHORT, true);
        turns.sent(Some(now), small, 1, true);
        turns.sent(Some(now), bulk, SHORT + 1, true);
        turns.sent(Some(now), bulk, 1, true);
        turns.sent(Some(now), small, SHORT, false);
        turns.sent(Some(now), bulk, SHORT + 1, true);
        assert!(!turns.are_shared(Some(now)));
        turns.sent(Some(now), small, SHORT, true);
        turns.sent(Some(now), bulk, SHORT + 1, true);
        assert!(turns.are_shared(Some(now)));
        assert!(turns.are_shared(Some(now + SHARED - Duration::from_nanos(1))));
        assert!(!turns.are_shared(Some(now + SHARED)));
    }

    #[test]
    fn who_was_silent_waits_for_one_frame_at_most_and_has_saved_nothing() {
        let mut turns = Turns::default();
        let mut streams = [
            (Share::default(), 1000, 10),
            (Share::default(), 1000, 10),
            (Share::default(), 10, 0),
        ];
        assert_eq!(serve(&mut turns, &mut streams, 5), [0, 1, 0, 1, 0]);
        streams[2].2 = 1;
        assert_eq!(serve(&mut turns, &mut streams, 2), [1, 2]);
        // Its silence lets it pass once, not as often as it was silent.
        serve(&mut turns, &mut streams, 8);
        streams[2] = (std::mem::take(&mut streams[2].0), 1000, 10);
        streams[0].2 = 10;
        streams[1].2 = 10;
        let served = serve(&mut turns, &mut streams, 6);
        assert_eq!(served.iter().filter(|number| **number == 2).count(), 2, "{served:?}");
    }
}
