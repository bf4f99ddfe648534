//! How a stream becomes reliable, and that a stock peer sees nothing of it.

use bytes::Bytes;
use rendezvous_channel::reliable::{FIRST_WINDOW, Pool};
use rendezvous_channel::stream::{Event, Fault, SendError, StreamError};
use rendezvous_wire::frame::{Body, Frame};

use super::pair::{Pair, REQUEST, RESPONSE, body, seqs};
use crate::support::{events, stream_id};

const PLENTY: usize = 1 << 30;

/// Everything on the wire of a stream on which both talk, with and without offers of either end.
fn transcript(offers: [bool; 2], seed: u64) -> Vec<Bytes> {
    let mut pair = Pair::with(seed, &Pool::new(PLENTY), offers);
    let mut all = Vec::new();
    pair.harness.send(Bytes::from_static(REQUEST)).unwrap();
    all.extend(pair.harness_sends());
    pair.executor_gets(&all);
    assert_eq!(pair.take_at_executor(), [REQUEST]);
    pair.executor.settle(pair.now, false);
    for message in [RESPONSE, b"more"] {
        pair.executor.send(Bytes::from_static(message)).unwrap();
    }
    let frames = pair.executor_sends();
    pair.harness_gets(&frames);
    all.extend(frames);
    let first = pair.take_at_harness();
    pair.harness.settle(pair.now, false);
    assert_eq!([first, pair.take_at_harness()].concat(), [RESPONSE, b"more"]);
    pair.harness.send(vec![7; 100_000].into()).unwrap();
    let frames = pair.harness_sends();
    pair.executor_gets(&frames);
    all.extend(frames);
    assert_eq!(pair.take_at_executor().len(), 1);
    assert!(!pair.harness.is_reliable() && !pair.harness.is_undecided());
    pair.pass(std::time::Duration::from_secs(60));
    pair.harness.close("over");
    all.extend(pair.harness_sends());
    all
}

#[test]
fn an_offer_that_is_not_taken_up_leaves_no_trace() {
    let stock = transcript([false, false], 5);
    assert_eq!(stock.len(), 6);
    for offers in [[true, false], [false, true], [true, true]] {
        assert_eq!(transcript(offers, 5), stock);
    }
    for frame in stock {
        let frame = Frame::decode(frame).unwrap();
        assert_eq!((frame.ack, frame.ack_bits), (0, 0));
        assert!(matches!(frame.body, Body::Data { .. } | Body::Reset { .. }));
    }
}

#[test]
fn the_first_messages_are_stock_ones() {
    let seed = 6;
    let mut stock = Pair::with(seed, &Pool::new(PLENTY), [false, false]);
    let mut pair = Pair::with(seed, &Pool::new(PLENTY), [true, true]);
    for pair in [&mut stock, &mut pair] {
        pair.harness.send(Bytes::from_static(REQUEST)).unwrap();
        pair.harness.send(Bytes::from_static(b"too early")).unwrap();
        pair.executor.send(Bytes::from_static(RESPONSE)).unwrap();
    }
    // What follows waits until it is known what it looks like.
    let sent = pair.harness_sends();
    assert_eq!(sent[..], stock.harness_sends()[..1]);
    pair.executor_gets(&sent);
    pair.executor.settle(pair.now, true);
    let answer = pair.executor_sends();
    assert_eq!(answer[..1], stock.executor_sends());
    pair.harness_gets(&answer);
    pair.harness.settle(pair.now, true);
    pair.exchange();
    assert_eq!(pair.take_at_executor(), [REQUEST, b"too early"]);
}

#[test]
fn what_follows_the_first_message_is_read_when_it_is_known_how() {
    // Some come before the first, some behind it; one comes right before it.
    let orders = [[2, 0, 3, 1], [1, 0, 2, 3]];
    for (agreed, order) in [true, false]
        .into_iter()
        .flat_map(|agreed| orders.map(|order| (agreed, order)))
    {
        let mut pair = Pair::undecided(7);
        pair.harness.send(Bytes::from_static(REQUEST)).unwrap();
        let frames = pair.harness_sends();
        pair.executor_gets(&frames);
        assert_eq!(pair.take_at_executor(), [REQUEST]);
        pair.executor.settle(pair.now, agreed);
        for message in [RESPONSE, b"a", b"b", b"c"] {
            pair.executor.send(Bytes::from_static(message)).unwrap();
        }
        let frames = pair.executor_sends();
        assert_eq!(seqs(&frames), [0, 1, 2, 3]);
        for index in order {
            pair.harness_gets(&frames[index..=index]);
        }
        assert_eq!(pair.take_at_harness(), [RESPONSE]);
        pair.harness.settle(pair.now, agreed);
        assert_eq!(pair.take_at_harness(), [&b"a"[..], b"b", b"c"]);
        assert_eq!(pair.harness.is_reliable(), agreed);
    }
}

#[test]
fn what_waits_for_the_decision_is_bounded() {
    let mut pair = Pair::undecided(8);
    pair.executor.settle(pair.now, false);
    pair.executor.send(Bytes::from_static(RESPONSE)).unwrap();
    for _ in 0..65 {
        pair.executor.send(Bytes::from_static(b"x")).unwrap();
    }
    let frames = pair.executor_sends();
    pair.harness_gets(&frames[..65]);
    assert_eq!(pair.take_at_harness(), [RESPONSE]);
    pair.harness_gets(&frames[65..]);
    let [Event::Failed(error @ StreamError::Reorder(_))] = &events(&mut pair.harness)[..] else {
        panic!("not bounded");
    };
    assert_eq!(error.fault(), Fault::Peer);
}

#[test]
fn without_memory_for_windows_nothing_is_offered() {
    let pair = Pair::with(9, &Pool::new(2 * FIRST_WINDOW), [true, true]);
    assert!(pair.harness.is_undecided() && !pair.executor.is_undecided());
    assert_eq!(pair.pool.used(), 2 * FIRST_WINDOW);
    drop(pair.harness);
    assert_eq!(pair.pool.used(), 0);
}

#[test]
fn a_stream_that_is_undecided_ends_as_stock_ones_do() {
    let mut pair = Pair::undecided(10);
    pair.harness.send(Bytes::from_static(REQUEST)).unwrap();
    pair.harness.close("changed my mind");
    let frames = pair.harness_sends();
    assert_eq!(seqs(&frames), [0]);
    assert!(pair.harness.is_closed());
    pair.executor_gets(&frames);
    let ended = Event::Reset {
        reason: "changed my mind".to_owned(),
    };
    assert_eq!(events(&mut pair.executor)[1..], [ended]);
    assert_eq!(pair.executor.send(Bytes::from_static(b"x")), Err(SendError::Closed));

    let mut pair = Pair::undecided(11);
    assert!(!pair.harness.suspend(pair.now));
    assert!(pair.harness.is_closed() && !pair.harness.is_undecided());
}

#[test]
fn a_forged_resume_means_nothing_to_a_stock_stream() {
    let mut pair = Pair::with(12, &Pool::new(PLENTY), [false, false]);
    let body_sent = Body::Reattach {
        next_seq: 0,
        epoch: 1,
        proof: [0; 32],
    };
    let frame = Frame::new(stream_id(super::pair::STREAM), body_sent.clone()).to_bytes();
    assert_eq!(body(&frame), body_sent);
    pair.executor_gets(std::slice::from_ref(&frame));
    pair.harness_gets(&[frame]);
    assert!(events(&mut pair.executor).is_empty() && events(&mut pair.harness).is_empty());
    assert!(pair.executor_sends().is_empty() && pair.harness_sends().is_empty());
}
