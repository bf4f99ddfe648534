use rendezvous_wire::key::KeyDigest;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// One stream that may hold a session.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// The harness at its other end; none on connections that name no key.
    harness: Option<KeyDigest>,
    replaced: CancellationToken,
}

impl Holder {
    pub(crate) fn new(harness: Option<KeyDigest>) -> Self {
        Self {
            harness,
            replaced: CancellationToken::new(),
        }
    }

    pub(super) fn harness(&self) -> Option<KeyDigest> {
        self.harness
    }

    /// Ready when another stream of the same harness wants the session.
    pub(crate) fn replaced(&self) -> WaitForCancellationFutureOwned {
        self.replaced.clone().cancelled_owned()
    }

    /// Lets go of the session if the newcomer is of the same harness.
    pub(super) fn give_way_to(&self, newcomer: &Self) {
        if self.harness.is_some() && self.harness == newcomer.harness {
            self.replaced.cancel();
        }
    }
}
