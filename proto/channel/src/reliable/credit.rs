//! How much may be on its way: what we grant, and what we were granted.

use std::time::{Duration, Instant};

use super::mutant::{Switches, is_off};
use super::{FIRST_WINDOW, RECORD_COST, ReliableError};

/// A window whose quarter lasts longer than this is halved.
const SLOW: Duration = Duration::from_secs(10);
/// A window whose quarter lasts less than this, or four round trips, is doubled.
const FAST: Duration = Duration::from_millis(200);
/// What a message counts at least while nobody has taken it.
const LEAST_MESSAGE: u64 = 64;

/// What a piece of this length costs.
pub(crate) fn cost(piece: usize) -> u64 {
    if piece == 0 {
        0
    } else {
        (piece as u64).saturating_add(RECORD_COST)
    }
}

/// What a whole message counts until the application takes it.
pub(crate) fn weight(message: usize) -> u64 {
    (message as u64).max(LEAST_MESSAGE)
}

/// What the peer may send.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    /// Cost of everything that came, early or not.
    received: u64,
    /// Cost of what came in order.
    ordered: u64,
    /// Weight of whole messages that nobody has taken.
    waiting: u64,
    /// Up to where the peer may send.
    limit: u64,
    window: u64,
    since: Instant,
    switches: Switches,
}

impl Granted {
    pub(super) fn new(now: Instant, switches: Switches) -> Self {
        Self {
            received: 0,
            ordered: 0,
            waiting: 0,
            limit: FIRST_WINDOW as u64,
            window: FIRST_WINDOW as u64,
            since: now,
            switches,
        }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// A record with a piece of this length came.
    pub(super) fn receive(&mut self, piece: usize) -> Result<(), ReliableError> {
        let received = self.received + cost(piece);
        if received > self.limit {
            return Err(ReliableError::Overdrawn);
        }
        self.received = received;
        Ok(())
    }

    /// Its turn came.
    pub(super) fn order(&mut self, piece: usize) {
        self.ordered += cost(piece);
    }

    /// Messages of this weight are whole.
    pub(super) fn completed(&mut self, weight: u64) {
        if !is_off!(self.switches, CreditsUntaken) {
            self.waiting += weight;
        }
    }

    /// The application took messages of this weight.
    pub(super) fn taken(&mut self, weight: u64) {
        self.waiting = self.waiting.saturating_sub(weight);
    }

    /// What the limit would be with a window of at most `cap`, if it is worth telling.
    pub(super) fn propose(&mut self, now: Instant, cap: u64, round_trip: Duration) -> Option<u64> {
        let consumed = self.consumed();
        let room = (consumed + self.window).checked_sub(self.limit)?;
        if room < self.window / 4 || room == 0 {
            return None;
        }
        let passed = now.saturating_duration_since(self.since);
        if passed < FAST.max(round_trip * 4) {
            self.window *= 2;
        } else if passed > SLOW {
            self.window /= 2;
        }
        self.window = self.window.min(cap).max(FIRST_WINDOW as u64);
        self.since = now;
        Some(consumed + self.window).filter(|&limit| limit > self.limit)
    }

    /// What is outstanding with this limit: what must be reserved.
    pub(super) fn outstanding(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.consumed())
    }

    pub(super) fn raise(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> [u64; 5] {
        [self.received, self.ordered, self.waiting, self.limit, self.window]
    }

    fn consumed(&self) -> u64 {
        self.ordered.saturating_sub(self.waiting)
    }
}

/// What we may send.
#[derive(Clone, Debug)]
pub(super) struct Allowed {
    spent: u64,
    limit: u64,
    switches: Switches,
}

impl Allowed {
    pub(super) fn new(switches: Switches) -> Self {
        Self {
            spent: 0,
            limit: FIRST_WINDOW as u64,
            switches,
        }
    }

    /// Whether a piece of this length may be sent.
    pub(super) fn permits(&self, piece: usize) -> bool {
        is_off!(self.switches, Overspends)
            || self
                .spent
                .checked_add(cost(piece))
                .is_some_and(|spent| spent <= self.limit)
    }

    pub(super) fn spend(&mut self, piece: usize) {
        self.spent = self.spent.saturating_add(cost(piece));
    }

    /// The peer's limit; an older one changes nothing.
    pub(super) fn raise(&mut self, limit: u64) {
        if limit > self.limit || is_off!(self.switches, LimitShrinks) {
            self.limit = limit;
        }
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> (u64, u64) {
        (self.spent, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: usize = FIRST_WINDOW;

    #[test]
    fn credit_comes_with_what_is_taken() {
        let now = Instant::now();
        let mut granted = Granted::new(now, Switches::default());
        let piece = WINDOW / 4;
        let propose = |granted: &mut Granted| granted.propose(now + SLOW, WINDOW as u64, Duration::ZERO);
        for _ in 0..3 {
            granted.receive(piece).unwrap();
            granted.order(piece);
            granted.completed(weight(piece));
        }
        // What came costs more than its bytes, but not a quarter.
        assert_eq!(propose(&mut granted), None);
        granted.taken(weight(piece));
        let limit = propose(&mut granted).unwrap();
        assert_eq!(limit, (WINDOW + piece) as u64 + 3 * RECORD_COST);
        granted.raise(limit);
        assert_eq!(granted.limit(), limit);
        assert_eq!(granted.outstanding(limit), WINDOW as u64);
        granted.raise(1);
        assert_eq!(granted.limit(), limit);
    }

    #[test]
    fn a_peer_may_send_up_to_its_limit() {
        let mut granted = Granted::new(Instant::now(), Switches::default());
        let mut allowed = Allowed::new(Switches::default());
        let most = WINDOW - 256;
        assert!(allowed.permits(most) && !allowed.permits(most + 1));
        assert_eq!(granted.clone().receive(most + 1), Err(ReliableError::Overdrawn));
        granted.receive(most).unwrap();
        allowed.spend(most);
        assert!(!allowed.permits(1) && allowed.permits(0));
        assert_eq!(granted.clone().receive(1), Err(ReliableError::Overdrawn));
        granted.receive(0).unwrap();
        allowed.raise(0);
        assert!(!allowed.permits(1));
        allowed.raise(WINDOW as u64 + 257);
        assert!(allowed.permits(1) && !allowed.permits(2));
        allowed.raise(u64::MAX);
        allowed.spend(usize::MAX);
        assert!(!allowed.permits(usize::MAX));
    }

    #[test]
    fn a_window_grows_while_it_is_used_quickly() {
        let now = Instant::now();
        let mut granted = Granted::new(now, Switches::default());
        let (cap, quarter) = (4 * WINDOW as u64, WINDOW / 4);
        let mut take = |time: Duration, cap: u64| {
            while {
                granted.receive(quarter).unwrap();
                granted.order(quarter);
                match granted.propose(now + time, cap, Duration::ZERO) {
                    Some(limit) => {
                        granted.raise(limit);
                        false
                    }
                    None => true,
                }
            } {}
            granted.window()
        };
        assert_eq!(take(Duration::ZERO, cap), 2 * WINDOW as u64);
        assert_eq!(take(Duration::ZERO, cap), 4 * WINDOW as u64);
        assert_eq!(take(Duration::ZERO, cap), 4 * WINDOW as u64);
        assert_eq!(take(Duration::from_secs(1), cap), 4 * WINDOW as u64);
        while granted.window() == 4 * WINDOW as u64 {
            granted.receive(quarter).unwrap();
            granted.order(quarter);
            granted.propose(now + Duration::from_secs(12), cap, Duration::ZERO);
        }
        assert_eq!(granted.window(), 2 * WINDOW as u64);
    }
}
