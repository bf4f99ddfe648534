use std::collections::{HashSet, VecDeque};

use crate::primitives::hash::Hash;

/// Handshakes that are remembered, 32 bytes each and their place in the order.
pub(super) const CAPACITY: usize = 1024;

/// The hashes of the last handshakes that cost a validation.
///
/// An initiator draws new ephemeral keys each time, so the same bytes again are a replay, by somebody who cannot finish
/// it: not worth another call to the registry.
#[derive(Debug, Default)]
pub(super) struct ReplayCache {
    seen: HashSet<Hash>,
    order: VecDeque<Hash>,
}

impl ReplayCache {
    pub(super) fn contains(&self, hash: &Hash) -> bool {
        self.seen.contains(hash)
    }

    /// Remembers the hash and forgets the oldest one when full.
    pub(super) fn insert(&mut self, hash: Hash) {
        if !self.seen.insert(hash) {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let hash = |i: usize| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&i.to_le_bytes());
            hash
        };
        let mut cache = ReplayCache::default();
        for i in 0..CAPACITY {
            cache.insert(hash(i));
            cache.insert(hash(i));
        }
        assert!(cache.contains(&hash(0)));
        cache.insert(hash(CAPACITY));
        assert!(!cache.contains(&hash(0)));
        assert!(cache.contains(&hash(1)) && cache.contains(&hash(CAPACITY)));
        assert_eq!((cache.seen.len(), cache.order.len()), (CAPACITY, CAPACITY));
    }
}
