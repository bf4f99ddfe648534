//! Direct transports over pipes in memory, in virtual time.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_channel::budget::Budget;
use rendezvous_transport::direct;
use rendezvous_transport::direct::MAX_EXCESS;
use rendezvous_transport::link::{Dialect, Link, LinkError, MAX_DIRECT_FRAME};
use rendezvous_transport::stream::{Backlog, MessageStream, RECEIVE_BUFFER, StreamEnd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::world::within;

/// A server's link and its client, which has the limits of stock clients.
async fn pair(capacity: usize) -> (Link<DuplexStream>, WebSocketStream<DuplexStream>) {
    let (ours, theirs) = duplex(capacity);
    let client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
    (Link::server(ours, Bytes::new(), Dialect::Direct).await, client)
}

#[tokio::test(start_paused = true)]
async fn a_long_message_goes_out_in_frames_that_stock_clients_take() {
    let (link, mut client) = pair(1 << 20).await;
    let stream = direct::over_link(link);
    // Characters of three bytes are cut by the frames.
    let text = "\u{20ac}".repeat(2 * MAX_DIRECT_FRAME / 3 + 1000);
    let (sent, received) = tokio::join!(stream.send(text.clone().into()), within(client.next()));
    sent.expect("sent");
    assert_eq!(received.expect("a message").expect("a message"), Message::text(text));
    stream.send(Bytes::from_static(b"\xff")).await.expect("sent");
    let received = within(client.next()).await.expect("a message").expect("a message");
    assert_eq!(received, Message::Binary(Bytes::from_static(b"\xff")));
}

#[tokio::test(start_paused = true)]
async fn texts_and_binary_messages_are_taken() {
    let (link, mut client) = pair(1 << 20).await;
    let mut stream = direct::over_link(link);
    client.send(Message::text("one")).await.expect("send");
    client.send(Message::Binary("two".into())).await.expect("send");
    assert_eq!(stream.recv().await.expect("message").expect("message"), "one");
    assert_eq!(stream.recv().await.expect("message").expect("message"), "two");
    client.close(None).await.expect("close");
    let end = stream.recv().await.expect("the end").expect_err("the end");
    assert!(matches!(end, StreamEnd::Disconnected(_)), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_sends_what_is_on_its_way_and_a_close_frame() {
    let (link, mut client) = pair(64).await;
    let stream = direct::over_link(link);
    for n in 0..100 {
        stream.send(format!("message {n}").into()).await.expect("sent");
    }
    let closing = tokio::spawn(stream.close());
    for n in 0..100 {
        let message = within(client.next()).await.expect("a message").expect("a message");
        assert_eq!(message, Message::text(format!("message {n}")));
    }
    let message = within(client.next()).await.expect("a message").expect("a message");
    assert!(message.is_close(), "{message:?}");
    within(closing).await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_neither_reads_nor_answers_is_pinged_and_kept() {
    let (link, mut client) = pair(4096).await;
    let stream = direct::over_link(link);
    let (sender, mut receiver) = stream.split();
    let filling = tokio::spawn(async move { while sender.send(vec![b'x'; 4096].into()).await.is_ok() {} });
    sleep(Duration::from_secs(600)).await;
    assert!(!filling.is_finished());
    client.send(Message::text("still here")).await.expect("send");
    assert_eq!(
        within(receiver.recv()).await.expect("message").expect("message"),
        "still here"
    );

    let (link, mut client) = pair(4096).await;
    let _idle = direct::over_link(link);
    for _ in 0..5 {
        let ping = timeout(Duration::from_secs(31), client.next())
            .await
            .expect("a ping in time");
        assert!(matches!(ping, Some(Ok(Message::Ping(payload))) if payload.is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_takes_nothing_holds_up_its_peer() {
    let (link, mut client) = pair(4096).await;
    let mut stream = direct::over_link(link);
    let message = Message::Binary(vec![0; 1 << 20].into());
    let mut sent = 0;
    while timeout(Duration::from_secs(100), client.send(message.clone()))
        .await
        .is_ok()
    {
        sent += 1 << 20;
        assert!(sent < 4 * RECEIVE_BUFFER, "nothing holds it up");
    }
    assert!(sent >= RECEIVE_BUFFER);
    stream.recv().await.expect("message").expect("message");
}

/// A client of a server with these bounds.
async fn served(budget: &Budget, backlog: &Backlog) -> (MessageStream, WebSocketStream<DuplexStream>) {
    let (ours, theirs) = duplex(4096);
    let client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
    (direct::serve(ours, Bytes::new(), budget, backlog).await, client)
}

#[tokio::test(start_paused = true)]
async fn unfinished_messages_of_all_clients_share_a_budget() {
    let budget = Budget::new(3 << 20);
    let part = |size: usize| Message::Frame(Frame::message(vec![b'x'; size], OpCode::Data(Data::Binary), false));
    let rest = |size: usize| Message::Frame(Frame::message(vec![b'x'; size], OpCode::Data(Data::Continue), true));
    let (mut first, mut one) = served(&budget, &Backlog::unlimited()).await;
    let (mut second, mut two) = served(&budget, &Backlog::unlimited()).await;
    within(one.send(part(2 << 20))).await.expect("sent");
    while budget.used() < 3 << 19 {
        tokio::task::yield_now().await;
    }
    // The other one gets no room for as much.
    let sending = tokio::spawn(async move {
        let _ = two.send(part(2 << 20)).await;
    });
    let end = within(second.recv()).await.expect("the end").expect_err("the end");
    assert!(
        matches!(&end, StreamEnd::Disconnected(error) if matches!(&**error, LinkError::Read(_))),
        "{end:?}"
    );
    within(sending).await.expect("ended");
    // It is free again once the message is whole.
    within(one.send(rest(1000))).await.expect("sent");
    let message = within(first.recv()).await.expect("message").expect("message");
    assert_eq!(message.len(), (2 << 20) + 1000);
    assert_eq!(budget.used(), 0);
    for _ in 0..100 {
        within(one.send(Message::text("x".repeat(100_000))))
            .await
            .expect("sent");
        within(first.recv()).await.expect("message").expect("message");
    }
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn whole_messages_of_all_clients_share_a_backlog() {
    let backlog = Backlog::new(3 << 20);
    let budget = Budget::new(usize::MAX);
    let (mut greedy, mut one) = served(&budget, &backlog).await;
    let (mut modest, mut two) = served(&budget, &backlog).await;
    // What is read after the end takes no virtual time, so it must be finite.
    let flood = tokio::spawn(async move {
        for _ in 0..8 {
            let _ = one.send(Message::text("x".repeat(1 << 20))).await;
        }
    });
    let start = tokio::time::Instant::now();
    let mut kept = Vec::new();
    let end = loop {
        match within(greedy.recv()).await.expect("message") {
            Ok(message) => kept.push(message),
            Err(end) => break end,
        }
    };
    assert!(
        matches!(&end, StreamEnd::Disconnected(error) if matches!(&**error, LinkError::Backpressure)),
        "{end:?}"
    );
    assert!(
        start.elapsed() >= MAX_EXCESS && kept.len() == 4,
        "{} after {:?}",
        kept.len(),
        start.elapsed()
    );
    within(flood).await.expect("ended");
    kept.clear();
    within(two.send(Message::text("still here"))).await.expect("sent");
    assert_eq!(
        within(modest.recv()).await.expect("message").expect("message"),
        "still here"
    );
}

#[tokio::test(start_paused = true)]
async fn broken_texts_end_the_connection() {
    let (mut link, mut client) = pair(4096).await;
    // A text frame of one byte that is no UTF-8, with mask zero.
    client
        .get_mut()
        .write_all(&[0x81, 0x81, 0, 0, 0, 0, 0xff])
        .await
        .expect("write");
    let error = link.recv().await.expect_err("broken");
    assert!(matches!(error, LinkError::Text), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn lines_are_messages() {
    let (reader, mut to_us) = duplex(7);
    let (writer, mut from_us) = duplex(1 << 16);
    let mut stream = direct::over_lines(reader, writer);
    let writing = tokio::spawn(async move {
        let lines = b"one\r\n\n \t\r\ntwo\nthr\ree\n\r\nlast";
        to_us.write_all(lines).await.expect("write");
        to_us
    });
    for expected in ["one", "two", "thr\ree"] {
        assert_eq!(
            within(stream.recv()).await.expect("message").expect("message"),
            expected
        );
    }
    stream.send("answer".into()).await.expect("sent");
    stream.send("another".into()).await.expect("sent");
    drop(writing.await.expect("written"));
    assert_eq!(within(stream.recv()).await.expect("message").expect("message"), "last");
    assert!(matches!(stream.recv().await, Some(Err(StreamEnd::Disconnected(_)))));
    drop(stream);
    let mut text = String::new();
    from_us.read_to_string(&mut text).await.expect("read");
    assert_eq!(text, "answer\nanother\n", "what was sent before the end is out");
}

#[tokio::test(start_paused = true)]
async fn closing_a_stream_of_lines_ends_its_output() {
    let (reader, to_us) = duplex(64);
    let (writer, mut from_us) = duplex(64);
    let stream = direct::over_lines(reader, writer);
    stream.send("answer".into()).await.expect("sent");
    within(stream.close()).await;
    let mut text = String::new();
    from_us.read_to_string(&mut text).await.expect("read");
    assert_eq!(text, "answer\n");
    drop(to_us);
}
