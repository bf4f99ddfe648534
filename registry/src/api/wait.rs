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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::address::TrustedProxies;
    use crate::app::{MAX_WAITING, Options};
    use crate::clock::Clock;
    use crate::rate::Rate;
    use crate::store::{self, Access, Location};
    use crate::ticket::{self, Signer};

    const HOUR: Duration = Duration::from_secs(3600);

    async fn app() -> (Arc<App>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("registry.db"));
        let store = store::open(&location, Access::Create).await.unwrap();
        let clock = Clock::system();
        let candidate = ticket::generate(clock.now()).unwrap();
        let signer = Signer::new(&store.signing_keys(&candidate).await.unwrap()).unwrap();
        let rate = Rate {
            per_minute: NonZeroU32::MIN,
            burst: NonZeroU32::MIN,
        };
        let options = Options {
            rate,
            failed_rate: rate,
            trusted_proxies: TrustedProxies::new(Vec::new()),
        };
        let stop = CancellationToken::new();
        (App::new(store, clock, signer, options, stop), folder)
    }

    #[tokio::test]
    async fn one_more_than_may_wait_is_answered_at_once() {
        let (app, _folder) = app().await;
        let most = u32::try_from(MAX_WAITING).unwrap();
        let all = app.waiting.try_acquire_many(most).unwrap();
        // Whoever waits here waits for an hour.
        let nothing = async || Ok(None::<()>);
        assert!(until(&app, within(HOUR), nothing).await.unwrap().is_none());
        let something = async || Ok(Some(1));
        assert_eq!(until(&app, within(HOUR), something).await.unwrap(), Some(1));
        drop(all);
        let mut looks = 0;
        let look = || {
            looks += 1;
            std::future::ready(Ok((looks > 3).then_some(looks)))
        };
        assert_eq!(until(&app, within(HOUR), look).await.unwrap(), Some(4));
        assert_eq!(app.waiting.available_permits(), MAX_WAITING, "slots come back");
    }
}
