use std::time::Instant;

use rendezvous_transport::stream::Continuity;
use tokio::sync::watch;

use super::{Link, RENEWAL_PATIENCE, now};

/// How the stream below a connection fares.
pub(super) struct Stream {
    continuity: Option<watch::Receiver<Continuity>>,
    /// Since when another one should take its place.
    pub(super) worn_since: Option<Instant>,
}

impl Stream {
    pub(super) fn of(link: &impl Link) -> Self {
        let mut continuity = link.continuity();
        if let Some(continuity) = &mut continuity {
            continuity.mark_unchanged();
        }
        Self {
            continuity,
            worn_since: None,
        }
    }

    /// Ready when it was suspended, resumed or worn out. May be dropped at any time.
    pub(super) async fn changed(&mut self) -> Continuity {
        let Some(continuity) = &mut self.continuity else {
            return std::future::pending().await;
        };
        // Nobody tells any more once the stream is over.
        if continuity.changed().await.is_err() {
            return std::future::pending().await;
        }
        let state = *continuity.borrow_and_update();
        if state.is_worn {
            self.worn_since.get_or_insert_with(now);
        }
        state
    }

    /// Since when its connection is lost, also when it is over.
    pub(super) fn lost_at(&self) -> Option<Instant> {
        self.continuity.as_ref()?.borrow().suspended_since
    }

    /// Whether it has waited long enough for a moment in which nothing is under way.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent_at().is_some_and(|at| at <= now())
    }

    /// Ready when it is.
    pub(super) fn urgent(&self) -> impl Future<Output = ()> + Send + use<> {
        let at = self.urgent_at();
        async move {
            match at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        }
    }

    fn urgent_at(&self) -> Option<Instant> {
        self.worn_since.map(|since| since + RENEWAL_PATIENCE)
    }
}
