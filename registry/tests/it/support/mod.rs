//! What the tests share: databases, the real binary, an HTTP client that can misbehave, and a relay's end of the
//! control connection.

pub(crate) mod http;
pub(crate) mod postgres;
pub(crate) mod registry;
pub(crate) mod relay;

use std::time::{Duration, Instant};

use rendezvous_wire::key::PublicKey;

/// Longest wait for anything that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A key that differs from those of other numbers.
pub(crate) fn key(number: u8) -> PublicKey {
    PublicKey {
        x25519: [number; 32],
        mlkem768: Box::new([number; 1184]),
    }
}

/// Asks until the answer is yes.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut ask: impl FnMut() -> F) {
    let start = Instant::now();
    while !ask().await {
        assert!(start.elapsed() < SOON, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
