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
