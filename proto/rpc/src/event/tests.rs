use proptest::prelude::*;

use super::*;
use crate::base64::Base64;
use crate::method::process::{Chunk, Dropped};

fn low(seq: u64) -> u8 {
    seq.to_le_bytes()[0]
}

fn output(byte: u8) -> ProcessEvent {
    ProcessEvent::Output {
        stream: OutputStream::Stdout,
        bytes: vec![byte].into(),
    }
}

const EXIT: ProcessEvent = ProcessEvent::Exited {
    code: 3,
    sandbox_denied: Some(false),
};

fn page(seqs: &[u64], next_seq: u64, exited: bool, closed: bool) -> ReadResult {
    ReadResult {
        chunks: seqs
            .iter()
            .map(|seq| Chunk {
                seq: *seq,
                stream: OutputStream::Stdout,
                chunk: Base64::from(vec![low(*seq)]),
            })
            .collect(),
        next_seq,
        exited,
        exit_code: exited.then_some(3),
        closed,
        failure: None,
        sandbox_denied: Some(false),
        exit_seq: None,
        dropped: None,
    }
}

fn drain(order: &mut EventOrder) -> Vec<(u64, ProcessEvent)> {
    std::iter::from_fn(|| order.pop()).collect()
}

#[test]
fn puts_events_in_order_and_drops_repeats() {
    let mut order = EventOrder::default();
    assert_eq!(order.push(2, EXIT), Ok(Pushed::Early));
    assert_eq!(order.pop(), None);
    assert_eq!(order.push(4, ProcessEvent::Closed), Ok(Pushed::Early));
    assert_eq!(order.push(1, output(1)), Ok(Pushed::Ready));
    assert_eq!(order.push(1, output(9)), Ok(Pushed::Repeated));
    assert_eq!(drain(&mut order), [(1, output(1)), (2, EXIT)]);
    assert_eq!(order.push(2, output(9)), Ok(Pushed::Repeated));
    assert!(!order.is_closed());
    assert_eq!(order.push(3, output(3)), Ok(Pushed::Ready));
    assert_eq!(drain(&mut order), [(3, output(3)), (4, ProcessEvent::Closed)]);
    assert!(order.is_closed());
}

#[test]
fn refuses_broken_numbering() {
    let mut order = EventOrder::default();
    assert_eq!(order.push(0, output(0)), Err(OrderError::Unnumbered));
    order.push(5, ProcessEvent::Closed).unwrap();
    assert_eq!(order.push(6, output(6)), Err(OrderError::AfterClose(6)));
    assert_eq!(order.push(4, ProcessEvent::Closed), Err(OrderError::AfterClose(4)));
    let mut order = EventOrder::default();
    order.push(5, output(5)).unwrap();
    assert_eq!(order.push(4, ProcessEvent::Closed), Err(OrderError::AfterClose(4)));
    assert_eq!(order.catch_up(page(&[], 0, false, false)), Err(OrderError::Unnumbered));
}

/// A page of a kept session.
fn kept(seqs: &[u64], next_seq: u64, exit_seq: Option<u64>, dropped: Option<(u64, u64)>) -> ReadResult {
    let closed = exit_seq.is_some_and(|exit| exit + 2 <= next_seq);
    ReadResult {
        exit_seq,
        dropped: dropped.map(|(through, bytes)| Dropped { through, bytes }),
        ..page(seqs, next_seq, exit_seq.is_some(), closed)
    }
}

const GAP: ProcessEvent = ProcessEvent::Dropped { bytes: 700 };

#[test]
fn what_was_dropped_is_told_where_it_is_missing() {
    let mut order = EventOrder::default();
    order.push(1, output(1)).unwrap();
    assert_eq!(drain(&mut order).len(), 1);
    order.push(4, output(4)).unwrap();
    // 2 and 3 are gone, and so are 5 to 7; 4 came when it was told.
    order.catch_up(kept(&[8, 9], 10, None, Some((7, 700)))).unwrap();
    assert_eq!(
        drain(&mut order),
        [(3, GAP), (4, output(4)), (8, output(8)), (9, output(9))]
    );
    // Known already.
    order.catch_up(kept(&[10], 11, None, Some((7, 700)))).unwrap();
    assert_eq!(drain(&mut order), [(10, output(10))]);
    assert_eq!(
        order.catch_up(kept(&[12], 13, None, Some((7, 700)))),
        Err(OrderError::NotRetained(12)),
        "11 is missing for no reason"
    );
}

#[test]
fn the_exit_has_its_place_also_in_a_gap_and_behind_a_cut_page() {
    let mut order = EventOrder::default();
    order.catch_up(kept(&[4], 5, Some(2), Some((3, 700)))).unwrap();
    assert_eq!(drain(&mut order), [(1, GAP), (2, EXIT), (4, output(4))]);

    let mut order = EventOrder::default();
    let cut = ReadResult {
        closed: true,
        ..kept(&[1, 2], 3, Some(4), None)
    };
    order.catch_up(cut).unwrap();
    assert_eq!(drain(&mut order), [(1, output(1)), (2, output(2))]);
    order.catch_up(kept(&[3, 5], 6, Some(4), None)).unwrap();
    assert_eq!(drain(&mut order), [(3, output(3)), (4, EXIT), (5, output(5))]);
    order.catch_up(kept(&[], 7, Some(4), None)).unwrap();
    assert_eq!(drain(&mut order), [(6, ProcessEvent::Closed)]);
    assert!(order.is_closed());
}

#[test]
fn a_tail_begins_with_its_page_and_still_has_the_exit() {
    let begin = |page: ReadResult| {
        let mut order = EventOrder::default();
        order.begin_with(&page);
        order.catch_up(page).unwrap();
        drain(&mut order)
    };
    assert_eq!(
        begin(kept(&[7, 8], 9, None, Some((3, 700)))),
        [(7, output(7)), (8, output(8))]
    );
    assert_eq!(
        begin(kept(&[7], 9, Some(5), Some((6, 700)))),
        [(5, EXIT), (7, output(7)), (8, ProcessEvent::Closed)]
    );
    assert_eq!(
        begin(kept(&[], 9, Some(7), None)),
        [(7, EXIT), (8, ProcessEvent::Closed)]
    );
    assert_eq!(begin(kept(&[], 9, None, None)), []);
    assert_eq!(begin(kept(&[], 1, None, None)), []);
}

#[test]
fn drops_early_events_beyond_either_bound() {
    let mut order = EventOrder::default();
    for seq in 2..2 + MAX_PENDING_EVENTS as u64 {
        assert_eq!(order.push(seq, output(0)), Ok(Pushed::Early));
    }
    assert_eq!(order.push(1000, EXIT), Ok(Pushed::Overflow));
    assert_eq!(order.push(2, output(2)), Ok(Pushed::Early));

    let mut order = EventOrder::default();
    let half = |seq| {
        let event = ProcessEvent::Output {
            stream: OutputStream::Stderr,
            bytes: vec![0; MAX_PENDING_BYTES / 2].into(),
        };
        (seq, event)
    };
    for (seq, event) in [half(2), half(3)] {
        assert_eq!(order.push(seq, event), Ok(Pushed::Early));
    }
    assert_eq!(order.push(4, output(0)), Ok(Pushed::Overflow));
    assert_eq!((order.pending_bytes, order.pending.len()), (0, 0));

    // What was given does not count any more.
    let mut order = EventOrder::default();
    for (seq, event) in [half(1), half(2), half(3)] {
        assert_eq!(order.push(seq, event), Ok(Pushed::Ready));
        assert!(order.pop().is_some());
    }
    assert_eq!(order.push(5, output(0)), Ok(Pushed::Early));
}

#[test]
fn a_page_that_reaches_back_is_taken_from_where_it_is_new() {
    let mut order = EventOrder::default();
    for seq in 1..=2 {
        order.push(seq, output(low(seq))).unwrap();
        order.pop().unwrap();
    }
    order.catch_up(page(&[1, 2, 3], 4, false, false)).unwrap();
    assert_eq!(drain(&mut order), [(3, output(3))]);
    assert_eq!(order.push(4, output(4)), Ok(Pushed::Ready));
    assert_eq!(drain(&mut order), [(4, output(4))]);
}

#[test]
fn an_overflow_is_repaired_by_a_page() {
    let mut order = EventOrder::default();
    order.push(2, EXIT).unwrap();
    for seq in 3..2 + MAX_PENDING_EVENTS as u64 {
        order.push(seq, output(low(seq))).unwrap();
    }
    assert_eq!(order.push(600, ProcessEvent::Closed), Ok(Pushed::Overflow));
    let seqs: Vec<u64> = (1..600).filter(|seq| *seq != 2).collect();
    order.catch_up(page(&seqs, 601, true, true)).unwrap();
    let events = drain(&mut order);
    assert_eq!(events.len(), 600);
    assert_eq!((&events[1], &events[599]), (&(2, EXIT), &(600, ProcessEvent::Closed)));
}

#[test]
fn a_page_fills_the_gap_and_the_exit_has_the_number_that_is_left() {
    let mut order = EventOrder::default();
    order.push(1, output(1)).unwrap();
    drain(&mut order);
    order.push(6, output(6)).unwrap();
    order.catch_up(page(&[2, 3, 5], 7, true, false)).unwrap();
    let events = drain(&mut order);
    let seqs: Vec<u64> = events.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, [2, 3, 4, 5, 6]);
    assert_eq!(events[2].1, EXIT);
    order.catch_up(page(&[], 8, true, true)).unwrap();
    assert_eq!(drain(&mut order), [(7, ProcessEvent::Closed)]);
}

#[test]
fn lost_output_is_an_error() {
    let lost = |pushed: &[(u64, ProcessEvent)], page: ReadResult| {
        let mut order = EventOrder::default();
        for (seq, event) in pushed {
            order.push(*seq, event.clone()).unwrap();
        }
        order.catch_up(page).unwrap_err()
    };
    assert_eq!(lost(&[], page(&[2], 3, false, false)), OrderError::NotRetained(2));
    assert_eq!(lost(&[], page(&[3], 4, true, false)), OrderError::NotRetained(3));
    assert_eq!(
        lost(&[(3, EXIT)], page(&[2], 4, true, false)),
        OrderError::NotRetained(3)
    );
    assert_eq!(
        lost(&[], page(&[], u64::MAX, false, false)),
        OrderError::NotRetained(u64::MAX - 1)
    );
    assert_eq!(lost(&[], page(&[], 4, true, true)), OrderError::NotRetained(3));
}

#[test]
fn an_old_page_changes_nothing() {
    let mut order = EventOrder::default();
    for seq in 1..4 {
        order.push(seq, output(low(seq))).unwrap();
    }
    drain(&mut order);
    order.catch_up(page(&[1, 2], 3, false, false)).unwrap();
    assert_eq!(order.pop(), None);
}

proptest! {
    /// Whatever the wire drops and swaps, what comes out is the history or an error that says so.
    #[test]
    fn delivers_the_history(
        len in 1_u64..40,
        exit_back in 0_u64..40,
        keep in proptest::collection::vec(any::<(bool, u8)>(), 42),
        retained_from in 1_u64..6,
    ) {
        let exit_at = len.saturating_sub(exit_back).max(1);
        let mut history: Vec<(u64, ProcessEvent)> = (1..=len)
            .map(|seq| (seq, if seq == exit_at { EXIT } else { output(low(seq)) }))
            .collect();
        history.push((len + 1, ProcessEvent::Closed));
        let mut wire: Vec<(u8, u64, ProcessEvent)> = history
            .iter()
            .zip(&keep)
            .filter(|(_, (kept, _))| *kept)
            .map(|((seq, event), (_, swap))| (*swap, *seq, event.clone()))
            .collect();
        wire.sort_by_key(|(swap, seq, _)| (*swap, *seq));

        let mut order = EventOrder::default();
        let mut got = Vec::new();
        for (_, seq, event) in wire {
            order.push(seq, event).unwrap();
            got.extend(drain(&mut order));
        }
        let seqs: Vec<u64> = (retained_from..=len)
            .filter(|seq| *seq != exit_at && *seq > order.delivered())
            .collect();
        let result = order.catch_up(page(&seqs, len + 2, true, true));
        got.extend(drain(&mut order));
        prop_assert_eq!(&history[..got.len()], &got[..]);
        if result.is_ok() {
            prop_assert_eq!(got.len(), history.len());
        } else {
            prop_assert!(retained_from > 1);
        }
    }
}

/// No executor counts so far, but one may say so.
#[test]
fn the_last_number_there_is() {
    let last = u64::MAX;
    let mut begun = page(&[last - 1], last, false, false);
    begun.exit_seq = Some(last);
    let mut order = EventOrder::default();
    order.begin_with(&begun);
    order.catch_up(begun).unwrap();
    assert_eq!(drain(&mut order), [(last - 1, output(low(last - 1)))]);
    assert_eq!(order.push(last, output(1)), Ok(Pushed::Ready));
    assert_eq!(drain(&mut order), [(last, output(1))]);
    assert_eq!(order.push(last, ProcessEvent::Closed), Ok(Pushed::Repeated));
    order.catch_up(page(&[last], last, true, true)).unwrap();
    assert_eq!(order.pop(), None);

    let mut order = EventOrder::default();
    order.begin_with(&page(&[], last, true, true));
    order.catch_up(page(&[], last, true, true)).unwrap();
    assert_eq!(order.pop(), None);
}
