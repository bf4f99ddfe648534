//! Links over a pipe in memory, in virtual time.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_transport::link::{CLOSE_TIMEOUT, Dialect, Event, Link, LinkError, MAX_BURST, READ_AHEAD, WRITE_LIMIT};
use rendezvous_wire::limits::MAX_WS_MESSAGE;
use tokio::io::DuplexStream;
use tokio::time::{Instant, sleep};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use crate::world::within;

type Peer = WebSocketStream<DuplexStream>;

/// A link and its peer; the pipe between them holds `capacity` bytes each way.
async fn pair(capacity: usize) -> (Link<DuplexStream>, Peer) {
    let (ours, theirs) = tokio::io::duplex(capacity);
    let peer = WebSocketStream::from_raw_socket(theirs, Role::Server, None).await;
    (Link::client(ours).await, peer)
}

fn binary(len: usize) -> Message {
    Message::Binary(vec![7; len].into())
}

async fn receive(peer: &mut Peer) -> Message {
    peer.next().await.expect("message").expect("message")
}

fn seconds(since: Instant) -> u64 {
    since.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn many_messages_go_out_with_one_write() {
    let (mut link, mut peer) = pair(1 << 20).await;
    for message in ["one", "two", "three"] {
        assert!(link.has_room());
        link.feed(message.into()).expect("feed");
    }
    link.flush().await.expect("flush");
    for message in ["one", "two", "three"] {
        assert_eq!(receive(&mut peer).await, Message::Binary(message.into()));
    }
    peer.send(Message::Binary("back".into())).await.expect("send");
    assert_eq!(link.recv().await.expect("message"), "back");
}

#[tokio::test(start_paused = true)]
async fn receiving_writes_what_was_fed() {
    let (mut link, mut peer) = pair(1 << 20).await;
    link.feed("ask".into()).expect("feed");
    let (answer, ()) = tokio::join!(link.recv(), async {
        assert_eq!(receive(&mut peer).await, Message::Binary("ask".into()));
        peer.send(Message::Binary("answer".into())).await.expect("send");
    });
    assert_eq!(answer.expect("message"), "answer");
}

#[tokio::test(start_paused = true)]
async fn answered_pings_keep_the_link() {
    let (mut link, mut peer) = pair(1024).await;
    let start = Instant::now();
    let peer = tokio::spawn(async move {
        let mut pings = Vec::new();
        while let Some(Ok(message)) = peer.next().await {
            match message {
                Message::Ping(payload) if payload.is_empty() => pings.push(seconds(start)),
                other => panic!("{other:?}"),
            }
        }
        pings
    });
    tokio::select! {
        error = link.recv() => panic!("{error:?}"),
        () = sleep(Duration::from_secs(200)) => {}
    }
    drop(link);
    assert_eq!(peer.await.expect("peer"), [30, 60, 90, 120, 150, 180]);
}

#[tokio::test(start_paused = true)]
async fn the_peers_pings_are_answered() {
    let (mut link, mut peer) = pair(1024).await;
    peer.send(Message::Ping("x".into())).await.expect("send");
    tokio::select! {
        error = link.recv() => panic!("{error:?}"),
        pong = receive(&mut peer) => assert_eq!(pong, Message::Pong("x".into())),
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_open_peer_is_given_up() {
    let (mut link, _peer) = pair(1024).await;
    let start = Instant::now();
    let error = link.recv().await.expect_err("silence");
    assert!(matches!(error, LinkError::PongTimeout), "{error:?}");
    assert_eq!(seconds(start), 90);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_direct_peer_is_given_up_only_where_answers_are_expected() {
    for expected in [true, false] {
        let (near, _far) = tokio::io::duplex(1024);
        let link = Link::server(near, Bytes::new(), Dialect::Direct).await;
        let mut link = if expected { link.expecting_pongs() } else { link };
        let start = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(900), link.recv()).await;
        if expected {
            assert!(matches!(ended, Ok(Err(LinkError::PongTimeout))), "{ended:?}");
            assert_eq!(seconds(start), 90);
        } else {
            assert!(ended.is_err(), "{ended:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_traffic_is_no_sign_of_life() {
    let (mut link, mut peer) = pair(1024).await;
    let start = Instant::now();
    tokio::spawn(async move {
        loop {
            // Sending without reading answers no ping.
            let _ = peer.send(binary(10)).await;
            sleep(Duration::from_millis(100)).await;
        }
    });
    let error = loop {
        if let Err(error) = link.recv().await {
            break error;
        }
    };
    assert!(matches!(error, LinkError::PongTimeout), "{error:?}");
    assert_eq!(seconds(start), 90);
}

#[tokio::test(start_paused = true)]
async fn a_pong_behind_other_messages_is_found() {
    for (before, found) in [(MAX_BURST - 1, true), (MAX_BURST + 1, false)] {
        let (mut link, mut peer) = pair(1 << 20).await;
        tokio::select! {
            error = link.recv() => panic!("{error:?}"),
            () = sleep(Duration::from_secs(31)) => {}
        }
        // The peer answers at once, but the owner does not look before the deadline is over.
        for _ in 0..before {
            peer.feed(binary(10)).await.expect("feed");
        }
        peer.feed(Message::Pong(Bytes::new())).await.expect("feed");
        peer.send(binary(11)).await.expect("send");
        sleep(Duration::from_secs(100)).await;
        let result = loop {
            match link.recv().await {
                Ok(message) if message.len() == 11 => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        match result {
            Ok(()) => assert!(found),
            Err(LinkError::PongTimeout) => assert!(!found),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_is_given_up() {
    let (mut link, _peer) = pair(1024).await;
    let start = Instant::now();
    link.feed(vec![0; 100_000].into()).expect("feed");
    let error = link.recv().await.expect_err("blocked");
    assert!(matches!(error, LinkError::WriteTimeout), "{error:?}");
    assert_eq!(seconds(start), 60);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_write_does_not_stop_reading() {
    let (mut link, mut peer) = pair(1024).await;
    link.feed(vec![0; 100_000].into()).expect("feed");
    let sender = tokio::spawn(async move {
        // More than the pipe holds, before anything is read.
        for _ in 0..100 {
            peer.send(binary(1000)).await.expect("send");
        }
        peer
    });
    for _ in 0..100 {
        assert_eq!(within(link.recv()).await.expect("message").len(), 1000);
    }
    let mut peer = sender.await.expect("peer");
    let (flushed, message) = tokio::join!(link.flush(), receive(&mut peer));
    flushed.expect("flush");
    assert_eq!(message.len(), 100_000);
}

#[tokio::test(start_paused = true)]
async fn two_sides_that_write_first_do_not_block_each_other() {
    let (mut link, mut peer) = pair(1024).await;
    link.feed(vec![0; 100_000].into()).expect("feed");
    let peer = tokio::spawn(async move {
        for _ in 0..100 {
            peer.send(binary(1000)).await.expect("send");
        }
        receive(&mut peer).await
    });
    within(link.flush()).await.expect("flush");
    assert_eq!(peer.await.expect("peer").len(), 100_000);
    for _ in 0..100 {
        assert_eq!(within(link.recv()).await.expect("message").len(), 1000);
    }
}

#[tokio::test(start_paused = true)]
async fn room_comes_back_with_an_event() {
    let (mut link, mut peer) = pair(1024).await;
    let mut fed = 0;
    while link.has_room() {
        link.feed(vec![0; 60_000].into()).expect("feed");
        fed += 1;
    }
    assert_eq!(fed, WRITE_LIMIT.div_ceil(60_000));
    let (event, ()) = tokio::join!(link.next(), async {
        for _ in 0..fed {
            assert_eq!(receive(&mut peer).await.len(), 60_000);
        }
    });
    assert_eq!(event.expect("event"), Event::Writable);
    assert!(link.has_room());
    // Nobody asked again: nothing to tell.
    tokio::select! {
        event = link.next() => panic!("{event:?}"),
        () = sleep(Duration::from_secs(1)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_peer_has_not_read_can_be_passed() {
    let (link, mut peer) = pair(1 << 24).await;
    let mut link = link.keeping_short();
    for _ in 0..3 {
        assert!(link.has_room());
        link.feed(vec![0; 60_000].into()).expect("feed");
    }
    assert!(!link.has_room());
    // All is written, and the peer has not read it.
    tokio::select! {
        event = link.next() => panic!("{event:?}"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    let (event, ()) = tokio::join!(link.next(), async {
        // In front of the first message, and behind each.
        assert!(matches!(receive(&mut peer).await, Message::Ping(_)));
        for _ in 0..3 {
            assert_eq!(receive(&mut peer).await.len(), 60_000);
            assert!(matches!(receive(&mut peer).await, Message::Ping(_)));
        }
        peer.flush().await.expect("pongs");
    });
    assert_eq!(event.expect("event"), Event::Writable);
    assert!(link.has_room());
}

#[tokio::test(start_paused = true)]
async fn feeding_without_asking_ends_somewhere() {
    let (mut link, _peer) = pair(1024).await;
    let mut fed = 0;
    while link.feed(vec![0; 60_000].into()).is_ok() {
        fed += 60_000;
        assert!(fed < 2 * 1024 * 1024, "memory grows without bound");
    }
}

#[tokio::test(start_paused = true)]
async fn idling_keeps_alive_and_loses_nothing() {
    let (mut link, mut peer) = pair(4096).await;
    let peer = tokio::spawn(async move {
        for index in 0..10_u8 {
            peer.send(Message::Binary(vec![index].into())).await.expect("send");
        }
        let mut pings = 0;
        while let Some(Ok(Message::Ping(_))) = peer.next().await {
            pings += 1;
        }
        pings
    });
    tokio::select! {
        end = link.idle() => panic!("{end:?}"),
        () = sleep(Duration::from_secs(100)) => {}
    }
    for index in 0..10_u8 {
        assert_eq!(link.recv().await.expect("message"), vec![index]);
    }
    drop(link);
    assert_eq!(peer.await.expect("peer"), 3);
}

#[tokio::test(start_paused = true)]
async fn what_came_before_the_end_is_delivered_before_it() {
    let (mut link, mut peer) = pair(4096).await;
    let peer = tokio::spawn(async move {
        for index in 0..3_u8 {
            peer.send(Message::Binary(vec![index].into())).await.expect("send");
        }
        peer.close(None).await.expect("close");
    });
    tokio::select! {
        end = link.idle() => panic!("{end:?}"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    peer.await.expect("peer");
    for index in 0..3_u8 {
        assert_eq!(link.recv().await.expect("message"), vec![index]);
    }
    let error = link.recv().await.expect_err("closed");
    assert!(matches!(error, LinkError::Closed { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn idling_leaves_most_in_the_socket() {
    let (mut link, mut peer) = pair(4096).await;
    let start = Instant::now();
    let sender = tokio::spawn(async move {
        let mut sent = 0;
        while peer.send(binary(10_000)).await.is_ok() {
            sent += 10_000;
        }
        sent
    });
    let error = link.idle().await.expect_err("no pong can be read");
    assert!(matches!(error, LinkError::Backpressure), "{error:?}");
    assert_eq!(seconds(start), 90);
    drop(link);
    let sent = sender.await.expect("peer");
    assert!((READ_AHEAD..READ_AHEAD + MAX_WS_MESSAGE).contains(&sent), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn closing_writes_the_rest_and_says_why() {
    let (mut link, mut peer) = pair(1 << 20).await;
    link.feed("last".into()).expect("feed");
    let ((), ()) = tokio::join!(link.close(1001, "going\naway"), async {
        assert_eq!(receive(&mut peer).await, Message::Binary("last".into()));
        let Message::Close(Some(frame)) = receive(&mut peer).await else {
            panic!("no close frame");
        };
        assert_eq!((u16::from(frame.code), frame.reason.as_str()), (1001, "going away"));
        assert!(peer.next().await.is_none());
    });
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_the_dead() {
    let (mut link, _peer) = pair(16).await;
    link.feed(vec![0; 1000].into()).expect("feed");
    let start = Instant::now();
    link.close(1000, "").await;
    assert_eq!(start.elapsed().as_secs(), CLOSE_TIMEOUT.as_secs());
}

#[tokio::test(start_paused = true)]
async fn what_the_peer_must_not_send_ends_the_link() {
    let close = |code: u16| {
        Message::Close(Some(CloseFrame {
            code: code.into(),
            reason: "replaced".into(),
        }))
    };
    for (message, kind, close_code) in [
        (Message::Text("{}".into()), "protocol_error", 1003),
        (binary(MAX_WS_MESSAGE + 1), "protocol_error", 1009),
        (close(1001), "peer_close", 1000),
        (Message::Close(None), "peer_close", 1000),
    ] {
        let (mut link, mut peer) = pair(1 << 20).await;
        peer.send(message.clone()).await.expect("send");
        let error = link.recv().await.expect_err(kind);
        assert_eq!((error.kind(), error.close_code()), (kind, close_code), "{error:?}");
        if message == close(1001) {
            assert_eq!(error.to_string(), "closed by the peer with code 1001: replaced");
        }
        assert!(link.recv().await.is_err(), "the end stays the end");
    }
    let (link, mut peer) = pair(1 << 20).await;
    let mut link = link.dropping_texts();
    for message in [Message::Text("{}".into()), Message::Text("[]".into()), binary(1)] {
        peer.send(message).await.expect("send");
    }
    assert_eq!(link.recv().await.expect("what comes behind the texts").len(), 1);
    assert_eq!(link.dropped_texts(), 2);
    peer.send(binary(MAX_WS_MESSAGE)).await.expect("send");
    assert_eq!(link.recv().await.expect("the largest").len(), MAX_WS_MESSAGE);
}
