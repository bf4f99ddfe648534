//! Handshakes and streams that are turned away.

use std::time::{Duration, Instant};

use rand_core::CryptoRng;
use rendezvous_wire::frame::Frame;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason;

use super::{Acceptor, MAX_WAITING_REFUSALS};
use crate::handshake::{HARNESS_NOT_LISTED, Paused};

/// Answers to harnesses that are not listed within [`COURTESY_TIME`]; more are failures like any other, which the relay counts.
/// Whoever hears it does not come again, so that one answer is enough for each.
pub const MAX_COURTESY: u32 = 4;
/// See [`MAX_COURTESY`].
pub const COURTESY_TIME: Duration = Duration::from_secs(60);

/// How many may still be told why they are turned away.
#[derive(Debug, Default)]
pub(super) struct Courtesy {
    since: Option<Instant>,
    told: u32,
}

impl Courtesy {
    fn is_left(&mut self, now: Instant) -> bool {
        let is_over = |since| now.saturating_duration_since(since) >= COURTESY_TIME;
        if self.since.is_none_or(is_over) {
            (self.since, self.told) = (Some(now), 0);
        }
        self.told += 1;
        self.told <= MAX_COURTESY
    }
}

impl Acceptor {
    pub(super) fn fail_handshake(&mut self, now: Instant, id: &StreamId) {
        self.counters.failed_handshakes += 1;
        self.counters.admission_pauses += u64::from(self.admission.failed(now));
        self.push_refusal(id);
    }

    pub(super) fn refuse(&mut self, id: &StreamId) {
        self.counters.refused += 1;
        self.push_refusal(id);
    }

    /// Tells a harness that it is not in our list. The reset behind it frees its place at the relay, whether the harness
    /// leaves or not.
    pub(super) fn turn_away<R: CryptoRng + ?Sized>(
        &mut self,
        now: Instant,
        id: &StreamId,
        paused: Paused,
        rng: &mut R,
    ) {
        // Both frames, or the one that says the least.
        if self.control.len() + 2 > MAX_WAITING_REFUSALS || !self.courtesy.is_left(now) {
            return self.fail_handshake(now, id);
        }
        if let Ok(answer) = paused.refuse(rng, HARNESS_NOT_LISTED) {
            self.push_handshake(id.clone(), answer);
        }
        self.refuse(id);
    }

    pub(super) fn push_refusal(&mut self, id: &StreamId) {
        if self.control.len() >= MAX_WAITING_REFUSALS {
            self.counters.dropped_refusals += 1;
            return;
        }
        let frame = Frame::reset(id.clone(), reason::PROTOCOL_ERROR);
        self.control.push_back(frame.to_bytes());
    }
}
