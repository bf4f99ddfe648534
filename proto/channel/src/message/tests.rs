use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use rendezvous_wire::limits::{MAX_MESSAGE, MAX_RECORD_PLAINTEXT};

use super::{Decoder, Encoder, MessageError};
use crate::budget::{Budget, BudgetExhausted};

fn decoder(limit: usize) -> Decoder {
    Decoder::new(&Budget::new(usize::MAX), limit)
}

fn push(decoder: &mut Decoder, plaintext: &[u8]) -> Result<Vec<Bytes>, MessageError> {
    let mut messages = Vec::new();
    decoder.push_plaintext(plaintext, |message| messages.push(message))?;
    Ok(messages)
}

fn records(encoder: &mut Encoder) -> Vec<BytesMut> {
    let mut records = Vec::new();
    while let Some(len) = encoder.record_len() {
        let mut record = BytesMut::new();
        encoder.write_record(&mut record);
        assert_eq!(record.len(), len);
        records.push(record);
    }
    assert_eq!((encoder.queued(), encoder.queued_messages()), (0, 0));
    records
}

#[test]
fn a_long_message_is_cut_as_stock_peers_cut_it() {
    let mut encoder = Encoder::default();
    encoder.push(vec![b'x'; 273_103].into()).unwrap();
    encoder.push(Bytes::from_static(b"next")).unwrap();
    let records = records(&mut encoder);
    let lengths: Vec<_> = records.iter().map(BytesMut::len).collect();
    assert_eq!(lengths, [61_440, 61_440, 61_440, 61_440, 27_347, 8]);
    let mut decoder = decoder(MAX_MESSAGE);
    let messages: Vec<_> = records
        .iter()
        .flat_map(|record| push(&mut decoder, record).unwrap())
        .collect();
    assert_eq!(messages, [&vec![b'x'; 273_103][..], b"next"]);
    assert_eq!(decoder.occupied(), 0);
}

#[test]
fn a_message_of_128_kib_is_put_together() {
    let message: Bytes = (0..131_072u32).map(|i| i.to_le_bytes()[i as usize % 3]).collect();
    let mut encoder = Encoder::default();
    encoder.push(message.clone()).unwrap();
    let records = records(&mut encoder);
    assert_eq!(records.len(), 3);
    let mut decoder = decoder(MAX_MESSAGE);
    assert_eq!(push(&mut decoder, &records[0]).unwrap(), Vec::<Bytes>::new());
    assert_eq!(push(&mut decoder, &records[1]).unwrap(), Vec::<Bytes>::new());
    assert_eq!(push(&mut decoder, &records[2]).unwrap(), [message]);
}

#[test]
fn lengths_are_judged_before_any_payload() {
    let claim = |len: u32| push(&mut decoder(MAX_MESSAGE), &len.to_be_bytes());
    assert_eq!(claim(0), Err(MessageError::Empty));
    assert_eq!(claim(67_108_864), Ok(vec![]));
    let too_long = |len| Err(MessageError::TooLong { len, limit: 67_108_864 });
    assert_eq!(claim(67_108_865), too_long(67_108_865));
    assert_eq!(claim(u32::MAX), too_long(u32::MAX as usize));
    let unlimited = push(&mut decoder(usize::MAX), &67_108_865u32.to_be_bytes());
    assert_eq!(unlimited, too_long(67_108_865));
    assert_eq!(Encoder::default().push(Bytes::new()), Err(MessageError::Empty));
    let huge = Bytes::from(vec![0; MAX_MESSAGE + 1]);
    assert!(matches!(
        Encoder::default().push(huge),
        Err(MessageError::TooLong { .. })
    ));
}

#[test]
fn a_lower_limit_holds_until_it_is_raised() {
    let mut decoder = decoder(10);
    assert_eq!(
        push(&mut decoder, &[0, 0, 0, 11]),
        Err(MessageError::TooLong { len: 11, limit: 10 })
    );
    let mut decoder = self::decoder(10);
    assert_eq!(push(&mut decoder, b"\0\0\0\x0a0123456789").unwrap(), ["0123456789"]);
    decoder.set_limit(11);
    assert_eq!(push(&mut decoder, b"\0\0\0\x0b0123456789a").unwrap(), ["0123456789a"]);
}

#[test]
fn a_claim_reserves_nothing() {
    let budget = Budget::new(usize::MAX);
    let mut decoder = Decoder::new(&budget, MAX_MESSAGE);
    let mut arrived = 0;
    let claim = 67_108_864u32.to_be_bytes();
    let chunk = vec![0; MAX_RECORD_PLAINTEXT];
    assert_eq!(push(&mut decoder, &claim).unwrap(), Vec::<Bytes>::new());
    while arrived + chunk.len() < MAX_MESSAGE {
        assert_eq!(push(&mut decoder, &chunk).unwrap(), Vec::<Bytes>::new());
        arrived += chunk.len();
        assert!(decoder.occupied() <= arrived + (arrived / 4).max(2 * MAX_RECORD_PLAINTEXT));
        assert!(decoder.occupied() <= MAX_MESSAGE + 4);
        assert_eq!(budget.used(), decoder.occupied());
    }
    let messages = push(&mut decoder, &vec![0; MAX_MESSAGE - arrived]).unwrap();
    assert_eq!(messages[0].len(), MAX_MESSAGE);
    assert_eq!(budget.used(), 0);
}

#[test]
fn unfinished_messages_share_the_budget() {
    let budget = Budget::new(200_000);
    let (mut a, mut b) = (Decoder::new(&budget, MAX_MESSAGE), Decoder::new(&budget, MAX_MESSAGE));
    let mut begin = vec![0, 1, 0, 0];
    begin.resize(60_000, 7);
    push(&mut a, &begin).unwrap();
    push(&mut b, &begin).unwrap();
    assert_eq!(budget.used(), 120_000);
    let full = MessageError::Budget(BudgetExhausted { limit: 200_000 });
    let mut long = vec![0, 2, 0, 0];
    long.resize(60_000, 7);
    let mut c = Decoder::new(&budget, MAX_MESSAGE);
    push(&mut c, &long).unwrap();
    assert_eq!(push(&mut c, &long[4..]), Err(full));
    assert_eq!(c.occupied(), 60_000, "refused before it is allocated");
    // Whole messages need no budget.
    assert_eq!(push(&mut a, &begin[..5540]).unwrap().len(), 1);
    drop((a, b, c));
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_beginning_of_a_message_does_not_keep_the_buffer_of_the_one_before() {
    let budget = Budget::new(usize::MAX);
    let mut decoder = Decoder::new(&budget, MAX_MESSAGE);
    let mut plaintext = 50_000u32.to_be_bytes().to_vec();
    plaintext.resize(50_004, 7);
    plaintext.extend_from_slice(&[0, 0]);
    decoder.push_plaintext(&plaintext, drop).unwrap();
    assert_eq!((decoder.occupied(), budget.used()), (2, 2));
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_messages(
        messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 1..12),
        cuts in proptest::collection::vec(1usize..200, 1..64),
    ) {
        let mut stream = Vec::new();
        for message in &messages {
            stream.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
            stream.extend_from_slice(message);
        }
        let mut decoder = decoder(MAX_MESSAGE);
        let mut rest = &stream[..];
        let mut got = Vec::new();
        for cut in cuts.iter().cycle() {
            let (record, tail) = rest.split_at((*cut).min(rest.len()));
            got.extend(push(&mut decoder, record).unwrap());
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(got, messages);
        prop_assert_eq!(decoder.occupied(), 0);
    }
}
