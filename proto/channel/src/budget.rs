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
    /// What it is a part of.
    whole: Option<Budget>,
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
        Self::with(limit, None)
    }

    /// A part of it, for one of those who share it. It may have half of all, and two thirds of what is free and its own: so
    /// `n` parts that want much have `2 / (2n + 1)` each, and a newcomer always finds some. What a part leases is leased
    /// from the whole.
    #[must_use]
    pub fn part(&self) -> Self {
        Self::with(self.0.limit / 2, Some(self.clone()))
    }

    fn with(limit: usize, whole: Option<Self>) -> Self {
        Self(Arc::new(Shared {
            limit,
            used: AtomicUsize::new(0),
            whole,
        }))
    }

    /// Bytes that are leased now.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Takes more, if there is room.
    fn take(&self, more: usize) -> Result<(), BudgetExhausted> {
        let shared = &self.0;
        let limit = shared.limit.min(self.fair());
        let room = |used: usize| used.checked_add(more).filter(|&sum| sum <= limit);
        shared
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
            .map_err(|_| BudgetExhausted { limit })?;
        let Some(whole) = &shared.whole else {
            return Ok(());
        };
        whole.take(more).inspect_err(|_| {
            shared.used.fetch_sub(more, Ordering::Relaxed);
        })
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.0.whole {
            whole.give_back(bytes);
        }
    }

    /// Most that a part may have, in view of what the others leave.
    fn fair(&self) -> usize {
        let Some(whole) = &self.0.whole else {
            return usize::MAX;
        };
        let free = whole.0.limit.saturating_sub(whole.used());
        let reach = free.saturating_add(self.used());
        reach - reach / 3
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
        if bytes <= self.held {
            self.budget.give_back(self.held - bytes);
        } else {
            self.budget.take(bytes - self.held)?;
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
        self.budget.give_back(self.held);
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

    #[test]
    fn parts_leave_something_for_the_next_one() {
        let whole = Budget::new(9000);
        let take = |part: &Budget| {
            let mut lease = part.lease();
            while lease.resize(lease.held() + 1).is_ok() {}
            lease
        };
        let parts: Vec<Budget> = (0..4).map(|_| whole.part()).collect();
        let mut leases = Vec::new();
        for (part, most) in parts.iter().zip([4500, 3000, 1000, 334]) {
            // A second lease of the same part finds nothing.
            leases.push(take(part));
            assert_eq!(leases.last().unwrap().held(), most);
            assert_eq!(take(part).held(), 0);
        }
        assert_eq!(whole.used(), 4500 + 3000 + 1000 + 334);
        // What one gives back the others share.
        leases.remove(0);
        assert_eq!(take(&parts[3]).held() + 334, 3334);
        drop(leases);
        assert_eq!((whole.used(), parts[1].used()), (0, 0));
    }

    #[test]
    fn three_parts_hold_the_longest_message_each_and_one_holds_two() {
        use rendezvous_wire::limits::{MAX_MESSAGE, MESSAGE_PREFIX_LEN};
        const LONGEST: usize = MAX_MESSAGE + MESSAGE_PREFIX_LEN;
        let whole = Budget::new(4 * LONGEST);
        let fill = |mut leases: Vec<Lease>| {
            for step in 1..=64 {
                for lease in &mut leases {
                    lease.resize(LONGEST * step / 64).unwrap();
                }
            }
        };
        fill((0..3).map(|_| whole.part().lease()).collect());
        let one = whole.part();
        fill((0..2).map(|_| one.lease()).collect());
    }

    #[test]
    fn a_part_that_the_whole_has_no_room_for_stays_as_it_was() {
        let whole = Budget::new(10);
        let mut own = whole.lease();
        own.resize(10).unwrap();
        let part = whole.part();
        assert!(part.lease().resize(1).is_err());
        assert_eq!((part.used(), whole.used()), (0, 10));
    }
}
