//! When a connection is pinged, and when it is given up: a clockwork without a clock.
//!
//! The rules are those of the stock protocol (`proto/README.md`, "Relay connections"): a ping every 30 s, none while one is
//! unanswered; 60 s for the answer, counted from the moment the ping was written; other traffic is no sign of life; a write
//! that blocks ends with the answer's deadline, or after 60 s when no ping is out. A patient clockwork only pings.

use std::time::Instant;

use rendezvous_wire::limits::{PING_INTERVAL, PONG_TIMEOUT};

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a ping. It counts once [`Keepalive::written`] is told.
    Ping,
    /// Give the connection up.
    Expired(Expired),
    /// Nothing before this time.
    Wait(Instant),
}

/// Why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// A ping got no answer.
    Pong,
    /// The peer took no bytes.
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ping {
    /// None is on its way.
    Idle,
    /// Given to the socket, not yet written completely.
    Queued,
    /// Written; must be answered in time.
    Outstanding { deadline: Instant },
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub struct Keepalive {
    next_ping: Instant,
    ping: Ping,
    blocked_since: Option<Instant>,
    is_patient: bool,
}

impl Keepalive {
    /// Starts with a connection that was opened `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            next_ping: now + PING_INTERVAL,
            ping: Ping::Idle,
            blocked_since: None,
            is_patient: false,
        }
    }

    /// Starts with a connection on which no answer is expected and a write may block for ever.
    pub fn patient(now: Instant) -> Self {
        Self {
            is_patient: true,
            ..Self::new(now)
        }
    }

    /// What to do `now`. Ask again after each [`Action::Ping`], and at the time of [`Action::Wait`].
    pub fn poll(&mut self, now: Instant) -> Action {
        let mut wake = self.next_ping;
        if let Ping::Outstanding { deadline } = self.ping {
            if now >= deadline {
                return Action::Expired(Expired::Pong);
            }
            wake = wake.min(deadline);
        }
        if let Some(since) = self.blocked_since
            && !self.is_patient
            && !matches!(self.ping, Ping::Outstanding { .. })
        {
            let deadline = since + PONG_TIMEOUT;
            if now >= deadline {
                return Action::Expired(Expired::Write);
            }
            wake = wake.min(deadline);
        }
        if now < self.next_ping {
            return Action::Wait(wake);
        }
        // A late call, after the machine slept, sends one ping and not all that were missed.
        self.next_ping = now + PING_INTERVAL;
        if self.ping == Ping::Idle {
            self.ping = Ping::Queued;
            return Action::Ping;
        }
        self.poll(now)
    }

    /// All that was given to the socket is written.
    pub fn written(&mut self, now: Instant) {
        self.blocked_since = None;
        if self.ping == Ping::Queued {
            self.ping = if self.is_patient {
                Ping::Idle
            } else {
                Ping::Outstanding {
                    deadline: now + PONG_TIMEOUT,
                }
            };
        }
    }

    /// The socket takes no more bytes for now.
    pub fn blocked(&mut self, now: Instant) {
        self.blocked_since.get_or_insert(now);
    }

    /// A pong came; its payload does not matter.
    pub fn pong(&mut self) {
        // Also a ping that is only queued: its bytes may be out while later ones are still waiting.
        self.ping = Ping::Idle;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs a connection in virtual time until it expires or `end`, answering pings `answer` after they were written.
    fn run(end: u32, answer: impl Fn(u32) -> Option<u32>) -> (Vec<u32>, Option<(u32, Expired)>) {
        let start = Instant::now();
        let mut keepalive = Keepalive::new(start);
        let (mut pings, mut pong) = (Vec::new(), None);
        for second in 0..end {
            let now = start + SECOND * second;
            if pong == Some(second) {
                keepalive.pong();
            }
            loop {
                match keepalive.poll(now) {
                    Action::Ping => {
                        pings.push(second);
                        keepalive.written(now);
                        pong = answer(second).map(|delay| second + delay);
                    }
                    Action::Expired(expired) => return (pings, Some((second, expired))),
                    Action::Wait(until) => {
                        assert!(until > now, "waits for the past");
                        break;
                    }
                }
            }
        }
        (pings, None)
    }

    #[test]
    fn pings_every_thirty_seconds() {
        let (pings, expired) = run(200, |_| Some(1));
        assert_eq!(pings, [30, 60, 90, 120, 150, 180]);
        assert_eq!(expired, None);
    }

    #[test]
    fn no_ping_while_one_is_unanswered() {
        let (pings, expired) = run(200, |_| Some(45));
        assert_eq!(pings, [30, 90, 150]);
        assert_eq!(expired, None);
    }

    #[test]
    fn a_missing_pong_ends_the_connection_after_sixty_seconds() {
        let (pings, expired) = run(500, |second| (second < 60).then_some(1));
        assert_eq!(pings, [30, 60]);
        assert_eq!(expired, Some((120, Expired::Pong)));
    }

    #[test]
    fn a_patient_connection_is_pinged_and_never_given_up() {
        let start = Instant::now();
        let mut keepalive = Keepalive::patient(start);
        assert_eq!(keepalive.poll(start + 30 * SECOND), Action::Ping);
        keepalive.written(start + 30 * SECOND);
        assert_eq!(keepalive.poll(start + 60 * SECOND), Action::Ping);
        keepalive.blocked(start + 60 * SECOND);
        // The ping is still behind what blocks: no second one.
        for second in [90, 120, 1000] {
            assert!(matches!(keepalive.poll(start + second * SECOND), Action::Wait(_)));
        }
        keepalive.written(start + 1000 * SECOND);
        assert_eq!(keepalive.poll(start + 1030 * SECOND), Action::Ping);
    }

    #[test]
    fn the_deadline_counts_from_the_written_ping() {
        let start = Instant::now();
        let mut keepalive = Keepalive::new(start);
        let ping = start + PING_INTERVAL;
        assert_eq!(keepalive.poll(ping), Action::Ping);
        keepalive.blocked(ping);
        let written = ping + 20 * SECOND;
        keepalive.written(written);
        let before = written + PONG_TIMEOUT - SECOND;
        assert!(matches!(keepalive.poll(before), Action::Wait(_)));
        assert_eq!(keepalive.poll(written + PONG_TIMEOUT), Action::Expired(Expired::Pong));
    }

    #[test]
    fn a_blocked_write_ends_after_sixty_seconds() {
        let start = Instant::now();
        let mut keepalive = Keepalive::new(start);
        keepalive.blocked(start + SECOND);
        keepalive.blocked(start + 20 * SECOND);
        assert_eq!(keepalive.poll(start + PING_INTERVAL), Action::Ping);
        let end = start + SECOND + PONG_TIMEOUT;
        assert!(matches!(keepalive.poll(end - SECOND), Action::Wait(until) if until == end));
        assert_eq!(keepalive.poll(end), Action::Expired(Expired::Write));
        keepalive.written(end);
        assert!(
            matches!(keepalive.poll(end), Action::Wait(_)),
            "the write went through after all"
        );
    }

    #[test]
    fn a_blocked_write_ends_with_the_outstanding_pong() {
        let start = Instant::now();
        let mut keepalive = Keepalive::new(start);
        let ping = start + PING_INTERVAL;
        assert_eq!(keepalive.poll(ping), Action::Ping);
        keepalive.written(ping);
        keepalive.blocked(ping + 50 * SECOND);
        assert_eq!(keepalive.poll(ping + PONG_TIMEOUT), Action::Expired(Expired::Pong));
    }

    #[test]
    fn a_pong_may_overtake_the_news_of_the_write() {
        let start = Instant::now();
        let mut keepalive = Keepalive::new(start);
        let ping = start + PING_INTERVAL;
        assert_eq!(keepalive.poll(ping), Action::Ping);
        keepalive.pong();
        keepalive.written(ping + SECOND);
        assert_eq!(keepalive.poll(ping + PONG_TIMEOUT + SECOND), Action::Ping);
    }
}
