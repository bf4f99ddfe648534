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

    /// The key of its harness, if it has one.
    pub(crate) fn harness(&self) -> Option<KeyDigest> {
        self.harness
    }

    /// Ready when the session is wanted by another stream that may have it, or is over.
    pub(crate) fn replaced(&self) -> WaitForCancellationFutureOwned {
        self.replaced.clone().cancelled_owned()
    }

    /// Lets go of the session if the newcomer is of the same harness.
    pub(super) fn give_way_to(&self, newcomer: &Self) {
        if self.harness.is_some() && self.harness == newcomer.harness {
            self.let_go();
        }
    }

    /// Lets go of the session.
    pub(super) fn let_go(&self) {
        self.replaced.cancel();
    }
}
