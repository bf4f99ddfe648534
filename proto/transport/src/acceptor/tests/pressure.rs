//! Applications that take nothing, or keep what they took.

use futures_util::future::join_all;

use super::*;
use crate::stream::RECEIVE_BUFFER;

#[tokio::test(start_paused = true)]
async fn a_sender_waits_while_nobody_receives() {
    let mut world = World::new().await;
    let (harness, mut executor) = world.open().await;
    let message = long(SEND_BUFFER / 2);
    let sent = AtomicUsize::new(0);
    let total = 40;
    let sending = async {
        for _ in 0..total {
            harness.send(message.clone()).await.unwrap();
            sent.fetch_add(1, Ordering::Relaxed);
        }
    };
    let receiving = async {
        // Longer than any transfer takes, shorter than the pause that a link may have.
        tokio::time::sleep(MAX_PAUSE / 2).await;
        let waiting = sent.load(Ordering::Relaxed) * message.len();
        assert!(
            (RECEIVE_BUFFER..RECEIVE_BUFFER + 6 * SEND_BUFFER).contains(&waiting),
            "{waiting}"
        );
        for _ in 0..total {
            expect(&mut executor, &message).await;
        }
    };
    tokio::join!(sending, receiving);
}

/// Lengths of the frames of one stream that sends as much as it can, in ten seconds, and whether it shared the way.
async fn bulk_lengths(is_shared: bool) -> Vec<usize> {
    const RATE: usize = 1_000_000;
    let mut world = World::new().await;
    let (mut taking, giving) = world.open().await;
    let (mut asking, mut answering) = world.open().await;
    world.relay.rate.store(RATE, Ordering::Relaxed);
    let flood = async { while giving.send(long(SEND_BUFFER)).await.is_ok() {} };
    let take = async { while let Some(Ok(_)) = taking.recv().await {} };
    let ask = async {
        for second in 0..20 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            if second == 10 {
                world.relay.lengths.lock().unwrap().clear();
            }
            if is_shared {
                expect_alive(&mut asking, &mut answering).await;
            }
        }
    };
    tokio::select! {
        () = flood => panic!("the stream ended"),
        () = take => panic!("the stream ended"),
        () = ask => {}
    }
    let mut lengths = std::mem::take(&mut *world.relay.lengths.lock().unwrap());
    let sum: usize = lengths.iter().sum();
    // A sleep takes up to a millisecond more.
    assert!(sum > RATE * 5 * 7 / 10, "the way was not full: {sum}");
    lengths.sort_unstable();
    lengths
}

#[tokio::test(start_paused = true)]
async fn long_messages_go_in_short_records_where_short_messages_share_the_way() {
    let longest = *bulk_lengths(true).await.last().unwrap();
    // More than a millisecond, but no shorter ones are made; and what is around a record.
    assert!((4096..4500).contains(&longest), "{longest}");
    let longest = *bulk_lengths(false).await.last().unwrap();
    assert!(longest > 60_000, "{longest}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_takes_nothing_is_reset_in_the_end_and_no_other() {
    let mut world = World::new().await;
    let (mut stuck, mut unread) = world.open().await;
    let (mut harness, mut executor) = world.open().await;
    let start = now();
    let message = long(SEND_BUFFER / 2);
    while stuck.send(message.clone()).await.is_ok() {}
    let after = now() - start;
    assert!(after >= MAX_PAUSE && after < 2 * MAX_PAUSE, "{after:?}");
    let end = end_of(&mut stuck).await;
    assert!(
        matches!(&end, StreamEnd::Reset(reason) if reason == reason::BACKPRESSURE),
        "{end:?}"
    );
    expect_alive(&mut harness, &mut executor).await;
    // What had arrived is still there.
    let mut received = 0;
    let end = loop {
        match unread.recv().await.unwrap() {
            Ok(message) => received += message.len(),
            Err(end) => break end,
        }
    };
    assert!(received >= RECEIVE_BUFFER);
    assert!(matches!(end, StreamEnd::Backpressure));
}

/// Streams that hold as much as may wait, and whose application takes nothing.
async fn stuck_streams(world: &mut World, count: usize) -> Vec<(MessageStream, MessageStream)> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let (stuck, unread) = world.open().await;
        for _ in 0..RECEIVE_BUFFER / SEND_BUFFER {
            stuck.send(long(SEND_BUFFER)).await.unwrap();
        }
        streams.push((stuck, unread));
    }
    streams
}

async fn send_until_the_end(stream: &mut MessageStream) {
    while stream.send(long(SEND_BUFFER)).await.is_ok() {}
    assert!(matches!(end_of(stream).await, StreamEnd::Reset(reason) if reason == reason::BACKPRESSURE));
}

#[tokio::test(start_paused = true)]
async fn many_streams_that_take_nothing_hold_up_the_others_as_long_as_one() {
    let mut world = World::new().await;
    let mut streams = stuck_streams(&mut world, 10).await;
    let (mut harness, mut executor) = world.open().await;
    let start = now();
    let ending = async {
        // One after the other, each as soon as the one before has been reset.
        for (stuck, _unread) in &mut streams {
            send_until_the_end(stuck).await;
        }
    };
    let talking = async {
        for _ in 0..20 {
            expect_alive(&mut harness, &mut executor).await;
        }
        now() - start
    };
    let ((), talked) = tokio::join!(ending, talking);
    let ended = now() - start;
    let most = MAX_PAUSE + Duration::from_secs(3);
    assert!(talked < most && ended < most, "{talked:?}, {ended:?}");
    // The next ones find no patience.
    let streams = stuck_streams(&mut world, 3).await;
    let start = now();
    let ending = streams.into_iter().map(|(mut stuck, unread)| async move {
        send_until_the_end(&mut stuck).await;
        drop(unread);
    });
    join_all(ending).await;
    expect_alive(&mut harness, &mut executor).await;
    assert!(now() - start < MAX_PAUSE / 2, "{:?}", now() - start);
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_and_kept_counts_until_it_is_dropped() {
    let limit = 4 * RECEIVE_BUFFER;
    let backlog = Backlog::new(limit);
    let mut world = World::with_backlog(backlog.clone()).await;
    let (mut harness, mut executor) = world.open().await;
    let (mut modest, mut other) = world.open().await;
    modest.send(long(200)).await.unwrap();
    let small = other.recv().await.unwrap().unwrap();
    let mut kept = Vec::new();
    // Parts of a message hold the whole one.
    let take = async |executor: &mut MessageStream| {
        let message = executor.recv().await.unwrap().unwrap();
        assert_eq!(message.len(), SEND_BUFFER);
        message.slice(..1)
    };
    let sending = async |harness: &MessageStream| while harness.send(long(SEND_BUFFER)).await.is_ok() {};
    let full = async {
        tokio::select! {
            () = sending(&harness) => panic!("the stream ended"),
            () = async {
                let start = now();
                while backlog.held() <= limit {
                    kept.push(take(&mut executor).await);
                }
                // What is taken makes room at once, though it is kept.
                assert!(now() - start < MAX_PAUSE / 10, "{:?}", now() - start);
                // The link is not read now, for less than it may be.
                assert!(timeout(MAX_PAUSE / 2, async { loop { kept.push(take(&mut executor).await) } }).await.is_err());
            } => {}
        }
    };
    full.await;
    assert!(backlog.held() < limit + RECEIVE_BUFFER, "{}", backlog.held());
    kept.clear();
    // Dropped, so that it is read again at once, as much as before.
    let start = now();
    let mut again = 0;
    tokio::select! {
        () = sending(&harness) => panic!("the stream ended"),
        () = async {
            while again < 2 * limit {
                again += SEND_BUFFER;
                drop(take(&mut executor).await);
            }
        } => {}
    }
    assert!(now() - start < MAX_PAUSE / 10, "{:?}", now() - start);
    // Whoever keeps too much for too long is reset, and nobody else.
    let start = now();
    let keeping = async {
        loop {
            match executor.recv().await.unwrap() {
                Ok(message) => kept.push(message),
                Err(end) => return end,
            }
        }
    };
    let ((), end) = tokio::join!(sending(&harness), keeping);
    assert!(matches!(end, StreamEnd::Backpressure), "{end:?}");
    assert!(now() - start < 2 * MAX_PAUSE);
    assert!(matches!(end_of(&mut harness).await, StreamEnd::Reset(_)));
    kept.clear();
    expect_alive(&mut modest, &mut other).await;
    drop(small);
    assert_eq!(backlog.held(), 0);
}
