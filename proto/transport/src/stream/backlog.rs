use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Whole messages that were received and are still held somewhere, for instance because they are not answered yet. Clones
/// share it, and so do the streams of all links that it is given to.
///
/// A link is not read while more is held than the limit, so that one message of each link may be beyond it.
#[derive(Clone, Debug)]
pub struct Backlog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    held: AtomicUsize,
    /// Streams that may add to it.
    streams: AtomicUsize,
    relief: Arc<Notify>,
}

impl Backlog {
    /// At most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            held: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            relief: Arc::default(),
        }))
    }

    /// Without a limit.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Bytes that are held now. Each message counts 256 bytes at least.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.held() > self.0.limit
    }

    /// What each stream may hold when there is too little for all.
    pub(crate) fn share(&self) -> usize {
        self.0.limit / self.0.streams.load(Ordering::Relaxed).max(1)
    }

    /// Ready when [`Self::relieve`] or [`Self::remove`] was called after this.
    pub(crate) fn relieved(&self) -> OwnedNotified {
        self.0.relief.clone().notified_owned()
    }

    pub(super) fn relieve(&self) {
        self.0.relief.notify_waiters();
    }

    pub(super) fn add(&self, bytes: usize) {
        self.0.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: usize) {
        self.0.held.fetch_sub(bytes, Ordering::Relaxed);
        self.relieve();
    }

    pub(super) fn join(&self) {
        self.0.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
