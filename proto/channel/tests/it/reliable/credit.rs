//! Slow readers stop their own senders, and memory stays within its bounds.

use std::time::Duration;

use bytes::Bytes;
use rendezvous_channel::reliable::{FIRST_WINDOW, MAX_WINDOW, Pool};
use rendezvous_channel::stream::{Event, SendError};

use super::pair::{Pair, seqs};
use crate::support::events;

const MESSAGE: usize = 50_000;

fn fill(pair: &mut Pair) -> usize {
    let mut sent = 0;
    loop {
        match pair.harness.send(Bytes::from(vec![1; MESSAGE])) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error, SendError::Full);
                let before = pair.harness.has_room();
                pair.pass(Duration::from_secs(1));
                if before == pair.harness.has_room() {
                    return sent;
                }
            }
        }
    }
}

#[test]
fn a_reader_that_stands_still_stops_its_sender_at_the_window() {
    let mut pair = Pair::open(1);
    let sent = fill(&mut pair);
    pair.pass(Duration::from_secs(600));
    let got = events(&mut pair.executor);
    let held: usize = got.len() * MESSAGE;
    assert!(held <= FIRST_WINDOW && held > FIRST_WINDOW - 2 * MESSAGE, "{held}");
    // Both are well, and the other direction works.
    pair.executor.send(Bytes::from_static(b"busy")).unwrap();
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.take_at_harness(), ["busy"]);
    // It reads on, and everything comes.
    for event in &got {
        let Event::Message(message) = event else {
            panic!("{event:?}")
        };
        pair.executor.taken(pair.now, message.len());
    }
    let mut rest = 0;
    for _ in 0..sent {
        pair.pass(Duration::from_millis(10));
        rest += pair.take_at_executor().len();
    }
    assert_eq!(got.len() + rest, sent);
}

#[test]
fn two_long_messages_pass_each_other() {
    let mut pair = Pair::open(2);
    let long = Bytes::from(vec![9; 20 * 1024 * 1024]);
    pair.harness.send(long.clone()).unwrap();
    pair.executor.send(long.clone()).unwrap();
    pair.pass(Duration::from_secs(30));
    assert_eq!(pair.take_at_harness(), std::slice::from_ref(&long));
    assert_eq!(pair.take_at_executor(), [long]);
}

#[test]
fn a_window_grows_to_what_the_pool_has() {
    let pool = Pool::new(8 * 1024 * 1024);
    let mut pair = Pair::with(3, &pool, [true, true]);
    pair.agree();
    let mut most = 0;
    for _ in 0..2000 {
        // The peer answers a round trip later.
        if pair.harness.has_room() {
            pair.harness.send(Bytes::from(vec![1; MESSAGE])).unwrap();
        }
        let frames = pair.harness_sends();
        pair.executor_gets(&frames);
        pair.take_at_executor();
        if pair.rng.chance(10) {
            let back = pair.executor_sends();
            pair.harness_gets(&back);
            pair.now += Duration::from_millis(20);
        }
        assert!(pool.used() <= 8 * 1024 * 1024);
        most = most.max(pool.used());
    }
    assert!(most > 4 * FIRST_WINDOW + 1024 * 1024, "{most}");
    assert!(MAX_WINDOW > most / 2);
}

#[test]
fn a_sender_keeps_no_more_than_its_lease_whatever_is_lost() {
    let mut pair = Pair::open(4);
    let mut frames = 0;
    for _ in 0..100 {
        while pair.harness.send(Bytes::from(vec![1; MESSAGE])).is_ok() {}
        frames += seqs(&pair.harness_sends()).len();
    }
    // Nothing is confirmed: credit of the first window, however often it tries.
    assert!(frames * MESSAGE <= FIRST_WINDOW, "{frames}");
    assert!(pair.pool.used() <= 6 * FIRST_WINDOW);
}
