//! What has come of the peer's records: which are here, which are early.

use std::collections::BTreeMap;

use super::MAX_DISTANCE;
use super::trailer::Kind;

/// Early records without a piece that are held; they cost the peer no credit.
const MAX_EARLY_CONTROLS: usize = 64;

/// What becomes of a record, before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arrival {
    /// It is the next one.
    Next,
    /// It can be held until earlier ones are here.
    Early,
    /// It was here before.
    Duplicate,
    /// It is beyond what can be held, and will be sent again.
    Beyond,
}

/// What a record carried in front of its trailer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Piece {
    /// What the bytes are.
    pub(crate) kind: Kind,
    /// Possibly none.
    pub(crate) bytes: bytes::Bytes,
}

impl Piece {
    /// Whether a trailer has to confirm it soon.
    pub(crate) fn elicits(&self) -> bool {
        self.kind != Kind::Piece || !self.bytes.is_empty()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    next: u32,
    early: BTreeMap<u32, Piece>,
    early_controls: usize,
}

impl Arrivals {
    pub(super) fn new(next: u32) -> Self {
        Self {
            next,
            early: BTreeMap::new(),
            early_controls: 0,
        }
    }

    /// The first record that is not here.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    pub(super) fn has_gap(&self) -> bool {
        !self.early.is_empty()
    }

    pub(super) fn judge(&self, seq: u32) -> Arrival {
        match seq.checked_sub(self.next) {
            None => Arrival::Duplicate,
            Some(0) => Arrival::Next,
            Some(_) if self.early.contains_key(&seq) => Arrival::Duplicate,
            Some(distance) if distance <= MAX_DISTANCE => Arrival::Early,
            Some(_) => Arrival::Beyond,
        }
    }

    /// Whether there is room for an early record of this sort.
    pub(super) fn has_room(&self, piece: &Piece) -> bool {
        piece.elicits() || self.early_controls < MAX_EARLY_CONTROLS
    }

    pub(super) fn hold(&mut self, seq: u32, piece: Piece) {
        self.early_controls += usize::from(!piece.elicits());
        self.early.insert(seq, piece);
    }

    /// The next record is here.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// The next record, if it came early.
    pub(super) fn pop(&mut self) -> Option<Piece> {
        let piece = self.early.remove(&self.next)?;
        self.early_controls -= usize::from(!piece.elicits());
        self.next += 1;
        Some(piece)
    }

    /// `ack` and `ack_bits` as a frame carries them; zeros before anything is here.
    pub(super) fn ack(&self) -> (u32, u32) {
        let Some(ack) = self.next.checked_sub(1) else {
            return (0, 0);
        };
        let window = self.early.range(self.next..self.next.saturating_add(32));
        let bits = window.fold(0, |bits, (&seq, _)| bits | 1 << (seq - self.next));
        (ack, bits)
    }

    /// Early records that are held.
    #[cfg(test)]
    pub(super) fn early(&self) -> impl Iterator<Item = u32> {
        self.early.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn piece(bytes: &'static [u8]) -> Piece {
        Piece {
            kind: Kind::Piece,
            bytes: Bytes::from_static(bytes),
        }
    }

    #[test]
    fn acknowledgements_say_what_is_here() {
        let mut arrivals = Arrivals::new(0);
        assert_eq!(arrivals.ack(), (0, 0));
        arrivals.advance();
        assert_eq!(arrivals.ack(), (0, 0));
        for seq in [2, 4, 32, 33] {
            assert_eq!(arrivals.judge(seq), Arrival::Early);
            arrivals.hold(seq, piece(b"x"));
            assert_eq!(arrivals.judge(seq), Arrival::Duplicate);
        }
        assert_eq!(arrivals.ack(), (0, 1 << 1 | 1 << 3 | 1 << 31));
        assert_eq!((arrivals.judge(1), arrivals.pop()), (Arrival::Next, None));
        arrivals.advance();
        assert_eq!(arrivals.pop(), Some(piece(b"x")));
        assert_eq!(arrivals.ack(), (2, 1 << 1 | 1 << 29 | 1 << 30));
        assert_eq!(arrivals.judge(0), Arrival::Duplicate);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut arrivals = Arrivals::new(5);
        assert_eq!(arrivals.judge(5 + MAX_DISTANCE), Arrival::Early);
        assert_eq!(arrivals.judge(6 + MAX_DISTANCE), Arrival::Beyond);
        assert_eq!(arrivals.judge(u32::MAX), Arrival::Beyond);
        let mut held = 0;
        while arrivals.has_room(&piece(b"")) {
            held += 1;
            arrivals.hold(5 + held, piece(b""));
        }
        assert_eq!(held, 64);
        assert!(arrivals.has_room(&piece(b"x")));
        arrivals.advance();
        arrivals.pop().unwrap();
        assert!(arrivals.has_room(&piece(b"")));
    }
}
