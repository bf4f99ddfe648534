//! How reliable streams survive, and how they end.

use std::time::Duration;

use bytes::Bytes;
use rendezvous_channel::reliable::{HARNESS_GRACE, LINGER, ReliableError};
use rendezvous_channel::stream::{Event, Fault, SendError, StreamError};
use rendezvous_wire::frame::{Body, Frame};

use super::pair::{Pair, STREAM, body, seqs};
use crate::support::{events, stream_id};

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn a_cut_in_the_middle_of_everything_costs_nothing() {
    let mut pair = Pair::open(1);
    let long = Bytes::from(vec![3; 200_000]);
    pair.harness.send(long.clone()).unwrap();
    pair.executor.send(bytes("answer")).unwrap();
    let frames = pair.harness_sends();
    assert_eq!(seqs(&frames), [1, 2, 3, 4]);
    // One arrives, another one early; the answer does not.
    pair.executor_gets(&frames[..1]);
    pair.executor_gets(&frames[2..3]);
    pair.executor_sends();
    pair.cut();
    assert_eq!(events(&mut pair.harness), [Event::Suspended]);
    assert_eq!(events(&mut pair.executor), [Event::Suspended]);
    pair.executor.send(bytes("later")).unwrap();
    assert!(pair.harness_sends().is_empty() && pair.executor_sends().is_empty());

    pair.now += HARNESS_GRACE - Duration::from_millis(1);
    pair.harness.reconnect(pair.now);
    let resume = pair.harness_sends();
    assert!(matches!(
        body(&resume[0]),
        Body::Reattach {
            next_seq: 1,
            epoch: 1,
            ..
        }
    ));
    assert_eq!(resume.len(), 1);
    pair.executor_gets(&resume);
    assert_eq!(events(&mut pair.executor), [Event::Resumed]);
    let answer = pair.executor_sends();
    assert!(matches!(
        body(&answer[0]),
        Body::Reattach {
            next_seq: 2,
            epoch: 1,
            ..
        }
    ));
    pair.harness_gets(&answer);
    assert_eq!(pair.take_at_harness(), ["answer", "later"]);
    let again = pair.harness_sends();
    // The identical ciphertext.
    // What the answer hinted at does not go again.
    assert_eq!(again[..2], [frames[1].clone(), frames[3].clone()]);
    pair.executor_gets(&again);
    assert_eq!(pair.take_at_executor(), [long]);
}

#[test]
fn a_lost_record_is_sent_again_as_it_was() {
    let mut pair = Pair::open(2);
    pair.pass(Duration::from_secs(5));
    pair.harness.send(bytes("lost")).unwrap();
    let lost = pair.harness_sends();
    let sent = pair.now;
    let again = loop {
        pair.now = pair.harness.poll_timeout().unwrap();
        let again = pair.harness_sends();
        if !again.is_empty() {
            break again;
        }
    };
    assert_eq!(again, lost);
    assert!((250..2000).contains(&(pair.now - sent).as_millis()));
    pair.executor_gets(&lost);
    pair.executor_gets(&lost);
    assert_eq!(pair.take_at_executor(), ["lost"]);
}

#[test]
fn idle_ends_are_silent_but_for_a_question() {
    let mut pair = Pair::open(3);
    pair.harness.send(bytes("request")).unwrap();
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.take_at_executor(), ["request"]);
    let mut frames = 0;
    let end = pair.now + Duration::from_secs(600);
    while pair.now < end {
        let (a, b) = (pair.harness_sends(), pair.executor_sends());
        frames += a.len() + b.len();
        pair.executor_gets(&a);
        pair.harness_gets(&b);
        if a.is_empty() && b.is_empty() {
            let next = [pair.harness.poll_timeout(), pair.executor.poll_timeout()];
            pair.now = next.into_iter().flatten().min().unwrap().max(pair.now);
        }
    }
    // A question, its answer, and what says that they came: four frames in 15 s.
    assert!((100..200).contains(&frames), "{frames}");
}

#[test]
fn an_end_comes_behind_everything_and_is_authentic() {
    for from_executor in [true, false] {
        let mut pair = Pair::open(4);
        let closing = if from_executor {
            &mut pair.executor
        } else {
            &mut pair.harness
        };
        closing.send(bytes("last words")).unwrap();
        closing.close("done");
        assert_eq!(closing.send(bytes("x")), Err(SendError::Closed));
        pair.exchange();
        let (closed, other) = if from_executor {
            (&mut pair.executor, &mut pair.harness)
        } else {
            (&mut pair.harness, &mut pair.executor)
        };
        let ended = Event::Ended {
            reason: "done".to_owned(),
        };
        assert_eq!(events(other), [Event::Message(bytes("last words")), ended]);
        assert!(closed.is_closed() && other.is_closed());
        assert!(events(closed).is_empty());
    }
}

#[test]
fn an_end_survives_a_lost_record() {
    let mut pair = Pair::open(5);
    pair.harness.send(bytes("dropped")).unwrap();
    pair.harness.abort("given up");
    let frames = pair.harness_sends();
    assert_eq!(seqs(&frames), [1]);
    assert!(!pair.harness.is_closed());
    pair.pass(Duration::from_secs(2));
    let ended = Event::Ended {
        reason: "given up".to_owned(),
    };
    assert_eq!(events(&mut pair.executor), [ended]);
    assert!(pair.harness.is_closed());
}

#[test]
fn an_end_that_nobody_hears_of_lingers_for_a_while() {
    let mut pair = Pair::open(6);
    pair.harness.close("done");
    pair.harness_sends();
    pair.now += LINGER - Duration::from_millis(1);
    pair.harness_sends();
    assert!(!pair.harness.is_closed());
    pair.now += Duration::from_millis(1);
    let last = pair.harness_sends();
    assert_eq!(last, [Frame::reset(stream_id(STREAM), "done").to_bytes()]);
    assert!(pair.harness.is_closed());
    assert_eq!(pair.harness.poll_timeout(), None);
    // The executor does not believe it, and gives up in time.
    pair.executor_gets(&last);
    assert_eq!(events(&mut pair.executor), [Event::Suspended]);
}

#[test]
fn nobody_waits_for_a_resume_for_ever() {
    let mut pair = Pair::open(7);
    pair.cut();
    pair.now += HARNESS_GRACE;
    pair.harness_sends();
    pair.executor_sends();
    let failed = StreamError::Reliable(ReliableError::NotResumed);
    assert_eq!((failed.fault(), failed.is_retryable()), (Fault::Path, true));
    assert_eq!(events(&mut pair.harness), [Event::Suspended, Event::Failed(failed)]);
    assert_eq!(events(&mut pair.executor), [Event::Suspended]);
    pair.now += HARNESS_GRACE;
    pair.executor_sends();
    assert!(pair.executor.is_closed());
    drop(pair.harness);
    drop(pair.executor);
    assert_eq!((pair.pool.used(), pair.budget.used()), (0, 0));
}

#[test]
fn a_peer_that_confirms_nothing_is_given_up() {
    let mut pair = Pair::open(8);
    pair.executor.send(bytes("heard by nobody")).unwrap();
    let start = pair.now;
    while !pair.executor.is_closed() {
        pair.executor_sends();
        pair.now = pair.executor.poll_timeout().unwrap().max(pair.now);
        pair.executor.handle_timeout(pair.now);
    }
    assert_eq!(pair.now - start, Duration::from_secs(120));
    let failed = Event::Failed(StreamError::Reliable(ReliableError::Silent));
    assert_eq!(events(&mut pair.executor), [failed]);
}

#[test]
fn an_unanswered_resume_is_repeated_with_the_next_epoch() {
    let mut pair = Pair::open(9);
    pair.cut();
    pair.harness.reconnect(pair.now);
    let mut epochs = Vec::new();
    for seconds in [0, 1, 2, 4, 8, 8] {
        pair.now += Duration::from_secs(seconds);
        for frame in pair.harness_sends() {
            let Body::Reattach { epoch, .. } = body(&frame) else {
                panic!("not a resume");
            };
            epochs.push(epoch);
        }
    }
    // Fewer than a relay takes from a harness that has no answer yet.
    assert_eq!(epochs, [1, 2, 3, 4, 5, 6]);
}
