//! Memory that many streams share: what peers can make us hold is charged here before it is allocated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that many leases share. Clones share it too.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    used: AtomicUsize,
}

/// The budget has no room for what was asked.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("memory budget of {limit} bytes is used up")]
pub struct BudgetExhausted {
    /// The limit, in bytes.
    pub limit: usize,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            used: AtomicUsize::new(0),
        }))
    }

    /// Bytes that are leased now.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// A lease of nothing yet.
    pub fn lease(&self) -> Lease {
        Lease {
            budget: self.clone(),
            held: 0,
        }
    }
}

/// Bytes taken from a [`Budget`]; dropping it gives them back.
#[derive(Debug)]
pub struct Lease {
    budget: Budget,
    held: usize,
}

impl Lease {
    /// Makes the lease `bytes` long.
    ///
    /// # Errors
    ///
    /// The budget has no room; the lease stays as it was. Shrinking never fails.
    pub fn resize(&mut self, bytes: usize) -> Result<(), BudgetExhausted> {
        let shared = &self.budget.0;
        if bytes <= self.held {
            shared.used.fetch_sub(self.held - bytes, Ordering::Relaxed);
        } else {
            let more = bytes - self.held;
            let room = |used: usize| used.checked_add(more).filter(|&sum| sum <= shared.limit);
            shared
                .used
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
                .map_err(|_| BudgetExhausted { limit: shared.limit })?;
        }
        self.held = bytes;
        Ok(())
    }

    /// Bytes that this lease holds.
    pub fn held(&self) -> usize {
        self.held
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_share_the_limit_and_give_back() {
        let budget = Budget::new(100);
        let (mut a, mut b) = (budget.lease(), budget.lease());
        a.resize(60).unwrap();
        assert_eq!(b.resize(41), Err(BudgetExhausted { limit: 100 }));
        assert_eq!((b.held(), budget.used()), (0, 60));
        b.resize(40).unwrap();
        a.resize(10).unwrap();
        assert_eq!(budget.used(), 50);
        drop(b);
        assert_eq!(a.resize(usize::MAX), Err(BudgetExhausted { limit: 100 }));
        a.resize(100).unwrap();
        drop(a);
        assert_eq!(budget.used(), 0);
    }
}
