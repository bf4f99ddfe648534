use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rendezvous_wire::limits::{HANDSHAKE_COOLDOWN, MAX_FAILED_HANDSHAKES};

/// How long a failure counts: a few bad handshakes a day never pause admission.
pub(super) const FAILURE_MEMORY: Duration = Duration::from_secs(60);

/// Pauses admission after too many failures in a short time.
#[derive(Debug, Default)]
pub(super) struct Admission {
    failures: VecDeque<Instant>,
    paused_until: Option<Instant>,
}

impl Admission {
    /// Whether no handshake is looked at. The end of a pause forgets all failures.
    pub(super) fn is_paused(&mut self, now: Instant) -> bool {
        match self.paused_until {
            Some(until) if now < until => true,
            Some(_) => {
                *self = Self::default();
                false
            }
            None => false,
        }
    }

    /// Counts a failure; during a pause it changes nothing. Returns whether a pause begins.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        if self.is_paused(now) {
            return false;
        }
        while self
            .failures
            .front()
            .is_some_and(|&failure| now.saturating_duration_since(failure) >= FAILURE_MEMORY)
        {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
        let pauses = self.failures.len() >= MAX_FAILED_HANDSHAKES as usize;
        if pauses {
            self.paused_until = Some(now + HANDSHAKE_COOLDOWN);
        }
        pauses
    }
}
