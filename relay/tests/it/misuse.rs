//! Peers that break rules: each gets its answer, the others keep working.

use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt as _;
use rendezvous_wire::limits::MAX_WS_MESSAGE;
use rendezvous_wire::ticket::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::MaybeTlsStream;
use tokio_tungstenite::tungstenite::Message;

use crate::world::{Client, PATIENCE, World, answer, config, data, eventually, handshake, reset, resume};

/// Sends `messages` on a new harness connection beside a working one; gives the close code.
async fn misbehave(world: &World, executor: &mut Client, messages: Vec<Message>) -> u16 {
    let mut bad = world.harness("bad").await;
    for message in messages {
        // The relay may have closed already.
        if bad.socket.send(message).await.is_err() {
            break;
        }
    }
    let _ = executor;
    bad.closed().await.0
}

fn binary(frame: Bytes) -> Message {
    Message::Binary(frame)
}

/// A stream's beginning, and a frame with this body.
fn opened_then(body: &[u8]) -> Vec<Message> {
    let frame = [&[0x08, 1, 0x12, 1, b'y'][..], body].concat();
    vec![binary(resume("y")), binary(frame.into())]
}

#[tokio::test]
async fn harnesses_that_break_a_rule_are_closed_and_nobody_else_is() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut good = world.open_stream(&mut executor, "good", "good").await;
    let cases: Vec<(u16, Vec<Message>)> = vec![
        (1003, vec![Message::text("{}")]),
        (1002, vec![binary(Bytes::from_static(b"\xff\xff\xff"))]),
        (1002, vec![binary(Bytes::new())]),
        // Version 2; no version; no stream id; blank stream id; stream id of 129 bytes.
        (
            1002,
            vec![binary(Bytes::from_static(&[0x08, 2, 0x12, 1, b'x', 0x3a, 0]))],
        ),
        (1002, vec![binary(Bytes::from_static(&[0x12, 1, b'x', 0x3a, 0]))]),
        (1002, vec![binary(Bytes::from_static(&[0x08, 1, 0x3a, 0]))]),
        (
            1002,
            vec![binary(Bytes::from_static(&[0x08, 1, 0x12, 1, b' ', 0x3a, 0]))],
        ),
        (
            1002,
            vec![binary(
                [&[0x08, 1, 0x12, 0x81, 1][..], &[b'x'; 129], &[0x3a, 0]]
                    .concat()
                    .into(),
            )],
        ),
        // An empty handshake; a blank reset; an empty record; a record in segments.
        (
            1002,
            vec![binary(Bytes::from_static(&[0x08, 1, 0x12, 1, b'x', 0x52, 0]))],
        ),
        (1002, opened_then(&[0x42, 0])),
        (1002, opened_then(&[0x2a, 2, 0x18, 1])),
        (1002, opened_then(&[0x2a, 5, 0x18, 2, 0x22, 1, b'p'])),
        // Not the beginning of a stream.
        (1008, vec![binary(data("bad", 0, 10))]),
        (1008, vec![binary(reset("bad"))]),
        // No body.
        (1008, vec![binary(Bytes::from_static(&[0x08, 1, 0x12, 1, b'x']))]),
        // Somebody else's stream.
        (1008, vec![binary(resume("good"))]),
        (1008, vec![binary(handshake("good"))]),
        // A second stream; data too early; a second handshake.
        (1008, vec![binary(resume("one")), binary(resume("two"))]),
        (1008, vec![binary(handshake("early")), binary(data("early", 0, 10))]),
        (1008, vec![binary(handshake("twice")), binary(handshake("twice"))]),
        (1009, vec![binary(vec![0; MAX_WS_MESSAGE + 1].into())]),
    ];
    for (index, (code, messages)) in cases.into_iter().enumerate() {
        assert_eq!(misbehave(&world, &mut executor, messages).await, code, "case {index}");
    }
    // The executor saw only beginnings and resets; never the data or a second handshake.
    executor.send(data("good", 1, 10)).await;
    assert_eq!(good.frame().await, data("good", 1, 10));
    let marker = data("good", 2, 10);
    good.send(marker.clone()).await;
    let mut handshakes = 0;
    loop {
        let frame = executor.frame().await;
        if frame == marker {
            break;
        }
        assert!(
            !frame.windows(4).any(|part| part == b"\x12\x04good"),
            "nobody else speaks on a stream"
        );
        handshakes += u32::from(frame == handshake("early") || frame == handshake("twice"));
        assert_ne!(frame, data("early", 0, 10));
    }
    assert_eq!(handshakes, 2);
    eventually(|| world.relay.connections() == (1, 1)).await;
}

#[tokio::test]
async fn bytes_that_are_no_websocket() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut good = world.open_stream(&mut executor, "good", "good").await;
    for bytes in [
        // Unmasked; reserved bits; unknown opcode; an endless length; a fragmented ping.
        &[0x82, 1, 0][..],
        &[0xf2, 0x80, 0, 0, 0, 0],
        &[0x83, 0x80, 0, 0, 0, 0],
        &[0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x09, 0x80, 0, 0, 0, 0],
    ] {
        let mut bad = world.harness("bad").await;
        let MaybeTlsStream::Plain(tcp) = bad.socket.get_mut() else {
            panic!()
        };
        tcp.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, tcp.read_to_end(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(answer[0], 0x88, "a close frame");
        let code = u16::from_be_bytes([answer[2], answer[3]]);
        assert!([1002, 1009].contains(&code), "{bytes:x?}: {code}");
    }
    good.echo(&mut executor, "good", 0).await;
}

#[tokio::test]
async fn an_executors_bad_frame_costs_only_itself() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harness = world.open_stream(&mut executor, "cred", "s").await;
    for bad in [Bytes::from_static(b"\xff\xff"), Bytes::new(), data("unknown", 0, 100)] {
        executor.send(bad).await;
    }
    executor.echo(&mut harness, "s", 1).await;
    executor.socket.send(Message::text("no")).await.unwrap();
    assert_eq!(executor.closed().await.0, 1003);
}

#[tokio::test]
async fn one_harness_that_fails_again_and_again_locks_out_itself_only() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut good = world.open_stream(&mut executor, "good", "good").await;
    let mut failures = 0;
    loop {
        let claims = world.claims(Role::Harness, "bad");
        let Ok(mut bad) = crate::world::open(&world.url(&claims)).await else {
            break;
        };
        let id = format!("bad-{failures}");
        bad.send(handshake(&id)).await;
        assert_eq!(executor.frame().await, handshake(&id));
        executor.send(reset(&id)).await;
        assert_eq!(bad.frame().await, reset(&id));
        failures += 1;
        assert!(failures < 8, "the executor would have stopped admitting");
    }
    assert_eq!(failures, 4);
    let (status, reason) = world.refusal(&world.claims(Role::Harness, "bad")).await;
    assert_eq!((status, reason.as_str()), (429, "too_many_failed_handshakes"));
    good.echo(&mut executor, "good", 0).await;
    let mut newcomer = world.open_stream(&mut executor, "new", "new").await;
    newcomer.echo(&mut executor, "new", 0).await;
}

#[tokio::test]
async fn handshakes_of_one_credential_wait_for_their_turn() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harnesses = Vec::new();
    for i in 0..5 {
        let mut harness = world.harness("cred").await;
        let id = format!("s{i}");
        harness.send(resume(&id)).await;
        assert_eq!(executor.frame().await, resume(&id));
        harness.send(handshake(&id)).await;
        if i < 4 {
            assert_eq!(executor.frame().await, handshake(&id));
        }
        harnesses.push(harness);
    }
    // The fifth is held until one of the first has its answer.
    executor.send(answer("s0")).await;
    assert_eq!(executor.frame().await, handshake("s4"));
}

#[tokio::test]
async fn a_handshake_whose_turn_does_not_come_is_closed() {
    let mut config = config();
    config.times.handshake_turn = Duration::from_millis(100);
    let world = World::with(config).await;
    let mut executor = world.executor().await;
    let mut harnesses = Vec::new();
    for i in 0..5 {
        let mut harness = world.harness("cred").await;
        harness.send(resume(&format!("s{i}"))).await;
        assert_eq!(executor.frame().await, resume(&format!("s{i}")));
        harness.send(handshake(&format!("s{i}"))).await;
        if i < 4 {
            assert_eq!(executor.frame().await, handshake(&format!("s{i}")));
        }
        harnesses.push(harness);
    }
    let held = harnesses.last_mut().unwrap().closed().await;
    assert_eq!(held, (1013, "too many handshakes under way".into()));
    assert_eq!(executor.reset("s4").await, "harness_disconnected");
}

#[tokio::test]
async fn the_129th_stream_is_refused_and_the_others_work() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut harnesses = Vec::new();
    for i in 0..128 {
        let key = ["one", "two"][i % 2];
        harnesses.push(world.open_stream(&mut executor, key, &format!("s{i}")).await);
    }
    let refused = world.refusal(&world.claims(Role::Harness, "other")).await;
    assert_eq!(refused, (503, "too_many_streams".into()));
    for (i, harness) in harnesses.iter_mut().enumerate() {
        harness.echo(&mut executor, &format!("s{i}"), 0).await;
    }
    drop(harnesses.pop());
    assert_eq!(executor.reset("s127").await, "harness_disconnected");
    let mut next = world.open_stream(&mut executor, "other", "next").await;
    next.echo(&mut executor, "next", 0).await;
}

#[tokio::test]
async fn one_key_leaves_places_for_others() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut open = Vec::new();
    for i in 0..64 {
        open.push(world.open_stream(&mut executor, "one", &format!("s{i}")).await);
    }
    let mut waiting = Vec::new();
    for i in 64..96 {
        let mut harness = world.harness("one").await;
        harness.send(resume(&format!("s{i}"))).await;
        harness.send(handshake(&format!("s{i}"))).await;
        waiting.push(harness);
    }
    let refused = world.refusal(&world.claims(Role::Harness, "one")).await;
    assert_eq!(refused, (429, "too_many_streams_of_key".into()));
    let mut other = world.harness("other").await;
    other.send(resume("next")).await;
    other.send(handshake("next")).await;
    // The executor hears of those who wait, and of one handshake only.
    loop {
        let frame = executor.frame().await;
        if frame == handshake("next") {
            break;
        }
        assert!(frame == resume("next") || (64..96).any(|i| frame == resume(&format!("s{i}"))));
    }
    executor.send(answer("next")).await;
    assert_eq!(other.frame().await, answer("next"));
    drop(waiting);
    drop(open.pop());
    eventually(|| world.relay.connections() == (1, 64)).await;
    let mut again = world.harness("one").await;
    again.send(resume("again")).await;
    again.send(handshake("again")).await;
    while executor.frame().await != handshake("again") {}
}

#[tokio::test]
async fn a_harness_that_never_reads_is_cut_and_holds_nobody_up_for_long() {
    let mut config = config();
    config.limits.harness_queue = 256 * 1024;
    config.times.stall = Duration::from_millis(200);
    config.times.close = Duration::from_millis(200);
    let world = World::with(config).await;
    let mut executor = world.executor().await;
    let mut good = world.open_stream(&mut executor, "good", "good").await;
    let mut bad = world.open_stream(&mut executor, "bad", "bad").await;
    // More than any socket buffer and the queue together.
    let (mut seq, start) = (0, tokio::time::Instant::now());
    let cut = loop {
        executor
            .socket
            .feed(Message::Binary(data("bad", seq, 60_000)))
            .await
            .unwrap();
        executor.send(data("good", seq, 10)).await;
        assert_eq!(good.frame().await, data("good", seq, 10));
        seq += 1;
        if world.relay.connections() == (1, 1) {
            break seq;
        }
        assert!(start.elapsed() < PATIENCE);
    };
    assert!(cut > 4, "the queue was used");
    assert_eq!(executor.reset("bad").await, "application_backpressure");
    good.echo(&mut executor, "good", 0).await;
    // What it got was in order and without a gap, up to the end of its connection.
    for expected in 0.. {
        match futures_util::StreamExt::next(&mut bad.socket).await {
            Some(Ok(Message::Binary(frame))) => assert!(frame == data("bad", expected, 60_000)),
            _ => break,
        }
    }
}

#[tokio::test]
async fn a_slow_harness_alone_is_waited_for() {
    let mut config = config();
    config.limits.harness_queue = 256 * 1024;
    config.times.stall = Duration::from_millis(50);
    let world = World::with(config).await;
    let mut executor = world.executor().await;
    let mut slow = world.open_stream(&mut executor, "slow", "s").await;
    let count = 400;
    let sending = tokio::spawn(async move {
        for seq in 0..count {
            executor.send(data("s", seq, 60_000)).await;
        }
        executor
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!sending.is_finished(), "the executor is held up");
    for seq in 0..count {
        assert!(
            slow.frame().await == data("s", seq, 60_000),
            "frame {seq} is in its place"
        );
    }
    let mut executor = sending.await.unwrap();
    slow.echo(&mut executor, "s", 0).await;
}

#[tokio::test]
async fn an_executor_that_reads_slowly_holds_up_its_harnesses_and_loses_nothing() {
    let mut config = config();
    config.limits.executor_stream_queue = 128 * 1024;
    let world = World::with(config).await;
    let mut executor = world.executor().await;
    let mut bulk = world.open_stream(&mut executor, "bulk", "bulk").await;
    let mut key = world.open_stream(&mut executor, "key", "key").await;
    let count = 600;
    let sending = tokio::spawn(async move {
        for seq in 0..count {
            bulk.send(data("bulk", seq, 60_000)).await;
        }
        bulk
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!sending.is_finished(), "the harness is held up");
    key.send(data("key", 0, 10)).await;
    let mut bulk_frames = 0;
    let mut before_key = None;
    while bulk_frames < count {
        let frame = executor.frame().await;
        if frame == data("key", 0, 10) {
            before_key = Some(bulk_frames);
        } else {
            assert!(
                frame == data("bulk", bulk_frames, 60_000),
                "frame {bulk_frames} is in its place"
            );
            bulk_frames += 1;
        }
    }
    // It passed what waited in the relay, though not what was in the sockets.
    assert!(before_key.is_some_and(|before| before < count - 50), "{before_key:?}");
    sending.await.unwrap();
}

/// Harnesses that come and go leave something to be told to the executor; what waits for one that does not read is bounded.
#[tokio::test]
async fn streams_that_wait_for_an_executor_are_bounded() {
    let mut config = config();
    config.limits.streams_per_executor = 2;
    let world = World::with(config).await;
    let mut executor = world.executor().await;
    let mut bulk = world.open_stream(&mut executor, "bulk", "bulk").await;
    let (mut seq, pause) = (0, Duration::from_millis(300));
    while let Ok(sent) = tokio::time::timeout(pause, bulk.socket.send(Message::Binary(data("bulk", seq, 60_000)))).await
    {
        sent.unwrap();
        seq += 1;
    }
    for i in 0..3 {
        let mut harness = world.harness("other").await;
        eventually(|| world.relay.connections() == (1, 2)).await;
        harness.send(resume(&format!("s{i}"))).await;
        drop(harness);
        eventually(|| world.relay.connections() == (1, 1)).await;
    }
    let mut harness = world.harness("other").await;
    harness.send(resume("s3")).await;
    assert_eq!(harness.closed().await, (1013, "executor does not keep up".into()));
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_cut_by_the_write_timeout() {
    let mut config = config();
    config.times.write = Duration::from_millis(300);
    let world = World::with(config).await;
    let mut stuck = world.executor().await;
    let mut harness = world.open_stream(&mut stuck, "cred", "s").await;
    // More than all socket buffers hold, so this only ends with the connection.
    let frame = data("s", 0, 60_000);
    let sending = async { while harness.socket.send(Message::Binary(frame.clone())).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, sending).await.unwrap();
    eventually(|| world.relay.connections().0 == 0).await;
    drop(stuck);
}
