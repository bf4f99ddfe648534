//! Waiting on conditions, never for luck.

use std::future::Future;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// How long a condition that should hold soon may take on a loaded machine.
pub const SOON: Duration = Duration::from_secs(60);
/// Time between two looks at a condition that nothing announces.
const LOOK: Duration = Duration::from_millis(20);

/// Looks again and again until `condition` gives a value.
///
/// # Errors
///
/// The condition did not hold `within` the time; the message says `what` was waited for.
pub async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    within: Duration,
    mut condition: impl FnMut() -> F,
) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(value) = condition().await {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {within:?} in vain for: {what}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until `condition` is true.
///
/// # Errors
///
/// The condition did not hold `within` the time.
pub async fn until_true(what: &str, within: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    until(what, within, || std::future::ready(condition().then_some(()))).await
}
