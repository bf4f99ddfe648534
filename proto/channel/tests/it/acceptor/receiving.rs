//! What arrives on an open stream.

use super::*;

#[test]
fn a_broken_record_ends_its_stream_only() {
    let mut world = World::new();
    let mut healthy = world.open("healthy");
    let open = world.open("broken");
    world.data("broken");
    let ended = Ended::Failed(StreamError::Record(
        rendezvous_channel::record::RecordError::NotAuthentic,
    ));
    world.expect_closed(open.key, ended);
    world.expect_refusal("broken");
    assert_eq!(world.failures(), 0);
    world.expect_alive(&mut healthy);
}

#[test]
fn a_replayed_or_corrupted_record_is_refused() {
    let mut world = World::new();
    let mut open = world.open("s");
    open.harness.send(Bytes::from_static(b"once")).unwrap();
    let first = open.harness.poll_transmit().unwrap();
    world.acceptor.handle_message(world.now, first.clone());
    assert_eq!(world.events().len(), 1);
    // As the same record it is a duplicate; as the next one it is a forgery.
    world.acceptor.handle_message(world.now, first.clone());
    world.expect_nothing();
    let mut forged = Frame::decode(first).unwrap();
    let Body::Data { seq, .. } = &mut forged.body else {
        panic!("no data");
    };
    *seq = 1;
    world.acceptor.handle_frame(world.now, forged);
    let ended = Ended::Failed(StreamError::Record(
        rendezvous_channel::record::RecordError::NotAuthentic,
    ));
    world.expect_closed(open.key, ended);
}

#[test]
fn records_too_far_ahead_end_the_stream() {
    let mut world = World::new();
    let open = world.open("s");
    let payload = Bytes::from_static(&[1; 40]);
    world.frame("s", Body::Data { seq: 65, payload });
    let ended = Ended::Failed(StreamError::Reorder(ReorderError::TooFar { seq: 65, next: 0 }));
    world.expect_closed(open.key, ended);
}

#[test]
fn a_record_that_never_comes_ends_the_stream() {
    let mut world = World::new();
    let mut open = world.open("s");
    let start = world.now;
    for message in ["lost", "early"] {
        open.harness.send(Bytes::from(message)).unwrap();
    }
    open.harness.poll_transmit().unwrap();
    world.pump(&mut open.harness);
    assert_eq!(world.acceptor.poll_timeout(), Some(start + GAP_TIMEOUT));
    world
        .acceptor
        .handle_timeout(start + GAP_TIMEOUT - Duration::from_millis(1));
    world.expect_nothing();
    world.acceptor.handle_timeout(start + GAP_TIMEOUT);
    world.expect_closed(open.key, Ended::Failed(StreamError::Gap(0)));
    let reset = Frame::reset(stream_id("s"), reason::RECORD_GAP);
    assert_eq!(world.sent(), [reset]);
    assert_eq!(world.acceptor.poll_timeout(), None);
}

#[test]
fn messages_are_short_until_the_stream_is_initialized() {
    let mut world = World::new();
    let long = Bytes::from(vec![b'x'; INITIAL_MESSAGE_LIMIT + 1]);
    let mut open = world.open("a");
    open.harness.send(long.slice(1..)).unwrap();
    world.pump(&mut open.harness);
    assert_eq!(world.events().len(), 1);
    world.acceptor.set_initialized(open.key);
    open.harness.send(long.clone()).unwrap();
    world.pump(&mut open.harness);
    assert_eq!(world.events().len(), 1);

    let mut open = world.open("b");
    open.harness.send(long.clone()).unwrap();
    world.pump(&mut open.harness);
    let error = MessageError::TooLong {
        len: long.len(),
        limit: INITIAL_MESSAGE_LIMIT,
    };
    let ended = Ended::Failed(StreamError::Message(error));
    world.expect_closed(open.key, ended);
}

#[test]
fn unfinished_messages_share_the_connections_budget() {
    // Three harnesses find room for a record each, as each leaves a third of what is free.
    let budget = Budget::new(250_000);
    let mut world = World::with_budget(budget.clone());
    let streams = ["a", "b", "c", "d"].map(|stream| {
        world.another_harness();
        world.open(stream)
    });
    let mut open = Vec::from(streams);
    for one in &mut open {
        one.harness.send(Bytes::from(vec![b'x'; 200_000])).unwrap();
        let frame = one.harness.poll_transmit().unwrap();
        world.acceptor.handle_message(world.now, frame);
    }
    let events = world.events();
    assert!(
        matches!(
            &events[..],
            [Event::StreamClosed { key, ended: Ended::Failed(StreamError::Budget(_)) }] if *key == open[3].key
        ),
        "{events:?}"
    );
    let reset = Frame::reset(stream_id("d"), reason::BACKPRESSURE);
    assert_eq!(world.sent(), [reset]);
    for one in &open[..3] {
        world.acceptor.abort(one.key, reason::PROCESSOR_ENDED);
    }
    assert_eq!(budget.used(), 0);
}
