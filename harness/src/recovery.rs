//! When to try again: first connects and lost connections. No clock, no randomness of its own.

use std::time::{Duration, Instant};

/// How long and how often a connection is tried for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// From the first attempt, or from the loss, to giving up; it cuts a running attempt too.
    pub budget: Duration,
    /// Most attempts after the first.
    pub max_retries: Option<u32>,
}

impl Policy {
    /// For a client that was never connected: four retries within 14 s, as newer stock clients do.
    pub const FIRST: Self = Self {
        budget: Duration::from_secs(14),
        max_retries: Some(4),
    };
    /// For a client that lost its connection: as often as fits into 45 s. Executors keep a session for 30 s (old stock ones)
    /// or 80 s.
    pub const LOST: Self = Self {
        budget: Duration::from_secs(45),
        max_retries: None,
    };
}

/// What is left, at least, for a client that has waited for its stream already.
const LAST_CHANCE: Duration = Duration::from_secs(15);

impl Policy {
    /// What is left of it when a stream has waited so long for its connection, in vain.
    pub(crate) fn after(self, waited: Duration) -> Self {
        Self {
            budget: self.budget.saturating_sub(waited).max(LAST_CHANCE.min(self.budget)),
            ..self
        }
    }
}

/// Base of the delay after the first failure.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Longest base of a delay.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// What a failed attempt says about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may work later, but not before the given time has passed.
    Retry(Duration),
    /// It will fail again.
    Final,
}

/// What to do after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try again at this time.
    RetryAt(Instant),
    /// Give up now.
    GiveUp,
}

/// One row of attempts.
#[derive(Clone, Debug)]
pub struct Recovery {
    policy: Policy,
    started: Instant,
    failures: u32,
}

impl Recovery {
    /// Begins now; the first attempt is due at once.
    pub fn new(policy: Policy, now: Instant) -> Self {
        Self {
            policy,
            started: now,
            failures: 0,
        }
    }

    /// Goes on for another connection that was lost: it has a budget of its own, and the delays go on growing.
    pub fn again(&mut self, policy: Policy, now: Instant) {
        self.policy = policy;
        self.started = now;
    }

    /// When a running attempt must be cut.
    pub fn deadline(&self) -> Instant {
        self.started + self.policy.budget
    }

    /// Decides after a failure; `random` is 64 uniformly random bits.
    pub fn failed(&mut self, now: Instant, verdict: Verdict, random: u64) -> Decision {
        let exponent = self.failures.min(8);
        self.failures += 1;
        let Verdict::Retry(at_least) = verdict else {
            return Decision::GiveUp;
        };
        if self.policy.max_retries.is_some_and(|most| self.failures > most) {
            return Decision::GiveUp;
        }
        let base = FIRST_DELAY.saturating_mul(1 << exponent).min(LONGEST_DELAY);
        let jitter = (base / 2).mul_f64(unit(random));
        let at = now + (base + jitter).max(at_least);
        if at >= self.deadline() {
            return Decision::GiveUp;
        }
        Decision::RetryAt(at)
    }
}

/// A number from 0 to 1 from random bits.
fn unit(random: u64) -> f64 {
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Verdict = Verdict::Retry(Duration::ZERO);

    fn delays(policy: Policy, random: u64) -> Vec<u64> {
        let mut now = Instant::now();
        let mut recovery = Recovery::new(policy, now);
        let mut delays = Vec::new();
        while let Decision::RetryAt(at) = recovery.failed(now, RETRY, random) {
            delays.push(u64::try_from((at - now).as_millis()).unwrap());
            now = at;
        }
        delays
    }

    #[test]
    fn delays_grow_to_five_seconds_within_the_budget() {
        assert_eq!(
            delays(Policy::LOST, 0),
            [500, 1000, 2000, 4000, 5000, 5000, 5000, 5000, 5000, 5000, 5000]
        );
        let longest = delays(Policy::LOST, u64::MAX);
        assert_eq!(longest[..3], [750, 1500, 3000]);
        assert_eq!(longest[5], 7499);
    }

    #[test]
    fn a_stream_that_waited_leaves_less_time_and_some_in_any_case() {
        let after = |seconds| Policy::LOST.after(Duration::from_secs(seconds)).budget.as_secs();
        assert_eq!([0, 20, 40, 500].map(after), [45, 25, 15, 15]);
        let short = Policy {
            budget: Duration::from_secs(1),
            ..Policy::LOST
        };
        assert_eq!(short.after(Duration::from_secs(45)), short);
    }

    #[test]
    fn a_first_connect_is_tried_five_times() {
        assert_eq!(delays(Policy::FIRST, 0), [500, 1000, 2000, 4000]);
        let late = Instant::now();
        let mut recovery = Recovery::new(Policy::FIRST, late);
        let decision = recovery.failed(late + Duration::from_secs(13), RETRY, u64::MAX);
        assert!(matches!(decision, Decision::RetryAt(at) if at < recovery.deadline()));
        let decision = recovery.failed(late + Duration::from_millis(13_500), RETRY, 0);
        assert_eq!(decision, Decision::GiveUp);
    }

    #[test]
    fn a_final_failure_ends_at_once() {
        let now = Instant::now();
        let mut recovery = Recovery::new(Policy::LOST, now);
        assert_eq!(recovery.failed(now, Verdict::Final, 0), Decision::GiveUp);
    }

    #[test]
    fn the_other_side_may_ask_for_more_time() {
        let now = Instant::now();
        let mut recovery = Recovery::new(Policy::LOST, now);
        let after = Duration::from_secs(7);
        assert_eq!(
            recovery.failed(now, Verdict::Retry(after), 0),
            Decision::RetryAt(now + after)
        );
        let too_long = Verdict::Retry(Duration::from_secs(300));
        assert_eq!(recovery.failed(now, too_long, 0), Decision::GiveUp);
    }

    #[test]
    fn another_loss_has_the_budget_and_keeps_the_delays() {
        let now = Instant::now();
        let mut recovery = Recovery::new(Policy::LOST, now);
        for _ in 0..3 {
            recovery.failed(now, RETRY, 0);
        }
        let later = now + Duration::from_secs(60);
        recovery.again(Policy::LOST, later);
        assert_eq!(recovery.deadline(), later + Policy::LOST.budget);
        assert_eq!(
            recovery.failed(later, RETRY, 0),
            Decision::RetryAt(later + Duration::from_secs(4))
        );
    }

    #[test]
    fn a_loss_may_begin_with_less_than_the_whole_budget() {
        let now = Instant::now();
        let mut recovery = Recovery::new(Policy::LOST, now);
        let rest = Policy::LOST.after(Duration::from_secs(20));
        recovery.again(rest, now);
        assert_eq!(recovery.deadline(), now + Duration::from_secs(25));
    }
}
