//! The time that a record and its acknowledgement take, and how long to wait for them: RFC 6298.

use std::time::Duration;

/// Timeout before the first sample.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// Least timeout: receivers delay acknowledgements.
const MIN_TIMEOUT: Duration = Duration::from_millis(250);
/// Longest timeout.
const MAX_TIMEOUT: Duration = Duration::from_secs(8);
/// Doublings of the timeout.
const MAX_BACKOFF: u32 = 6;

/// Estimates the round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variance: Duration,
    backoff: u32,
}

impl RoundTrip {
    /// Takes the time that one record and its acknowledgement took. Records that were sent twice tell nothing.
    pub(super) fn sample(&mut self, time: Duration) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(time);
            self.variance = time / 2;
            return;
        };
        self.variance = (self.variance * 3 + smoothed.abs_diff(time)) / 4;
        self.smoothed = Some((smoothed * 7 + time) / 8);
    }

    /// The smoothed round trip, as far as one is known.
    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(FIRST_TIMEOUT)
    }

    /// How long to wait before something is sent again.
    pub(super) fn timeout(&self) -> Duration {
        let timeout = match self.smoothed {
            Some(smoothed) => smoothed + self.variance * 4,
            None => FIRST_TIMEOUT,
        };
        (timeout.clamp(MIN_TIMEOUT, MAX_TIMEOUT) * (1 << self.backoff)).min(MAX_TIMEOUT)
    }

    /// The timeout passed: the next one is twice as long.
    pub(super) fn expired(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
    }

    /// Something arrived.
    pub(super) fn progress(&mut self) {
        self.backoff = 0;
    }

    /// Timeouts in a row without progress.
    pub(super) fn expirations(&self) -> u32 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_timeout_follows_the_samples() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.timeout(), FIRST_TIMEOUT);
        rtt.sample(ms(400));
        assert_eq!((rtt.smoothed(), rtt.timeout()), (ms(400), ms(1200)));
        for _ in 0..100 {
            rtt.sample(ms(600));
        }
        assert!(rtt.smoothed().abs_diff(ms(600)) < ms(1));
        assert!(rtt.timeout() < ms(610));
        for _ in 0..100 {
            rtt.sample(ms(1));
        }
        assert_eq!(rtt.timeout(), MIN_TIMEOUT);
        rtt.sample(Duration::MAX / 16);
        assert_eq!(rtt.timeout(), MAX_TIMEOUT);
    }

    #[test]
    fn the_timeout_doubles_until_something_arrives() {
        let mut rtt = RoundTrip::default();
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(rtt.timeout().as_secs());
            rtt.expired();
        }
        assert_eq!((seen, rtt.expirations()), (vec![1, 2, 4, 8, 8], 5));
        rtt.progress();
        assert_eq!((rtt.timeout(), rtt.expirations()), (FIRST_TIMEOUT, 0));
    }
}
