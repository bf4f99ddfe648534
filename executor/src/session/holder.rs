use std::sync::Weak;
use std::time::Instant;

use rendezvous_wire::key::KeyDigest;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::server::Sink;

/// Tells whether the client of a stream is there.
pub(crate) trait Presence: Send + Sync {
    /// Since when it has been away, if it may come back to its stream.
    fn away_since(&self) -> Option<Instant>;
}

impl<S: Sink> Presence for S {
    fn away_since(&self) -> Option<Instant> {
        self.suspended_since()
    }
}

/// One stream that may hold a session.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// The harness at its other end; none on connections that name no key.
    harness: Option<KeyDigest>,
    presence: Weak<dyn Presence>,
    replaced: CancellationToken,
}

impl Holder {
    pub(crate) fn new(harness: Option<KeyDigest>, presence: Weak<dyn Presence>) -> Self {
        Self {
            harness,
            presence,
            replaced: CancellationToken::new(),
        }
    }

    /// The key of its harness, if it has one.
    pub(crate) fn harness(&self) -> Option<KeyDigest> {
        self.harness
    }

    /// Ready when the session is wanted by another stream that may have it, or is over.
    pub(crate) fn replaced(&self) -> WaitForCancellationFutureOwned {
        self.replaced.clone().cancelled_owned()
    }

    /// Since when its client has been away, if it is. Of a stream that is gone nothing is known; it is about to detach.
    pub(super) fn away_since(&self) -> Option<Instant> {
        self.presence.upgrade()?.away_since()
    }

    /// Lets go of the session.
    pub(super) fn let_go(&self) {
        self.replaced.cancel();
    }
}
