use std::sync::Arc;
use std::time::Duration;

use rendezvous_identity::AuthorizedHarnesses;
use rendezvous_identity::authorized::AuthorizedError;
use rendezvous_wire::fingerprint::Fingerprint;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

/// Time between two looks at the file of a harness that is being served.
const LOOK: Duration = Duration::from_secs(1);

/// Ready once a harness that is being served stands in the file no more, within two seconds or so; never without a file. A
/// file that cannot be read cuts nobody, and neither does one look: it may be about to be written.
pub async fn revoked(authorized: Option<Arc<AuthorizedHarnesses>>, harness: Fingerprint) {
    let Some(authorized) = authorized else {
        return std::future::pending().await;
    };
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut misses = 0;
    loop {
        looks.tick().await;
        let is_missing = matches!(is_listed(&authorized, harness).await, Ok(false));
        misses = if is_missing { misses + 1 } else { 0 };
        if misses == 2 {
            tracing::info!(%harness, file = %authorized.path().display(), "harness is authorized no more, its stream ends");
            return;
        }
    }
}

/// Whether a harness stands in the file. Files may hang, and nobody else is to wait for them.
pub(super) async fn is_listed(
    authorized: &Arc<AuthorizedHarnesses>,
    harness: Fingerprint,
) -> Result<bool, AuthorizedError> {
    let authorized = authorized.clone();
    let looked = spawn_blocking(move || authorized.allows(harness)).await;
    // The runtime ends: nobody comes any more.
    looked.unwrap_or(Ok(false))
}

/// As [`is_listed`], but a file that is being written, and is empty for a moment, is looked at again.
pub(super) async fn is_listed_in_the_end(
    authorized: &Arc<AuthorizedHarnesses>,
    harness: Fingerprint,
) -> Result<bool, AuthorizedError> {
    if is_listed(authorized, harness).await? {
        return Ok(true);
    }
    tokio::time::sleep(LOOK).await;
    is_listed(authorized, harness).await
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rendezvous_wire::key::KeyDigest;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_file_that_says_so_twice_in_a_row_ends_a_stream() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("harnesses");
        let harness = KeyDigest([1; 32]).fingerprint();
        let listed = || fs::write(&path, harness.to_string()).expect("written");
        let unlisted = || fs::write(&path, "").expect("written");
        let unreadable = || fs::remove_file(&path).expect("removed");
        listed();
        let authorized = Arc::new(AuthorizedHarnesses::open(&path).expect("a file"));
        let mut served = std::pin::pin!(revoked(Some(authorized), harness));
        // The first look is at once. Half a look later, everything that follows is between two of them.
        assert!(timeout(LOOK / 2, &mut served).await.is_err(), "it is listed");
        let mut goes_on = async |looks: u32, why: &str| {
            assert!(timeout(LOOK * looks, &mut served).await.is_err(), "{why}");
        };
        goes_on(5, "it is listed").await;
        for _ in 0..2 {
            unlisted();
            goes_on(1, "one look").await;
            listed();
            goes_on(1, "it is listed again").await;
        }
        unreadable();
        goes_on(5, "nothing can be read").await;
        unlisted();
        goes_on(1, "one look after others that said nothing").await;
        unreadable();
        goes_on(1, "nothing can be read again").await;
        unlisted();
        goes_on(1, "one look, and not the second in a row").await;
        timeout(LOOK, &mut served).await.expect("the second in a row");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_empty_for_a_moment_turns_nobody_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("harnesses");
        let harness = KeyDigest([1; 32]).fingerprint();
        fs::write(&path, "").expect("written");
        let authorized = Arc::new(AuthorizedHarnesses::open(&path).expect("a file"));
        let looked = is_listed_in_the_end(&authorized, harness);
        let writing = async {
            tokio::time::sleep(LOOK / 2).await;
            fs::write(&path, harness.to_string()).expect("written");
        };
        let (looked, ()) = tokio::join!(looked, writing);
        assert!(looked.expect("a file that can be read"));
        fs::write(&path, "").expect("written");
        let looked = is_listed_in_the_end(&authorized, harness).await;
        assert!(!looked.expect("a file that can be read"));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_file_nobody_is_cut() {
        let served = revoked(None, KeyDigest([1; 32]).fingerprint());
        assert!(timeout(LOOK * 100, served).await.is_err());
    }
}
