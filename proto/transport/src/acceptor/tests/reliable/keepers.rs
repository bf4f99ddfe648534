//! Applications that keep what they took.

use super::*;

/// Takes and keeps, until nothing has come for a long time.
async fn keep(keeper: &mut MessageStream, kept: &mut Vec<Bytes>) {
    let more = async |keeper: &mut MessageStream| timeout(Duration::from_secs(10), keeper.recv()).await;
    while let Ok(Some(Ok(message))) = more(keeper).await {
        kept.push(message);
    }
}

/// Sends until `done`, which comes before the end of the stream.
async fn flood(harness: &MessageStream, message: &Bytes, done: impl Future<Output = ()>) {
    tokio::select! {
        () = async { while harness.send(message.clone()).await.is_ok() {} } => panic!("the stream ended"),
        () = done => {}
    }
}

/// Whether much more than a window passes within a short time.
async fn flows(harness: &MessageStream, executor: &mut MessageStream, message: &Bytes) -> bool {
    let rounds = 100;
    let sending = async {
        for _ in 0..rounds {
            harness.send(message.clone()).await.unwrap();
        }
    };
    let receiving = async {
        for _ in 0..rounds {
            expect(executor, message).await;
        }
    };
    let through = timeout(Duration::from_secs(10), async { tokio::join!(sending, receiving) });
    through.await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn an_application_that_keeps_what_it_took_stops_its_own_harness_only() {
    const LIMIT: usize = 60 << 20;
    let backlog = Backlog::new(LIMIT);
    let mut pair = Pair::with_backlog(backlog.clone()).await;
    let identity = Identity::generate(&mut UnwrapErr(SysRng));
    let way = pair.way();
    let (greedy, mut keeper) = pair.agree_as(&identity, way).await;
    let way = pair.way();
    let (sibling, mut modest) = pair.agree_as(&identity, way).await;
    let way = pair.way();
    let (stranger, mut other) = pair.agree(way).await;
    let message = long(SEND_BUFFER);
    let mut kept = Vec::new();
    flood(&greedy, &message, keep(&mut keeper, &mut kept)).await;
    // Its part, and what it could send ahead.
    let most = LIMIT / 2 + MAX_WINDOW + SEND_BUFFER;
    assert!(
        backlog.held() > LIMIT / 2 && backlog.held() <= most,
        "{}",
        backlog.held()
    );
    assert!(flows(&stranger, &mut other, &message).await);
    // Another stream of the same harness shares its part.
    assert!(!flows(&sibling, &mut modest, &message).await);
    // It goes on when it has let go.
    kept.clear();
    expect(&mut keeper, &message).await;
}

/// A reliable stream stops its sender by itself: it is in nobody's way, and waits for as long as its application likes.
#[tokio::test(start_paused = true)]
async fn a_stream_that_fills_the_backlog_is_not_reset() {
    let backlog = Backlog::new(SEND_BUFFER / 4);
    let mut pair = Pair::with_backlog(backlog.clone()).await;
    let way = pair.way();
    let (greedy, mut keeper) = pair.agree(way).await;
    let way = pair.way();
    let (mut modest, mut other) = pair.agree(way).await;
    let message = long(SEND_BUFFER / 4);
    let mut kept = Vec::new();
    flood(&greedy, &message, keep(&mut keeper, &mut kept)).await;
    assert!(backlog.is_full(), "{}", backlog.held());
    flood(&greedy, &message, async {
        let start = now();
        while now() - start < 4 * MAX_PAUSE {
            let asked = now();
            expect_alive(&mut modest, &mut other).await;
            assert!(now() - asked < Duration::from_secs(1), "{:?}", now() - asked);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    kept.clear();
    expect(&mut keeper, &message).await;
}
