//! Waiting for something that another request, a relay or another process brings about.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::ApiError;
use crate::app::{App, LOOK};

/// Asks `look` until it finds something, `deadline` passes, or the registry stops; then `None`. Does not wait at all when
/// too many requests wait already.
pub(super) async fn until<T, F>(
    app: &App,
    deadline: Instant,
    mut look: impl FnMut() -> F,
) -> Result<Option<T>, ApiError>
where
    F: Future<Output = Result<Option<T>, ApiError>>,
{
    if let Some(found) = look().await? {
        return Ok(Some(found));
    }
    let Ok(_slot) = app.waiting.try_acquire() else {
        tracing::warn!("too many requests wait; another one is answered at once");
        return Ok(None);
    };
    loop {
        let mut changed = pin!(app.changed.notified());
        changed.as_mut().enable();
        if let Some(found) = look().await? {
            return Ok(Some(found));
        }
        let nap = timeout(LOOK, changed);
        tokio::select! {
            () = app.shutdown.cancelled() => return Ok(None),
            slept = timeout_at(deadline, nap) => if slept.is_err() {
                return look().await;
            },
        }
    }
}

/// `duration` from now, as a deadline.
pub(super) fn within(duration: Duration) -> Instant {
    Instant::now() + duration
}
