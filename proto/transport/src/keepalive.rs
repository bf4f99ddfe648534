//! When a connection is pinged, and when it is given up: a clockwork without a clock.
//!
//! The rules are those of the stock protocol (`proto/README.md`, "Relay connections"): a ping every 30 s, none while one is
//! unanswered; 60 s for the answer, counted from the moment the ping was written; other traffic is no sign of life; a write
//! that blocks ends with the answer's deadline, or after 60 s when no ping is out. A patient clockwork only pings.
//!
//! One thing is added: after the machine slept, the peer is pinged at once and has [`AWAKE_TIMEOUT`] to answer; and it is given
//! up without a question if the machine slept so long that the peer has done the same by these rules ([`GIVEN_UP`]).

use std::time::{Duration, Instant};

use rendezvous_wire::limits::{PING_INTERVAL, PONG_TIMEOUT};

use crate::wake::Watch;

/// Longest time that a pong may take after the machine slept. Networks need some seconds to come back.
pub const AWAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that heard nothing for so long has given the connection up.
pub const GIVEN_UP: Duration = Duration::from_secs(PING_INTERVAL.as_secs() + PONG_TIMEOUT.as_secs());

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
    /// The machine slept for too long.
    Slept,
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
    watch: Option<Watch>,
    /// By when a pong must come after the machine slept.
    awake_deadline: Option<Instant>,
    is_given_up: bool,
}

impl Keepalive {
    /// Starts with a connection that was opened `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            next_ping: now + PING_INTERVAL,
            ping: Ping::Idle,
            blocked_since: None,
            is_patient: false,
            watch: None,
            awake_deadline: None,
            is_given_up: false,
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
    ///
    /// `boot_clock` is a clock that goes on while the machine sleeps, which the clock of `now` need not do; it is looked at once
    /// a second.
    pub fn poll(&mut self, now: Instant, boot_clock: impl Fn() -> Duration) -> Action {
        let watch = self.watch.get_or_insert_with(|| Watch::new(now, boot_clock()));
        if now >= watch.next_look()
            && let Some(slept) = watch.look(now, boot_clock())
        {
            self.awoken(now, slept);
        }
        let next_look = self.watch.as_ref().map_or(now, Watch::next_look);
        match self.due(now) {
            Action::Wait(until) => Action::Wait(until.min(next_look)),
            action => action,
        }
    }

    fn awoken(&mut self, now: Instant, slept: Duration) {
        if self.is_patient {
            self.next_ping = now;
        } else if slept >= GIVEN_UP {
            self.is_given_up = true;
        } else {
            self.awake_deadline = Some(now + AWAKE_TIMEOUT);
            // An older one that is still unanswered does as well.
            if self.ping == Ping::Idle {
                self.next_ping = now;
            }
        }
    }

    fn due(&mut self, now: Instant) -> Action {
        if self.is_given_up {
            return Action::Expired(Expired::Slept);
        }
        let mut wake = self.next_ping;
        if let Some(deadline) = self.awake_deadline {
            if now >= deadline {
                return Action::Expired(Expired::Pong);
            }
            wake = wake.min(deadline);
        }
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
        self.due(now)
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
        self.awake_deadline = None;
    }
}

#[cfg(test)]
mod tests;
