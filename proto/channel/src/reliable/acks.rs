//! When to say what has arrived: in clear text soon, in a trailer a little later.

use std::time::Instant;

use super::{ACK_BYTES, ACK_DELAY, ACK_RECORDS, CONFIRM_DELAY};

/// What the peer does not know yet of what we have.
#[derive(Clone, Debug, Default)]
pub(super) struct Acks {
    records: usize,
    bytes: usize,
    hint_at: Option<Instant>,
    hint_now: bool,
    unconfirmed: u64,
    confirm_at: Option<Instant>,
    confirm_now: bool,
}

impl Acks {
    /// A record came in order, with a piece or without.
    pub(super) fn arrived(&mut self, now: Instant, len: usize, elicits: bool, window: u64) {
        self.records += 1;
        self.bytes += len;
        self.hint_at.get_or_insert(now + ACK_DELAY);
        self.hint_now |= self.records >= ACK_RECORDS || self.bytes >= ACK_BYTES;
        if elicits {
            self.unconfirmed += len as u64;
            self.confirm_at.get_or_insert(now + CONFIRM_DELAY);
            self.confirm_now |= self.unconfirmed >= window / 4;
        }
    }

    /// The peer may be waiting for a word about a lost or repeated record.
    pub(super) fn hint_now(&mut self) {
        self.hint_now = true;
    }

    /// The peer asks.
    pub(super) fn confirm_now(&mut self) {
        self.confirm_now = true;
    }

    pub(super) fn wants_hint(&self) -> bool {
        self.hint_now
    }

    pub(super) fn wants_confirmation(&self) -> bool {
        self.confirm_now
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let hint = self.hint_at.filter(|_| !self.hint_now);
        let confirmation = self.confirm_at.filter(|_| !self.confirm_now);
        [hint, confirmation].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.hint_now |= self.hint_at.is_some_and(|at| at <= now);
        self.confirm_now |= self.confirm_at.is_some_and(|at| at <= now);
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> (usize, usize, u64, [bool; 4]) {
        let timers = [
            self.hint_at.is_some(),
            self.hint_now,
            self.confirm_at.is_some(),
            self.confirm_now,
        ];
        (self.records, self.bytes, self.unconfirmed, timers)
    }

    /// A frame with an acknowledgement goes out.
    pub(super) fn hinted(&mut self) {
        self.records = 0;
        self.bytes = 0;
        self.hint_at = None;
        self.hint_now = false;
    }

    /// A record with a trailer goes out.
    pub(super) fn confirmed(&mut self) {
        self.hinted();
        self.unconfirmed = 0;
        self.confirm_at = None;
        self.confirm_now = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1024 * 1024;

    #[test]
    fn hints_are_delayed_and_gathered() {
        let now = Instant::now();
        let mut acks = Acks::default();
        acks.arrived(now, 10, false, WINDOW);
        acks.arrived(now + ACK_DELAY / 2, 10, false, WINDOW);
        assert_eq!((acks.wants_hint(), acks.deadline()), (false, Some(now + ACK_DELAY)));
        acks.handle_timeout(now + ACK_DELAY);
        assert_eq!((acks.wants_hint(), acks.deadline()), (true, None));
        acks.hinted();
        assert_eq!((acks.wants_hint(), acks.deadline()), (false, None));
        for record in 1..=ACK_RECORDS {
            acks.arrived(now, 1, false, WINDOW);
            assert_eq!(acks.wants_hint(), record == ACK_RECORDS);
        }
        acks.hinted();
        acks.arrived(now, ACK_BYTES, false, WINDOW);
        assert!(acks.wants_hint() && !acks.wants_confirmation());
    }

    #[test]
    fn what_carries_something_is_confirmed() {
        let now = Instant::now();
        let mut acks = Acks::default();
        acks.arrived(now, 10, true, WINDOW);
        acks.hinted();
        assert_eq!(acks.deadline(), Some(now + CONFIRM_DELAY));
        acks.handle_timeout(now + CONFIRM_DELAY);
        assert!(acks.wants_confirmation());
        acks.confirmed();
        assert!(!acks.wants_confirmation() && acks.deadline().is_none());
        acks.arrived(now, 256 * 1024, true, WINDOW);
        assert!(acks.wants_confirmation());
    }
}
