use super::super::{MAX_UNCONFIRMED_CONTROLS, RENEW_AT};
use super::*;

const GRACE: Duration = Duration::from_secs(80);

fn ledger(now: Instant, role: Role, next_sent: u32, next_received: u32) -> Ledger {
    let beginning = Beginning {
        role,
        next_sent,
        next_received,
        grace: GRACE,
        switches: Switches::default(),
    };
    Ledger::new(now, beginning)
}

fn trailer(kind: Kind) -> Trailer {
    Trailer {
        kind,
        next: 0,
        limit: 0,
    }
}

#[test]
fn long_before_the_numbers_end_a_harness_is_told_once() {
    let now = Instant::now();
    for (sent, received) in [(RENEW_AT - 1, 7), (7, RENEW_AT - 1)] {
        for role in [Role::Initiator, Role::Responder] {
            let mut ledger = ledger(now, role, sent, received);
            assert!(!ledger.poll_renewal());
            ledger.sent(now, Bytes::new(), Kind::Piece, 1);
            ledger
                .accept(
                    now,
                    &Trailer {
                        next: sent,
                        ..trailer(Kind::Piece)
                    },
                    1,
                )
                .unwrap();
            assert_eq!(ledger.poll_renewal(), role == Role::Initiator);
            assert!(!ledger.poll_renewal());
        }
    }
}

#[test]
fn a_question_is_answered_at_once() {
    let now = Instant::now();
    let mut ledger = ledger(now, Role::Responder, 0, 0);
    ledger.accept(now, &trailer(Kind::Piece), 0).unwrap();
    assert_eq!(ledger.wants_control(), None);
    ledger.accept(now, &trailer(Kind::Question), 0).unwrap();
    assert_eq!(ledger.wants_control(), Some(Kind::Piece));
    assert_eq!(ledger.trailer(Kind::Piece).next, 2);
    ledger.sent(now, Bytes::new(), Kind::Piece, 0);
    assert_eq!(ledger.wants_control(), None);
}

#[test]
fn records_without_a_piece_are_bounded() {
    let now = Instant::now();
    let mut ledger = ledger(now, Role::Responder, 0, 0);
    for (seq, number) in (0..MAX_UNCONFIRMED_CONTROLS).zip(0..) {
        ledger.acks.confirm_now();
        assert_eq!(ledger.wants_control(), Some(Kind::Piece));
        ledger.sent(now, Bytes::new(), Kind::Piece, 0);
        if (seq + 1) % MAX_CONTROLS == 0 {
            // No more are on their way than this.
            ledger.acks.confirm_now();
            assert_eq!(ledger.wants_control(), None);
            ledger.hint(now, number, 0);
        }
    }
    assert_eq!(ledger.wants_control(), Some(Kind::Question));
}

#[test]
fn behind_an_end_nothing_may_come() {
    let now = Instant::now();
    let mut ledger = ledger(now, Role::Responder, 0, 0);
    ledger.accept(now, &trailer(Kind::End), 4).unwrap();
    ledger.ordered(Kind::End, 4).unwrap();
    ledger.accept(now, &trailer(Kind::Piece), 0).unwrap();
    assert_eq!(ledger.ordered(Kind::Piece, 0), Err(ReliableError::OutOfPlace));
}

#[test]
fn a_peer_cannot_confirm_what_was_never_sent() {
    let now = Instant::now();
    let mut ledger = ledger(now, Role::Responder, 3, 0);
    let next = Trailer {
        next: 4,
        ..trailer(Kind::Piece)
    };
    assert_eq!(ledger.clone().accept(now, &next, 0), Err(ReliableError::NeverSent));
    assert_eq!(ledger.resume(now, 1, 4), Err(ReliableError::NeverSent));
}
