//! The jittered delay between attempts.

use std::time::Duration;

/// First delay, before jitter.
pub const FIRST: Duration = Duration::from_secs(1);
/// Longest delay, before jitter.
pub const LONGEST: Duration = Duration::from_secs(30);
/// How long a connection must last before the delay starts from the beginning again.
pub const STABLE: Duration = Duration::from_secs(120);

/// Delays of 1, 2, 4, 8, 16, 30, 30, … seconds, each a random part of `[d/2, d]`.
///
/// A connection that dies at once does not start the row again: otherwise a peer that accepts and drops would be
/// dialled without pause.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    attempt: u32,
}

impl Backoff {
    /// Starts with the shortest delay: [`FIRST`], and never more than [`LONGEST`].
    pub fn new() -> Self {
        Self::between(FIRST, LONGEST)
    }

    /// Starts with `first`, and doubles up to `longest`.
    pub fn between(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            attempt: 0,
        }
    }

    /// The next delay; `random` is 64 uniformly random bits.
    pub fn delay(&mut self, random: u64) -> Duration {
        let full = self.first.saturating_mul(1 << self.attempt.min(20)).min(self.longest);
        self.attempt = self.attempt.saturating_add(1);
        jitter(full, random)
    }

    /// Tells how long the last connection lasted.
    pub fn lasted(&mut self, time: Duration) {
        if time >= STABLE {
            self.attempt = 0;
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

/// A uniformly random part of `[full/2, full]`; `random` is 64 uniformly random bits.
pub fn jitter(full: Duration, random: u64) -> Duration {
    let half = full / 2;
    let nanos = u64::try_from((full - half).as_nanos()).unwrap_or(u64::MAX);
    // The upper half of a 128-bit product maps 64 random bits onto 0..=nanos without a division.
    let part = (u128::from(random) * (u128::from(nanos) + 1)) >> 64;
    half + Duration::from_nanos(u64::try_from(part).unwrap_or(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_thirty_seconds() {
        let (mut low, mut high) = (Backoff::new(), Backoff::new());
        for seconds in [1, 2, 4, 8, 16, 30, 30, 30] {
            let full = Duration::from_secs(seconds);
            assert_eq!(low.delay(0), full / 2);
            assert_eq!(high.delay(u64::MAX), full);
        }
    }

    #[test]
    fn stays_high_for_connections_that_die_young() {
        let mut backoff = Backoff::new();
        for _ in 0..4 {
            backoff.delay(0);
        }
        backoff.lasted(STABLE - Duration::from_nanos(1));
        assert_eq!(backoff.delay(u64::MAX), Duration::from_secs(16));
        backoff.lasted(STABLE);
        assert_eq!(backoff.delay(u64::MAX), FIRST);
    }

    #[test]
    fn spreads_evenly() {
        let quarter = jitter(Duration::from_secs(4), u64::MAX / 4);
        assert!(quarter.abs_diff(Duration::from_millis(2500)) < Duration::from_micros(1));
        assert_eq!(jitter(Duration::ZERO, u64::MAX), Duration::ZERO);
    }

    #[test]
    fn never_overflows() {
        let mut backoff = Backoff::new();
        backoff.attempt = u32::MAX;
        assert_eq!(backoff.delay(u64::MAX), LONGEST);
        let mut backoff = Backoff::between(Duration::from_secs(u64::MAX / 2), LONGEST);
        backoff.delay(0);
        assert_eq!(backoff.delay(u64::MAX), LONGEST);
    }
}
