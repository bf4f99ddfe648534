use std::sync::Arc;
use std::time::Duration;

use rendezvous_identity::AuthorizedHarnesses;
use rendezvous_wire::fingerprint::Fingerprint;
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
        let is_missing = matches!(authorized.allows(harness), Ok(false));
        misses = if is_missing { misses + 1 } else { 0 };
        if misses == 2 {
            tracing::info!(%harness, file = %authorized.path().display(), "harness is authorized no more, its stream ends");
            return;
        }
    }
}
