//! What is sent, and how streams end.

use rendezvous_channel::message::MIN_PIECE_LIMIT;
use rendezvous_wire::limits::MAX_RECORD_PLAINTEXT;

use super::*;

#[test]
fn streams_send_in_turn() {
    let mut world = World::new();
    let open = ["a", "b", "c"].map(|stream| world.open(stream));
    let long = Bytes::from(vec![b'x'; 300_000]);
    world.acceptor.send(open[0].key, long.clone()).unwrap();
    world.acceptor.send(open[1].key, long).unwrap();
    world.acceptor.send(open[2].key, Bytes::from_static(b"short")).unwrap();
    let order: Vec<_> = world
        .sent()
        .iter()
        .map(|frame| frame.stream_id.as_str().to_owned())
        .collect();
    assert_eq!(order.join(""), "abcabababab");
    assert!(!world.acceptor.wants_transmit());
}

#[test]
fn records_are_as_long_as_the_limit_lets_them_be() {
    let mut world = World::new();
    let mut open = world.open("s");
    let long = Bytes::from(vec![b'x'; 300_000]);
    for (limit, expected) in [
        (10_000, 10_000),
        (1, MIN_PIECE_LIMIT),
        (usize::MAX, MAX_RECORD_PLAINTEXT),
    ] {
        world.acceptor.limit_records(limit);
        world.acceptor.send(open.key, long.clone()).unwrap();
        let frames = world.sent();
        assert_eq!(frames.len(), (long.len() + 4).div_ceil(expected));
        for frame in frames {
            open.harness.handle_frame(world.now, frame);
        }
        assert_eq!(events(&mut open.harness), [stream::Event::Message(long.clone())]);
    }
}

#[test]
fn short_messages_beside_long_ones_are_told() {
    let mut world = World::new();
    let open = ["a", "b"].map(|stream| world.open(stream));
    let long = Bytes::from(vec![b'x'; 300_000]);
    world.now += Duration::from_secs(10);
    world.acceptor.handle_timeout(world.now);
    world.acceptor.send(open[0].key, long.clone()).unwrap();
    world.acceptor.send(open[1].key, long).unwrap();
    world.sent();
    // The rests of both are short, too, but a handshake is long ago.
    assert!(!world.acceptor.is_shared());
    world.acceptor.send(open[0].key, Bytes::from_static(b"short")).unwrap();
    world.sent();
    assert!(world.acceptor.is_shared());
}

#[test]
fn closing_sends_what_is_queued_and_aborting_does_not() {
    let mut world = World::new();
    for abort in [false, true] {
        let mut open = world.open("s");
        let key = open.key;
        world.acceptor.send(key, Bytes::from_static(b"last words")).unwrap();
        if abort {
            world.acceptor.abort(key, reason::PROCESSOR_ENDED);
        } else {
            world.acceptor.close(key, reason::PROCESSOR_ENDED);
            assert_eq!(
                world.acceptor.send(key, Bytes::from_static(b"more")),
                Err(SendError::Closed)
            );
        }
        for frame in world.sent() {
            open.harness.handle_frame(world.now, frame);
        }
        world.expect_closed(key, Ended::Here);
        let reset = stream::Event::Reset {
            reason: reason::PROCESSOR_ENDED.to_owned(),
        };
        let words = stream::Event::Message(Bytes::from_static(b"last words"));
        let expected = if abort { vec![reset] } else { vec![words, reset] };
        assert_eq!(events(&mut open.harness), expected);
    }
}

#[test]
fn a_key_never_means_a_later_stream() {
    let mut world = World::new();
    let old = world.open("s");
    world.acceptor.abort(old.key, reason::PROCESSOR_ENDED);
    world.expect_closed(old.key, Ended::Here);
    world.sent();
    let mut new = world.open("s");
    world.acceptor.close(old.key, reason::PROCESSOR_ENDED);
    world.expect_nothing();
    world.expect_alive(&mut new);
}

#[test]
fn what_is_no_valid_frame_is_dropped_and_counted() {
    let mut world = World::new();
    let mut open = world.open("s");
    let valid = Frame::new(stream_id("s"), Body::Heartbeat).to_bytes();
    let wrong_version = [&[0x08, 0x02], &valid[2..]].concat();
    for message in [&b"\xff\xff"[..], b"", &wrong_version] {
        world
            .acceptor
            .handle_message(world.now, Bytes::copy_from_slice(message));
    }
    for body in [Body::Heartbeat, Body::Ack, Body::Resume { next_seq: 7 }] {
        world.frame("s", body.clone());
        world.frame("unknown", body);
    }
    world.expect_nothing();
    assert_eq!(world.acceptor.counters().invalid_frames, 3);
    world.expect_alive(&mut open);
}

#[test]
fn waiting_refusals_are_bounded() {
    let mut world = World::new();
    for _ in 0..MAX_WAITING_REFUSALS + 10 {
        world.data("s");
    }
    assert_eq!(world.acceptor.counters().dropped_refusals, 10);
    assert_eq!(world.sent().len(), MAX_WAITING_REFUSALS);
}

#[test]
fn a_full_queue_takes_nothing_more_until_some_is_sent() {
    let mut world = World::new();
    let open = world.open("s");
    let message = Bytes::from(vec![b'x'; 700 * 1024]);
    world.acceptor.send(open.key, message.clone()).unwrap();
    assert!(world.acceptor.has_room(open.key));
    world.acceptor.send(open.key, message.clone()).unwrap();
    assert!(!world.acceptor.has_room(open.key));
    let refused = world.acceptor.send(open.key, message.clone()).unwrap_err();
    assert!(refused.is_retryable());
    world.sent();
    world.acceptor.send(open.key, message).unwrap();

    world.sent();
    for _ in 0..MAX_SEND_QUEUE_MESSAGES {
        world.acceptor.send(open.key, Bytes::from_static(b"x")).unwrap();
    }
    assert!(!world.acceptor.has_room(open.key));
    let refused = world.acceptor.send(open.key, Bytes::from_static(b"x")).unwrap_err();
    assert!(refused.is_retryable(), "messages are counted too");

    let huge = Bytes::from(vec![0; MAX_MESSAGE + 1]);
    world.sent();
    let refused = world.acceptor.send(open.key, huge).unwrap_err();
    assert!(matches!(refused, SendError::Message(MessageError::TooLong { .. })));
}
