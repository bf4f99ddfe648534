//! Handshakes and streams that are turned away.

use std::time::Instant;

use rendezvous_wire::frame::Frame;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason;

use super::{Acceptor, MAX_WAITING_REFUSALS};

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

    pub(super) fn push_refusal(&mut self, id: &StreamId) {
        if self.control.len() >= MAX_WAITING_REFUSALS {
            self.counters.dropped_refusals += 1;
            return;
        }
        let frame = Frame::reset(id.clone(), reason::PROTOCOL_ERROR);
        self.control.push_back(frame.to_bytes());
    }
}
