//! Memory for the windows of all reliable streams.

use super::{FIRST_WINDOW, MAX_WINDOW};
use crate::budget::{Budget, BudgetExhausted, Lease};

/// What the windows of many streams may occupy, in both directions together. Clones share it.
///
/// A window may have half of what is free and its own, so that `n` busy windows have `1 / (n + 1)` of the pool each,
/// and a newcomer always finds some.
#[derive(Clone, Debug)]
pub struct Pool {
    budget: Budget,
    limit: usize,
}

impl Pool {
    /// A pool of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            budget: Budget::new(limit),
            limit,
        }
    }

    /// Bytes that windows occupy now.
    pub fn used(&self) -> usize {
        self.budget.used()
    }

    /// A first window.
    pub(crate) fn share(&self) -> Result<Share, BudgetExhausted> {
        let mut lease = self.budget.lease();
        lease.resize(FIRST_WINDOW)?;
        Ok(Share {
            lease,
            pool: self.clone(),
        })
    }
}

/// One window's part of a [`Pool`]: never less than [`FIRST_WINDOW`].
#[derive(Debug)]
pub(crate) struct Share {
    lease: Lease,
    pool: Pool,
}

impl Share {
    /// Most that this window may have now.
    pub(crate) fn cap(&self) -> usize {
        let free = self.pool.limit.saturating_sub(self.pool.used());
        ((free + self.lease.held()) / 2).clamp(FIRST_WINDOW, MAX_WINDOW)
    }

    pub(crate) fn held(&self) -> usize {
        self.lease.held()
    }

    /// Makes it at least `bytes`, if the pool has room; says whether it is.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        self.lease.resize(bytes.max(FIRST_WINDOW)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_windows_have_equal_parts_and_leave_one() {
        let pool = Pool::new(8 * MAX_WINDOW);
        let mut shares: Vec<_> = (0..15).map(|_| pool.share().unwrap()).collect();
        for _ in 0..100 {
            for share in &mut shares {
                let cap = share.cap();
                share.resize(cap);
            }
        }
        for share in &shares {
            assert!(share.held().abs_diff(pool.limit / 16) < 4096, "{}", share.held());
        }
        assert!(pool.used() < pool.limit);
        shares.truncate(1);
        let cap = shares[0].cap();
        assert_eq!(cap, MAX_WINDOW);
        drop(shares);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_full_pool_gives_no_first_window_and_keeps_the_old_ones() {
        let pool = Pool::new(2 * FIRST_WINDOW);
        let mut share = pool.share().unwrap();
        assert!(share.resize(2 * FIRST_WINDOW));
        assert!(pool.share().is_err());
        assert!(!share.resize(2 * FIRST_WINDOW + 1));
        assert!(share.resize(0));
        assert_eq!((share.held(), pool.used()), (FIRST_WINDOW, FIRST_WINDOW));
        pool.share().unwrap();
    }
}
