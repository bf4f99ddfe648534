//! Harness tickets are used once.

use std::collections::{BTreeSet, HashSet};

/// Why a ticket cannot be used.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum UseError {
    /// It was used before.
    #[error("ticket was used")]
    Used,
    /// So many tickets were used lately that no more can be remembered; try later.
    #[error("too many tickets in use")]
    Full,
}

/// The `jti`s of used tickets until they expire.
#[derive(Debug)]
pub struct UsedTickets {
    limit: usize,
    used: HashSet<String>,
    by_end: BTreeSet<(u64, String)>,
}

impl UsedTickets {
    /// Remembers at most `limit` tickets.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: HashSet::new(),
            by_end: BTreeSet::new(),
        }
    }

    /// Uses the ticket `jti`, which ends at `exp`; `now` is in the same seconds.
    ///
    /// # Errors
    ///
    /// When it was used before, or when there is no room to remember it.
    pub fn take(&mut self, jti: &str, exp: u64, now: u64) -> Result<(), UseError> {
        while let Some((end, _)) = self.by_end.first()
            && *end <= now
            && let Some((_, expired)) = self.by_end.pop_first()
        {
            self.used.remove(&expired);
        }
        if self.used.contains(jti) {
            return Err(UseError::Used);
        }
        if self.used.len() >= self.limit {
            return Err(UseError::Full);
        }
        self.used.insert(jti.to_owned());
        self.by_end.insert((exp, jti.to_owned()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_until_it_expires() {
        let mut used = UsedTickets::new(10);
        assert_eq!(used.take("a", 100, 50), Ok(()));
        assert_eq!(used.take("a", 100, 99), Err(UseError::Used));
        // An expired ticket never gets here; its name is free again.
        assert_eq!(used.take("a", 200, 100), Ok(()));
    }

    #[test]
    fn the_cache_is_bounded_and_never_forgets_a_live_ticket() {
        let mut used = UsedTickets::new(2);
        assert_eq!(used.take("a", 100, 0), Ok(()));
        assert_eq!(used.take("b", 110, 0), Ok(()));
        assert_eq!(used.take("c", 120, 99), Err(UseError::Full));
        assert_eq!(used.take("a", 100, 99), Err(UseError::Used));
        assert_eq!(used.take("c", 120, 100), Ok(()));
        assert_eq!(used.used.len(), 2);
        assert_eq!(used.by_end.len(), 2);
    }
}
