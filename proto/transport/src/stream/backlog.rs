use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

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
    /// Parts of it that are in use.
    parts: AtomicUsize,
    /// What it is a part of.
    whole: Option<Backlog>,
    relief: Arc<Notify>,
}

/// A part that ends with the last of its streams and messages.
#[derive(Debug)]
pub(crate) struct WeakPart(Weak<Shared>);

impl Backlog {
    /// At most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            held: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            parts: AtomicUsize::new(0),
            whole: None,
            relief: Arc::default(),
        }))
    }

    /// A part of it, for the streams of one of those who share it. What a part holds the whole holds, too.
    pub(crate) fn part(&self) -> Self {
        self.0.parts.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Shared {
            limit: self.0.limit,
            held: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            parts: AtomicUsize::new(0),
            whole: Some(self.clone()),
            relief: self.0.relief.clone(),
        }))
    }

    pub(crate) fn downgrade(&self) -> WeakPart {
        WeakPart(Arc::downgrade(&self.0))
    }

    /// Whether this part holds more than one of `n` parts should while others want some: `1 / (n + 1)` of all. As long as
    /// half of all is free nobody does: a stream that is held up cannot say either what would free what it holds.
    pub(crate) fn is_above_part(&self) -> bool {
        self.0.whole.as_ref().is_some_and(|whole| {
            let parts = whole.0.parts.load(Ordering::Relaxed);
            whole.held() > whole.0.limit / 2 && self.held() > whole.0.limit / (parts + 1)
        })
    }

    /// Without a limit.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Bytes that are held now. Each message counts 256 bytes at least.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Whether more is held than may be, by all parts together.
    pub(crate) fn is_full(&self) -> bool {
        let whole = self.whole();
        whole.held() > whole.0.limit
    }

    /// What each stream may hold when there is too little for all.
    pub(crate) fn share(&self) -> usize {
        let whole = self.whole();
        whole.0.limit / whole.0.streams.load(Ordering::Relaxed).max(1)
    }

    fn whole(&self) -> &Self {
        self.0.whole.as_ref().unwrap_or(self)
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
        if let Some(whole) = &self.0.whole {
            whole.add(bytes);
        }
    }

    pub(super) fn remove(&self, bytes: usize) {
        self.0.held.fetch_sub(bytes, Ordering::Relaxed);
        match &self.0.whole {
            Some(whole) => whole.remove(bytes),
            None => self.relieve(),
        }
    }

    pub(super) fn join(&self) {
        self.whole().0.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        self.whole().0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WeakPart {
    /// The part, while anybody uses it.
    pub(crate) fn upgrade(&self) -> Option<Backlog> {
        self.0.upgrade().map(Backlog)
    }
}

/// The other parts may have more from now on.
impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(whole) = &self.whole {
            whole.0.parts.fetch_sub(1, Ordering::Relaxed);
            whole.relieve();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn parts_count_for_the_whole_and_share_it() {
        let whole = Backlog::new(300);
        let (first, second) = (whole.part(), whole.part());
        first.add(101);
        assert!(!first.is_above_part(), "more than half is free");
        second.add(49);
        assert!(!first.is_above_part());
        second.add(1);
        assert!(first.is_above_part() && !second.is_above_part());
        second.add(150);
        assert_eq!((whole.held(), first.held(), second.held()), (301, 101, 200));
        assert!(whole.is_full() && first.is_full() && second.is_full());
        second.remove(200);
        let weak = second.downgrade();
        drop(second);
        assert!(weak.upgrade().is_none());
        // Alone it may have half.
        assert!(!first.is_above_part());
        first.add(50);
        assert!(first.is_above_part() && !first.is_full());
        first.join();
        first.join();
        assert_eq!((whole.share(), first.share()), (150, 150));
        first.leave();
        assert_eq!(whole.share(), 300);
    }

    #[test]
    fn a_part_that_ends_leaves_more_for_the_others() {
        let whole = Backlog::new(300);
        let [first, second, third] = [(); 3].map(|()| whole.part());
        first.add(90);
        second.add(61);
        assert!(first.is_above_part() && !second.is_above_part(), "a quarter each");
        let relieved = whole.relieved();
        drop(third);
        assert!(!first.is_above_part(), "a third each");
        assert!(relieved.now_or_never().is_some(), "somebody waits for that");
        let relieved = whole.relieved();
        first.relieve();
        assert!(relieved.now_or_never().is_some(), "or for what a part lets go");
    }
}
