use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::duplex;

use super::*;
use crate::keepalive::{AWAKE_TIMEOUT, GIVEN_UP};
use crate::wake::LOOK;

/// Seconds that the machine has slept.
static SLEPT: AtomicU64 = AtomicU64::new(0);

fn boot_clock() -> Duration {
    Duration::from_secs(SLEPT.load(Ordering::Relaxed))
}

fn sleep_for(time: Duration) {
    SLEPT.fetch_add(time.as_secs(), Ordering::Relaxed);
}

async fn link(stream: tokio::io::DuplexStream) -> Link<tokio::io::DuplexStream> {
    let mut link = Link::client(stream).await;
    link.boot_clock = boot_clock;
    link
}

/// A machine that wakes after an hour knows within a second that its connections are gone; after a minute it asks.
#[tokio::test(start_paused = true)]
async fn a_sleep_is_noticed_within_a_second() {
    let (near, _far) = duplex(1024);
    let mut short = link(near).await;
    // The first look.
    assert!(timeout(LOOK, short.next()).await.is_err());

    sleep_for(Duration::from_secs(60));
    let start = Instant::now();
    let error = short.next().await.expect_err("nobody answers");
    assert!(matches!(error, LinkError::PongTimeout), "{error:?}");
    assert!(start.elapsed() <= LOOK + AWAKE_TIMEOUT, "{:?}", start.elapsed());

    let (near, _far) = duplex(1024);
    let mut long = link(near).await;
    assert!(timeout(LOOK, long.next()).await.is_err());
    sleep_for(GIVEN_UP + Duration::from_secs(3600));
    let start = Instant::now();
    let error = long.next().await.expect_err("the peer is gone");
    assert!(matches!(error, LinkError::Slept), "{error:?}");
    assert!(start.elapsed() <= LOOK, "{:?}", start.elapsed());
}
