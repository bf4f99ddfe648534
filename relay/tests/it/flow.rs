//! Frames through the relay, and what happens when somebody leaves.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_wire::control::FromRelay;
use rendezvous_wire::frame::{Body, Frame, Trace};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::limits::MAX_WS_MESSAGE;
use rendezvous_wire::ticket::Role;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as WsFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::world::{PATIENCE, World, config, data, eventually, handshake, reset, resume};

#[tokio::test]
async fn bytes_are_forwarded_as_they_came() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harness = world.open_stream(&mut executor, "cred", "s").await;
    let traced = Frame {
        trace: Some(Trace {
            traceparent: Some("00-1-2-01".into()),
            tracestate: None,
        }),
        ack: 7,
        ack_bits: 9,
        ..Frame::new(StreamId::new("s").unwrap(), Body::Ack)
    }
    .to_bytes();
    // A field of our own, the fields in another order, and a varint that is longer than it need be.
    let unusual = Bytes::from([&[0x12, 1, b's', 0x08, 0x81, 0x00][..], &[0xc2, 0x3e, 1, 7], &[0x32, 0]].concat());
    let bodiless = Bytes::from_static(&[0x08, 1, 0x12, 1, b's']);
    for frame in [
        traced,
        unusual,
        bodiless,
        data("s", 0, 1),
        data("s", 1, 61_456),
        data("s", 2, 200_000),
    ] {
        harness.send(frame.clone()).await;
        assert_eq!(executor.frame().await, frame);
        executor.send(frame.clone()).await;
        assert_eq!(harness.frame().await, frame);
    }
}

#[tokio::test]
async fn the_largest_message_passes() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harness = world.open_stream(&mut executor, "cred", "s").await;
    let overhead = data("s", 0, 200_000).len() - 200_000;
    let largest = data("s", 0, MAX_WS_MESSAGE - overhead);
    assert_eq!(largest.len(), MAX_WS_MESSAGE);
    for _ in 0..20 {
        harness.send(largest.clone()).await;
        assert_eq!(executor.frame().await, largest);
    }
}

#[tokio::test]
async fn many_frames_keep_their_order_both_ways() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harness = world.open_stream(&mut executor, "cred", "s").await;
    let sizes = [1, 200, 1_200, 61_456, 4_000, 130_000];
    let frames: Vec<_> = (0..600)
        .map(|i| data("s", i, sizes[i as usize % sizes.len()]))
        .collect();
    for (from, to) in [(&mut harness, &mut executor)] {
        let sending = async {
            for frame in &frames {
                from.socket.feed(Message::Binary(frame.clone())).await.unwrap();
            }
            from.socket.flush().await.unwrap();
        };
        let receiving = async {
            for frame in &frames {
                assert_eq!(to.frame().await, *frame);
            }
        };
        tokio::join!(sending, receiving);
    }
    let sending = async {
        for frame in &frames {
            executor.socket.feed(Message::Binary(frame.clone())).await.unwrap();
        }
        executor.socket.flush().await.unwrap();
    };
    let receiving = async {
        for frame in &frames {
            assert_eq!(harness.frame().await, *frame);
        }
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn fragments_and_pings_between_them() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harness = world.open_stream(&mut executor, "cred", "s").await;
    let frame = data("s", 0, 5000);
    let fragment = |range: std::ops::Range<usize>, opcode, fin| {
        Message::Frame(WsFrame::message(frame.slice(range), OpCode::Data(opcode), fin))
    };
    for message in [
        fragment(0..10, Data::Binary, false),
        Message::Ping(Bytes::from_static(b"are you there")),
        fragment(10..10, Data::Continue, false),
        fragment(10..frame.len(), Data::Continue, true),
    ] {
        harness.socket.send(message).await.unwrap();
    }
    assert_eq!(executor.frame().await, frame);
    let pong = harness.socket.next().await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong(Bytes::from_static(b"are you there")));
}

#[tokio::test]
async fn an_executor_serves_many_streams_apart() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harnesses = Vec::new();
    for i in 0..20 {
        harnesses.push(world.open_stream(&mut executor, "cred", &format!("s{i}")).await);
    }
    for round in 0..5 {
        for i in 0..harnesses.len() {
            executor.send(data(&format!("s{i}"), round, 1000)).await;
        }
    }
    for (i, harness) in harnesses.iter_mut().enumerate() {
        for round in 0..5 {
            assert_eq!(harness.frame().await, data(&format!("s{i}"), round, 1000));
        }
        harness.echo(&mut executor, &format!("s{i}"), 9).await;
    }
}

#[tokio::test]
async fn a_harness_that_leaves_is_reset_at_the_executor_behind_its_last_frames() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    for abrupt in [true, false] {
        let id = format!("s-{abrupt}");
        let mut harness = world.open_stream(&mut executor, "cred", &id).await;
        let last = data(&id, 0, 60_000);
        harness.send(last.clone()).await;
        if !abrupt {
            harness.socket.close(None).await.unwrap();
        }
        drop(harness);
        assert_eq!(executor.frame().await, last);
        assert_eq!(executor.reset(&id).await, "harness_disconnected");
    }
    // Frames that cross the end of a stream disturb nobody.
    executor.send(data("s-true", 1, 10)).await;
    let mut next = world.open_stream(&mut executor, "cred", "next").await;
    next.echo(&mut executor, "next", 0).await;
}

#[tokio::test]
async fn an_executor_that_leaves_closes_its_harnesses() {
    let mut world = World::new().await;
    let mut executor = world.executor().await;
    let FromRelay::ExecutorUp(up) = world.told().await else {
        panic!()
    };
    let mut harness = world.open_stream(&mut executor, "cred", "s").await;
    let mut silent = world.harness("cred").await;
    let last = data("s", 0, 60_000);
    executor.send(last.clone()).await;
    drop(executor);
    assert_eq!(harness.frame().await, last);
    assert_eq!(harness.closed().await, (1013, "executor_disconnected".into()));
    assert_eq!(silent.closed().await.0, 1013);
    assert_eq!(world.told().await, FromRelay::ExecutorDown(up));
    eventually(|| world.relay.connections() == (0, 0)).await;
}

#[tokio::test]
async fn a_newer_executor_connection_replaces_the_older() {
    let world = World::new().await;
    let mut old = world.executor().await;
    let mut harness = world.open_stream(&mut old, "cred", "s").await;
    let mut new = world.executor().await;
    assert_eq!(old.closed().await, (1001, "replaced by a newer connection".into()));
    assert_eq!(harness.closed().await.0, 1013);
    let mut harness = world.open_stream(&mut new, "cred", "s2").await;
    harness.echo(&mut new, "s2", 0).await;
    eventually(|| world.relay.connections() == (1, 1)).await;
}

#[tokio::test]
async fn a_reset_by_the_executor_ends_the_stream_quietly() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harness = world.open_stream(&mut executor, "cred", "s").await;
    executor.send(reset("s")).await;
    assert_eq!(harness.frame().await, reset("s"));
    // What crossed the reset goes nowhere, and the executor is not told again.
    harness.send(data("s", 0, 10)).await;
    drop(harness);
    let mut next = world.open_stream(&mut executor, "cred", "next").await;
    next.echo(&mut executor, "next", 0).await;
}

#[tokio::test]
async fn the_same_harness_takes_its_stream_up_on_a_new_connection() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let harness = world.open_stream(&mut executor, "cred", "s").await;
    drop(harness);
    assert_eq!(executor.reset("s").await, "harness_disconnected");
    let mut again = world.harness("cred").await;
    again.send(resume("s")).await;
    assert_eq!(executor.frame().await, resume("s"));
    // Open already: no handshake comes before the data.
    again.echo(&mut executor, "s", 5).await;
    executor.echo(&mut again, "s", 6).await;
    // Another key may not have it.
    let mut thief = world.harness("thief").await;
    thief.send(resume("s")).await;
    assert_eq!(thief.closed().await.0, 1008);
    again.echo(&mut executor, "s", 7).await;
}

#[tokio::test]
async fn draining_refuses_newcomers_and_says_goodbye() {
    let mut world = World::new().await;
    let mut executor = world.executor().await;
    assert!(matches!(world.told().await, FromRelay::ExecutorUp(_)));
    let mut harness = world.open_stream(&mut executor, "cred", "s").await;
    let relay = world.relay.clone();
    let drain = tokio::spawn(async move { relay.drain().await });
    eventually(|| world.relay.is_draining()).await;
    let refused = world.refusal(&world.claims(Role::Harness, "cred")).await;
    assert_eq!(refused, (503, "pod_draining".into()));
    assert!(!world.relay.is_ready());
    let (executor, harness) = tokio::join!(executor.closed(), harness.closed());
    assert_eq!(executor, (1001, "relay_draining".into()));
    assert!([1001, 1013].contains(&harness.0));
    drain.await.unwrap();
    assert_eq!(world.relay.connections(), (0, 0));
    loop {
        match world.from_relay.recv().await.unwrap() {
            FromRelay::Renew { accepting: false, .. } => break,
            FromRelay::Renew { .. } | FromRelay::ExecutorDown(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn silent_peers_are_pinged_and_cut() {
    let mut config = config();
    // A busy machine may keep an answer back for a while.
    config.times.ping = Duration::from_millis(200);
    config.times.pong = Duration::from_secs(3);
    let world = World::with(config).await;
    // A client that is never polled answers nothing.
    let _silent = world.executor().await;
    assert_eq!(world.relay.connections(), (1, 0));
    eventually(|| world.relay.connections() == (0, 0)).await;
    let mut answering = world.executor().await;
    let start = Instant::now();
    let mut pings = 0;
    // Longer than a silent peer lives.
    while pings < 3 || start.elapsed() < Duration::from_secs(4) {
        let message = timeout(PATIENCE, answering.socket.next()).await.unwrap();
        pings += u32::from(matches!(message.unwrap().unwrap(), Message::Ping(_)));
    }
    assert_eq!(world.relay.connections(), (1, 0));
}

#[tokio::test]
async fn a_harness_opens_its_stream_in_time() {
    let mut config = config();
    config.times.opening = Duration::from_secs(2);
    let world = World::with(config).await;
    let mut executor = world.executor().await;
    let mut slow = world.harness("cred").await;
    assert_eq!(slow.closed().await, (1013, "stream was not opened in time".into()));
    let mut unanswered = world.harness("cred").await;
    unanswered.send(handshake("s")).await;
    assert_eq!(executor.frame().await, handshake("s"));
    assert_eq!(unanswered.closed().await.0, 1013);
    assert_eq!(executor.reset("s").await, "harness_disconnected");
    let mut open = world.open_stream(&mut executor, "cred", "s2").await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    open.echo(&mut executor, "s2", 0).await;
}
