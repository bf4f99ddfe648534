use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn reorder() -> (Reorder, Instant) {
    (Reorder::new(&Budget::new(usize::MAX)), Instant::now())
}

/// Inserts and gives everything that is released by it.
fn feed(reorder: &mut Reorder, now: Instant, seq: u32, text: &[u8]) -> Result<Vec<Bytes>, ReorderError> {
    let mut released = Vec::new();
    if let Inserted::Next(record) = reorder.insert(now, seq, Bytes::copy_from_slice(text))? {
        released.push(record);
        released.extend(std::iter::from_fn(|| reorder.pop(now)));
    }
    Ok(released)
}

#[test]
fn early_records_come_out_in_order() {
    let (mut reorder, now) = reorder();
    assert_eq!(feed(&mut reorder, now, 2, b"2").unwrap(), Vec::<Bytes>::new());
    assert_eq!(feed(&mut reorder, now, 1, b"1").unwrap(), Vec::<Bytes>::new());
    assert_eq!(feed(&mut reorder, now, 0, b"0").unwrap(), ["0", "1", "2"]);
    assert_eq!(reorder.next(), 3);
}

#[test]
fn the_first_copy_of_a_record_counts() {
    let (mut reorder, now) = reorder();
    feed(&mut reorder, now, 1, b"first").unwrap();
    let again = reorder.insert(now, 1, Bytes::from_static(b"again")).unwrap();
    assert_eq!(again, Inserted::Duplicate);
    assert_eq!(feed(&mut reorder, now, 0, b"0").unwrap(), ["0", "first"]);
    let old = reorder.insert(now, 0, Bytes::from_static(b"old")).unwrap();
    assert_eq!(old, Inserted::Duplicate);
}

#[test]
fn distance_and_bytes_are_bounded() {
    let (mut reorder, now) = reorder();
    feed(&mut reorder, now, 64, b"last").unwrap();
    assert_eq!(
        feed(&mut reorder, now, 65, b"far"),
        Err(ReorderError::TooFar { seq: 65, next: 0 })
    );
    assert_eq!(
        feed(&mut reorder, now, u32::MAX, b"far"),
        Err(ReorderError::TooFar { seq: u32::MAX, next: 0 })
    );

    let (mut reorder, now) = self::reorder();
    let record = vec![0; REORDER_BYTES / 16];
    for seq in 1..=16 {
        feed(&mut reorder, now, seq, &record).unwrap();
    }
    assert_eq!(feed(&mut reorder, now, 17, b"x"), Err(ReorderError::TooMuch));
    assert_eq!(feed(&mut reorder, now, 0, b"0").unwrap().len(), 17);
    assert_eq!(reorder.lease.held(), 0);
}

#[test]
fn held_records_are_charged() {
    let budget = Budget::new(10);
    let now = Instant::now();
    let mut reorder = Reorder::new(&budget);
    feed(&mut reorder, now, 1, b"12345678").unwrap();
    assert_eq!(budget.used(), 8);
    assert!(matches!(
        feed(&mut reorder, now, 2, b"123"),
        Err(ReorderError::Budget(_))
    ));
    drop(reorder);
    assert_eq!(budget.used(), 0);
}

#[test]
fn each_gap_has_its_own_time() {
    let (mut reorder, start) = reorder();
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(reorder.deadline(), None);
    feed(&mut reorder, at(0), 1, b"1").unwrap();
    feed(&mut reorder, at(4), 3, b"3").unwrap();
    assert_eq!(reorder.deadline(), Some(at(0) + GAP_TIMEOUT));
    assert_eq!(feed(&mut reorder, at(5), 0, b"0").unwrap().len(), 2);
    assert_eq!(reorder.deadline(), Some(at(5) + GAP_TIMEOUT));
    assert_eq!(feed(&mut reorder, at(6), 2, b"2").unwrap().len(), 2);
    assert_eq!(reorder.deadline(), None);
}

#[test]
fn the_last_number_is_the_last() {
    let (mut reorder, now) = reorder();
    reorder.next = u64::from(u32::MAX);
    assert_eq!(feed(&mut reorder, now, u32::MAX, b"end").unwrap(), ["end"]);
    assert_eq!(feed(&mut reorder, now, 0, b"wrap").unwrap(), Vec::<Bytes>::new());
}

#[test]
fn an_early_record_does_not_keep_the_read_buffer() {
    struct ReadBuffer(std::sync::Arc<Vec<u8>>);
    impl AsRef<[u8]> for ReadBuffer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let memory = std::sync::Arc::new(vec![1; 100_000]);
    let buffer = Bytes::from_owner(ReadBuffer(memory.clone()));
    let (mut reorder, now) = reorder();
    assert_eq!(reorder.insert(now, 1, buffer.slice(10..20)), Ok(Inserted::Held));
    drop(buffer);
    assert_eq!(std::sync::Arc::strong_count(&memory), 1);
}

proptest! {
    #[test]
    fn any_order_within_the_window_comes_out_sorted(
        mut order in Just((0u32..64).collect::<Vec<_>>()).prop_shuffle(),
        repeats in proptest::collection::vec(0usize..64, 0..32),
    ) {
        let (mut reorder, now) = reorder();
        for repeat in repeats {
            order.push(order[repeat]);
        }
        let mut released = Vec::new();
        for seq in order {
            released.extend(feed(&mut reorder, now, seq, &seq.to_be_bytes()).unwrap());
        }
        let expected: Vec<_> = (0u32..64).map(|seq| Bytes::copy_from_slice(&seq.to_be_bytes())).collect();
        prop_assert_eq!(released, expected);
        prop_assert_eq!(reorder.deadline(), None);
    }
}
