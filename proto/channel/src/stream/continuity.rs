//! How a stream becomes reliable, and goes on behind a lost connection.

use std::collections::VecDeque;
use std::time::Instant;

use rendezvous_wire::frame::PROOF_LEN;

use super::open::Open;
use super::reliable::Reliable;
use super::{Event, State, Stream};
use crate::reliable::{self as reliability, weight};

impl Stream {
    /// Lets a stream of a harness become reliable: see [`Self::settle`]. To be called before anything else.
    #[must_use]
    pub fn offering(mut self, offer: reliability::Config) -> Self {
        self.offer = Some(offer);
        self
    }

    /// Whether [`Self::settle`] has to be called: nothing behind the first message of each direction passes before. An end
    /// that is not asked must not name the extension.
    pub fn is_undecided(&self) -> bool {
        match &self.state {
            State::Handshaking { .. } => self.offer.is_some(),
            State::Open(open) => matches!(**open, Open::Undecided(_)),
            State::Draining(..) | State::Closed => false,
        }
    }

    /// Says whether both ends named the extension in their first messages. A harness calls it when it has read the
    /// executor's first message, an executor before it sends its own.
    pub fn settle(&mut self, now: Instant, agreed: bool) {
        self.advance(now);
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(open) => {
                let mut delivered = VecDeque::new();
                match open.settle(now, agreed, &mut |what| delivered.push_back(what)) {
                    Ok(open) => {
                        self.state = State::Open(Box::new(open));
                        delivered.into_iter().for_each(|what| self.deliver(what));
                    }
                    Err(error) => self.fail(error),
                }
            }
            state => self.state = state,
        }
    }

    /// Whether the stream outlives its connection.
    pub fn is_reliable(&self) -> bool {
        self.reliable().is_some()
    }

    /// The connection is gone. Says whether the stream outlives that; otherwise it is closed.
    pub fn suspend(&mut self, now: Instant) -> bool {
        self.advance(now);
        let Some(reliable) = self.reliable_mut() else {
            self.state = State::Closed;
            return false;
        };
        if reliable.ledger.suspend(now) {
            self.events.push_back(Event::Suspended);
        }
        self.control.clear();
        true
    }

    /// A harness has a new connection for a suspended stream: a resume is ready to be sent.
    pub fn reconnect(&mut self, now: Instant) {
        self.advance(now);
        if let Some(reliable) = self.reliable_mut() {
            reliable.ledger.reconnect(now);
        }
    }

    /// The application took a message of this length. The peer of a reliable stream may send more then.
    pub fn taken(&mut self, now: Instant, message: usize) {
        self.advance(now);
        if let State::Open(open) | State::Draining(open, _) = &mut self.state {
            open.taken(now, weight(message));
        }
    }

    /// Since when a reliable stream has waited for a resume.
    pub fn suspended_since(&self) -> Option<Instant> {
        self.reliable()?.ledger.suspended_since()
    }

    /// Ends the stream at once; all that is said is a reset, which a suspended stream has no way to send.
    pub fn give_up(&mut self, reason: &str) {
        self.reset(reason);
    }

    /// Records and resumes of a reliable stream that were not authentic.
    pub fn forged(&self) -> u64 {
        self.reliable().map_or(0, |reliable| reliable.forged)
    }

    pub(super) fn handle_reattach(&mut self, now: Instant, epoch: u64, next_seq: u32, proof: &[u8; PROOF_LEN]) {
        let (State::Open(open) | State::Draining(open, _)) = &mut self.state else {
            return;
        };
        let Some(reliable) = open.reliable_mut() else { return };
        match reliable.resume(now, &self.id, epoch, next_seq, proof) {
            Ok(true) => self.events.push_back(Event::Resumed),
            Ok(false) => {}
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn reliable(&self) -> Option<&Reliable> {
        match &self.state {
            State::Open(open) | State::Draining(open, _) => open.reliable(),
            State::Handshaking { .. } | State::Closed => None,
        }
    }

    pub(super) fn reliable_mut(&mut self) -> Option<&mut Reliable> {
        match &mut self.state {
            State::Open(open) | State::Draining(open, _) => open.reliable_mut(),
            State::Handshaking { .. } | State::Closed => None,
        }
    }
}
