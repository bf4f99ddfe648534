use super::*;

fn pair() -> (Sealer, Opener) {
    (Sealer::new(&[5; 32]), Opener::new(&[5; 32]))
}

fn seal(sealer: &mut Sealer, text: &[u8]) -> Result<BytesMut, RecordError> {
    let mut record = BytesMut::from(text);
    sealer.seal(&mut record, 0)?;
    Ok(record)
}

#[test]
fn records_open_in_order_only() {
    let (mut sealer, mut opener) = pair();
    let records = [b"zero" as &[u8], b"", b"two"].map(|text| seal(&mut sealer, text).unwrap());
    assert_eq!(sealer.next_seq(), Ok(3));
    let mut plain = Vec::new();
    for record in &records {
        opener.open(record, &mut plain).unwrap();
    }
    assert_eq!(plain, b"zerotwo");

    let (_, mut swapped) = pair();
    assert_eq!(swapped.open(&records[2], &mut plain), Err(RecordError::NotAuthentic));
    assert_eq!(plain, b"zerotwo");
}

#[test]
fn a_replay_is_refused_and_poisons() {
    let (mut sealer, mut opener) = pair();
    let first = seal(&mut sealer, b"a").unwrap();
    let second = seal(&mut sealer, b"b").unwrap();
    let mut plain = Vec::new();
    opener.open(&first, &mut plain).unwrap();
    assert_eq!(opener.open(&first, &mut plain), Err(RecordError::NotAuthentic));
    assert_eq!(opener.open(&second, &mut plain), Err(RecordError::Poisoned));
    assert_eq!(plain, b"a");
}

#[test]
fn lengths_at_the_limit() {
    let (mut sealer, mut opener) = pair();
    let longest = vec![1; MAX_RECORD_PLAINTEXT];
    let record = seal(&mut sealer, &longest).unwrap();
    assert_eq!(record.len(), MAX_RECORD_CIPHERTEXT);
    let mut plain = Vec::new();
    opener.open(&record, &mut plain).unwrap();
    assert_eq!(plain, longest);

    let too_long = vec![1; MAX_RECORD_PLAINTEXT + 1];
    assert_eq!(
        seal(&mut sealer, &too_long),
        Err(RecordError::TooLong(MAX_RECORD_PLAINTEXT + 1))
    );
    assert_eq!(sealer.next_seq(), Err(RecordError::Poisoned));
    let record = vec![1; MAX_RECORD_CIPHERTEXT + 1];
    assert_eq!(
        opener.open(&record, &mut plain),
        Err(RecordError::TooLong(MAX_RECORD_CIPHERTEXT + 1))
    );

    let (_, mut opener) = pair();
    assert_eq!(
        opener.open(&[0; TAG_LEN - 1], &mut plain),
        Err(RecordError::NotAuthentic)
    );
}

#[test]
fn the_counter_refuses_to_wrap() {
    let (mut sealer, mut opener) = pair();
    sealer.counter = Counter::Next(u32::MAX - 1);
    opener.counter = Counter::Next(u32::MAX - 1);
    let last = seal(&mut sealer, b"last").unwrap();
    assert_eq!(seal(&mut sealer, b"more"), Err(RecordError::Exhausted));
    let mut plain = Vec::new();
    opener.open(&last, &mut plain).unwrap();
    assert_eq!(opener.open(&last, &mut plain), Err(RecordError::Exhausted));
}
