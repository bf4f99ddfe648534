//! Records that may come out of order and twice, and the messages inside them.
//!
//! The input is a list of parts. Each part is the plaintext of a record behind one byte that says how the record
//! travels; records are sealed with a known key, so that the fuzzer reaches the decoder behind the seal.

#![no_main]

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::message::Decoder;
use rendezvous_channel::record::{Opener, Sealer};
use rendezvous_channel::reorder::{Inserted, Reorder};
use rendezvous_fuzz::{RECORD_KEY, parts};
use rendezvous_wire::limits::MAX_RECORD_PLAINTEXT;

/// What the unfinished messages and early records of the stream may occupy.
const BUDGET: usize = 4 * 1024 * 1024;
const MESSAGE_LIMIT: usize = 1024 * 1024;

fuzz_target!(|data: &[u8]| {
    let mut sealer: Sealer = Sealer::new(&RECORD_KEY);
    let mut sent = Vec::new();
    let mut arrivals: Vec<(u32, Bytes)> = Vec::new();
    let mut forged = false;
    for part in parts(data) {
        let Some((&travel, plaintext)) = part.split_first() else {
            continue;
        };
        let plaintext = &plaintext[..plaintext.len().min(MAX_RECORD_PLAINTEXT)];
        let seq = sealer.next_seq().expect("few records");
        let mut record = BytesMut::from(plaintext);
        sealer.seal(&mut record, 0).expect("as long as a record may be");
        sent.extend_from_slice(plaintext);
        match travel % 8 {
            // Twice, as the first copy counts.
            1 => arrivals.push((seq, record.clone().freeze())),
            // A bit flips.
            2 => {
                let at = usize::from(travel) % record.len();
                record[at] ^= 1;
                forged = true;
            }
            _ => {}
        }
        // A step back in the queue, as far as the window reaches.
        let at = arrivals
            .len()
            .saturating_sub(if travel % 8 == 3 { usize::from(travel) / 4 } else { 0 });
        arrivals.insert(at, (seq, record.freeze()));
    }

    let received = receive(arrivals);
    if !forged && let Some(received) = received {
        assert_eq!(received, reference(&sent), "the messages are those of the plaintext");
    }
});

/// What a stream does with arriving records: `Err` holds what came out before a message broke a rule, `None` stands for
/// any other failure.
fn receive(arrivals: Vec<(u32, Bytes)>) -> Option<Result<Vec<Bytes>, Vec<Bytes>>> {
    let budget = Budget::new(BUDGET);
    let mut reorder = Reorder::new(&budget);
    let mut opener: Opener = Opener::new(&RECORD_KEY);
    let mut decoder = Decoder::new(&budget, MESSAGE_LIMIT);
    let mut messages = Vec::new();
    let now = Instant::now();
    for (seq, record) in arrivals {
        let mut next = match reorder.insert(now, seq, record) {
            Ok(Inserted::Next(record)) => Some(record),
            Ok(Inserted::Held | Inserted::Duplicate) => None,
            Err(_) => return None,
        };
        while let Some(record) = next {
            let mut plaintext = Vec::new();
            opener.open(&record, &mut plaintext).ok()?;
            if decoder
                .push_plaintext(&plaintext, |message| messages.push(message))
                .is_err()
            {
                return Some(Err(messages));
            }
            assert!(decoder.occupied() <= BUDGET);
            next = reorder.pop(now);
        }
    }
    Some(Ok(messages))
}

/// The same from the plaintext, by the plainest means.
fn reference(mut stream: &[u8]) -> Result<Vec<Bytes>, Vec<Bytes>> {
    let mut messages = Vec::new();
    while let Some((prefix, rest)) = stream.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*prefix) as usize;
        if length == 0 || length > MESSAGE_LIMIT {
            return Err(messages);
        }
        let Some((message, rest)) = rest.split_at_checked(length) else {
            break;
        };
        messages.push(Bytes::copy_from_slice(message));
        stream = rest;
    }
    Ok(messages)
}
