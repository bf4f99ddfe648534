//! A ledger without its times, for tests that compare states.

use std::hash::{Hash, Hasher};

use super::Ledger;

impl Hash for Ledger {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sent.state().hash(state);
        self.rtt.expirations().hash(state);
        self.arrivals.next().hash(state);
        self.arrivals.early().for_each(|seq| seq.hash(state));
        self.granted.state().hash(state);
        self.allowed.state().hash(state);
        self.told.hash(state);
        self.acks.state().hash(state);
        self.attachment.state().hash(state);
        (self.asks, self.our_end, self.peer_ended).hash(state);
    }
}

impl Ledger {
    /// The first record that the peer has not confirmed, the next to be sent, the first that is not here.
    pub(crate) fn numbers(&self) -> (u32, u32, u32) {
        (self.sent.first(), self.sent.next(), self.arrivals.next())
    }

    /// What we have spent, and may spend.
    pub(crate) fn credit(&self) -> (u64, u64) {
        self.allowed.state()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.attachment.epoch()
    }

    /// Whether it is attached, whatever rule is off.
    pub(crate) fn is_truly_attached(&self) -> bool {
        self.attachment.is_attached()
    }

    /// Whether everything that is not confirmed is about to be sent again.
    pub(crate) fn sends_again(&self) -> bool {
        self.sent.next_again() == Some(self.sent.first()) || self.sent.first() == self.sent.next()
    }
}
