//! Bytes that may be used, within what a larger circle may use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit, perhaps within a wider one.
#[derive(Debug)]
pub(super) struct Quota {
    most: u64,
    used: AtomicU64,
    within: Option<Arc<Self>>,
}

impl Quota {
    pub(super) fn new(most: u64, within: Option<Arc<Self>>) -> Self {
        Self {
            most,
            used: AtomicU64::new(0),
            within,
        }
    }

    /// Takes bytes, unless a limit is in the way. Also what begins below the limit and ends above it is given.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let taken = self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            (used < self.most).then_some(used + bytes)
        });
        if taken.is_err() {
            return false;
        }
        let is_given = self.within.as_ref().is_none_or(|within| within.take(bytes));
        if !is_given {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_given
    }

    /// Takes bytes whatever the limits.
    pub(super) fn insist(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        if let Some(within) = &self.within {
            within.insist(bytes);
        }
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(within) = &self.within {
            within.give_back(bytes);
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that can still be taken.
    pub(super) fn left(&self) -> u64 {
        let left = self.most.saturating_sub(self.used());
        match &self.within {
            Some(within) => left.min(within.left()),
            None => left,
        }
    }
}
