//! Handshakes and streams that are turned away.

use std::time::Instant;

use rand_core::CryptoRng;
use rendezvous_wire::frame::Frame;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason;

use super::{Acceptor, MAX_WAITING_REFUSALS};
use crate::handshake::{HARNESS_NOT_LISTED, Paused};

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
    pub(super) fn turn_away<R: CryptoRng + ?Sized>(&mut self, id: &StreamId, paused: Paused, rng: &mut R) {
        if self.control.len() < MAX_WAITING_REFUSALS
            && let Ok(answer) = paused.refuse(rng, HARNESS_NOT_LISTED)
        {
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
