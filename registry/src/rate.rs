//! How often somebody may call.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Credentials whose calls are counted at once.
pub const MAX_CREDENTIALS: usize = 262_144;
/// Client addresses whose failed authentications are counted at once.
pub const MAX_ADDRESSES: usize = 65_536;

/// A sustained rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls per minute over a long time.
    pub per_minute: NonZeroU32,
    /// Calls at once after a pause.
    pub burst: NonZeroU32,
}

impl Rate {
    fn quota(self) -> Quota {
        Quota::per_minute(self.per_minute).allow_burst(self.burst)
    }
}

/// Counts calls by key. When `cap` keys are counted and none of them is idle, all further calls share one more count.
#[derive(Debug)]
pub struct Limiter<K: Hash + Eq + Clone> {
    keyed: DefaultKeyedRateLimiter<K>,
    overflow: DefaultDirectRateLimiter,
    clock: DefaultClock,
    cap: usize,
    start: Instant,
    /// Seconds after `start` of the last look for idle keys, plus one: looking costs time in proportion to the keys.
    cleaned: AtomicU64,
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    /// Starts with no calls counted.
    pub fn new(rate: Rate, cap: usize) -> Self {
        Self {
            keyed: RateLimiter::keyed(rate.quota()),
            overflow: RateLimiter::direct(rate.quota()),
            clock: DefaultClock::default(),
            cap,
            start: Instant::now(),
            cleaned: AtomicU64::new(0),
        }
    }

    /// Counts one call.
    ///
    /// # Errors
    ///
    /// It is one too many; says how long to wait.
    pub fn check(&self, key: &K) -> Result<(), Duration> {
        if self.keyed.len() >= self.cap {
            self.clean();
        }
        let verdict = if self.keyed.len() < self.cap {
            self.keyed.check_key(key)
        } else {
            self.overflow.check()
        };
        verdict.map_err(|denied| denied.wait_time_from(self.clock.now()))
    }

    /// Keys that are counted now.
    pub fn len(&self) -> usize {
        self.keyed.len()
    }

    /// Whether nobody is counted.
    pub fn is_empty(&self) -> bool {
        self.keyed.is_empty()
    }

    /// Forgets idle keys, at most once a second.
    pub fn clean(&self) {
        let now = self.start.elapsed().as_secs() + 1;
        let last = self.cleaned.load(Ordering::Relaxed);
        if now > last
            && self
                .cleaned
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.keyed.retain_recent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Limiter, Rate};

    fn limiter(cap: usize) -> Limiter<u32> {
        let rate = Rate {
            per_minute: 60.try_into().unwrap(),
            burst: 3.try_into().unwrap(),
        };
        Limiter::new(rate, cap)
    }

    #[test]
    fn a_burst_then_a_wait() {
        let limiter = limiter(10);
        for _ in 0..3 {
            limiter.check(&1).unwrap();
        }
        let wait = limiter.check(&1).unwrap_err();
        assert!(wait.as_millis() > 0 && wait.as_secs() <= 1, "{wait:?}");
        limiter.check(&2).unwrap();
    }

    #[test]
    fn a_full_map_grows_no_further() {
        let limiter = limiter(10);
        for key in 0..10 {
            limiter.check(&key).unwrap();
        }
        let shared = (10..1000).filter(|key| limiter.check(key).is_ok()).count();
        assert_eq!(shared, 3);
        assert_eq!(limiter.len(), 10);
    }
}
