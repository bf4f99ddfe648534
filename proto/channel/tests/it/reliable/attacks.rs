//! A relay that owns every frame: whatever it does costs time, and nothing else.

use std::time::Duration;

use bytes::Bytes;
use rendezvous_channel::reliable::HINT_LIFETIME;
use rendezvous_channel::stream::Event;
use rendezvous_wire::frame::{Body, Frame};

use super::pair::{Pair, STREAM, body, seqs};
use crate::support::{events, stream_id};

fn frame(body: Body) -> Bytes {
    Frame::new(stream_id(STREAM), body).to_bytes()
}

fn ack(ack: u32, ack_bits: u32) -> Bytes {
    let frame = Frame {
        ack,
        ack_bits,
        ..Frame::new(stream_id(STREAM), Body::Ack)
    };
    frame.to_bytes()
}

/// Both ends are well: what they say arrives, once.
fn expect_well(pair: &mut Pair) {
    pair.harness.send(Bytes::from_static(b"question")).unwrap();
    pair.executor.send(Bytes::from_static(b"answer")).unwrap();
    pair.pass(Duration::from_secs(40));
    assert_eq!(pair.take_at_executor(), ["question"]);
    assert_eq!(pair.take_at_harness(), ["answer"]);
}

#[test]
fn who_knows_only_the_stream_id_gets_nothing() {
    let mut pair = Pair::open(1);
    pair.executor.send(Bytes::from_static(b"secret")).unwrap();
    pair.executor_sends();
    pair.cut();
    pair.take_at_executor();
    for proof in [[0; 32], [0xff; 32]] {
        for next_seq in [0, 1, 2, u32::MAX] {
            let body = Body::Reattach {
                next_seq,
                epoch: 1,
                proof,
            };
            pair.executor_gets(&[frame(body)]);
        }
    }
    pair.executor_gets(&[frame(Body::Resume { next_seq: 0 }), ack(5, 5)]);
    let payload = Bytes::from_static(&[9; 4000]);
    pair.executor_gets(&[frame(Body::Handshake {
        payload: payload.clone(),
    })]);
    pair.executor_gets(&[frame(Body::Data { seq: 1, payload })]);
    pair.executor_gets(&[Bytes::from_static(b"no frame")]);
    pair.now += Duration::from_secs(20);
    assert!(pair.executor_sends().is_empty() && events(&mut pair.executor).is_empty());
    assert_eq!(pair.executor.forged(), 9);
    pair.harness.reconnect(pair.now);
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.take_at_harness(), ["secret"]);
    pair.take_at_executor();
    expect_well(&mut pair);
}

#[test]
fn a_resume_is_taken_once_and_by_the_other_end_only() {
    let mut pair = Pair::open(2);
    pair.cut();
    pair.harness.reconnect(pair.now);
    let first = pair.harness_sends();
    pair.executor_gets(&first);
    let answer = pair.executor_sends();
    pair.harness_gets(&answer);
    pair.cut();
    pair.take_at_harness();
    pair.take_at_executor();
    // Replayed, reflected, and the old answer to a new question.
    pair.executor_gets(&first);
    pair.executor_gets(&answer[..1]);
    pair.harness_gets(&first);
    pair.harness.reconnect(pair.now);
    pair.harness_gets(&answer);
    assert!(events(&mut pair.executor).is_empty() && events(&mut pair.harness).is_empty());
    assert!(pair.executor_sends().is_empty());
    expect_well(&mut pair);
}

#[test]
fn a_changed_resume_is_refused() {
    let mut pair = Pair::open(3);
    pair.cut();
    pair.take_at_executor();
    pair.harness.reconnect(pair.now);
    let resume = pair.harness_sends().remove(0);
    let Body::Reattach { next_seq, epoch, proof } = body(&resume) else {
        panic!("no resume");
    };
    for (next_seq, epoch) in [(next_seq + 1, epoch), (next_seq, epoch + 1), (0, u64::MAX)] {
        pair.executor_gets(&[frame(Body::Reattach { next_seq, epoch, proof })]);
    }
    assert!(events(&mut pair.executor).is_empty());
    pair.executor_gets(&[resume]);
    assert_eq!(events(&mut pair.executor), [Event::Resumed]);
    expect_well(&mut pair);
}

#[test]
fn a_forged_reset_is_a_delay() {
    for (to_harness, to_executor) in [(true, false), (false, true), (true, true)] {
        let mut pair = Pair::open(4);
        let reset = [Frame::reset(stream_id(STREAM), "noise_relay_protocol_error").to_bytes()];
        if to_executor {
            pair.executor_gets(&reset);
            assert_eq!(events(&mut pair.executor), [Event::Suspended]);
        }
        if to_harness {
            pair.harness_gets(&reset);
            assert_eq!(events(&mut pair.harness), [Event::Suspended]);
            // Its owner dials again.
            pair.harness.reconnect(pair.now);
        }
        expect_well(&mut pair);
    }
}

#[test]
fn a_forged_reset_instead_of_the_answer_to_a_resume_is_a_delay() {
    let mut pair = Pair::open(11);
    pair.cut();
    pair.take_at_executor();
    assert_eq!(events(&mut pair.harness), [Event::Suspended]);
    pair.harness.reconnect(pair.now);
    let resume = pair.harness_sends();
    assert!(matches!(body(&resume[0]), Body::Reattach { .. }));
    pair.harness_gets(&[Frame::reset(stream_id(STREAM), "gone").to_bytes()]);
    // Its owner has to dial once more, and has to know.
    assert_eq!(events(&mut pair.harness), [Event::Suspended]);
    pair.harness.reconnect(pair.now);
    expect_well(&mut pair);
}

#[test]
fn a_silent_harness_finds_out_that_its_executor_was_told_a_lie() {
    let mut pair = Pair::open(5);
    pair.pass(Duration::from_secs(5));
    let reset = [Frame::reset(stream_id(STREAM), "gone").to_bytes()];
    pair.executor_gets(&reset);
    pair.executor.send(Bytes::from_static(b"news")).unwrap();
    pair.pass(Duration::from_secs(20));
    assert_eq!(pair.take_at_harness(), ["news"]);
    assert_eq!(events(&mut pair.executor), [Event::Suspended, Event::Resumed]);
}

#[test]
fn a_forged_acknowledgement_is_a_delay() {
    let mut pair = Pair::open(6);
    pair.harness.send(vec![1; 150_000].into()).unwrap();
    let lost = pair.harness_sends();
    let last = *seqs(&lost).last().unwrap();
    pair.harness_gets(&[ack(last, u32::MAX), ack(u32::MAX, u32::MAX), ack(0, u32::MAX)]);
    // It is quiet for as long as a hint is believed, and then does what it has to.
    pair.now += HINT_LIFETIME - Duration::from_millis(1);
    assert!(pair.harness_sends().is_empty());
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.take_at_executor().len(), 1);
    expect_well(&mut pair);
}

#[test]
fn a_forged_acknowledgement_of_single_records_is_a_delay() {
    let mut pair = Pair::open(10);
    // What the harness says confirms everything before.
    pair.pass(Duration::from_secs(5));
    pair.harness.send(Bytes::from_static(b"word")).unwrap();
    pair.pass(Duration::from_millis(10));
    assert_eq!(pair.take_at_executor(), ["word"]);
    // An executor cannot ask for a resume that would repair it.
    pair.executor.send(vec![1; 150_000].into()).unwrap();
    let lost = seqs(&pair.executor_sends());
    // Nothing is said of what came before; all that was lost is said to be there, one by one.
    pair.executor_gets(&[ack(lost[0] - 1, u32::MAX)]);
    pair.pass(HINT_LIFETIME + Duration::from_secs(5));
    assert_eq!(pair.take_at_harness().len(), 1);
    expect_well(&mut pair);
}

#[test]
fn acknowledgements_that_are_forged_all_the_time_are_a_delay() {
    let mut pair = Pair::open(7);
    for message in 0..100u8 {
        pair.harness.send(vec![message; 1000].into()).unwrap();
    }
    let mut got = Vec::new();
    let end = pair.now + Duration::from_secs(300);
    while got.len() < 100 && pair.now < end {
        let frames = pair.harness_sends();
        // Half of everything is lost, and all of it is said to be there.
        for frame in frames {
            if pair.rng.chance(50) {
                pair.executor_gets(std::slice::from_ref(&frame));
            }
            if let Body::Data { seq, .. } = body(&frame) {
                pair.harness_gets(&[ack(seq, u32::MAX)]);
            }
        }
        let frames = pair.executor_sends();
        pair.harness_gets(&frames);
        got.extend(pair.take_at_executor());
        pair.now += Duration::from_millis(50);
    }
    let expected: Vec<_> = (0..100u8).map(|message| vec![message; 1000]).collect();
    assert_eq!(got, expected);
}

#[test]
fn every_bit_of_a_record_may_be_flipped() {
    let mut pair = Pair::open(8);
    pair.harness.send(Bytes::from_static(b"precious")).unwrap();
    let sent = pair.harness_sends().remove(0);
    for bit in 0..sent.len() * 8 {
        let mut forged = sent.to_vec();
        forged[bit / 8] ^= 1 << (bit % 8);
        pair.executor_gets(&[forged.into()]);
    }
    let got = pair.take_at_executor();
    // Bits of what nobody relies on change nothing: then it is the record.
    assert!(got.is_empty() || got == ["precious"]);
    let seen = got.len();
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.take_at_executor().len() + seen, 1);
    expect_well(&mut pair);
}

#[test]
fn a_resume_that_was_held_back_harms_nobody() {
    let mut pair = Pair::open(9);
    pair.cut();
    pair.harness.reconnect(pair.now);
    let held_back = pair.harness_sends();
    pair.now += Duration::from_secs(1);
    let newer = pair.harness_sends();
    pair.executor_gets(&held_back);
    let old_answer = pair.executor_sends();
    // The harness waits for the answer to its newest.
    pair.harness_gets(&old_answer[..1]);
    assert_eq!(events(&mut pair.harness), [Event::Suspended]);
    pair.executor_gets(&newer);
    pair.exchange();
    pair.take_at_executor();
    assert_eq!(events(&mut pair.harness), [Event::Resumed]);
    expect_well(&mut pair);
}
