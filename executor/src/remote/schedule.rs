//! When to register, and when to dial which relay. No clock, no randomness, no socket of its own.

use std::time::{Duration, Instant};

use rendezvous_transport::backoff::{Backoff, jitter};

/// Longest time that relays are dialled in vain, from the loss of the connection or from the registration on, before the
/// registry is asked for another place. Each executor waits for a random part of the last [`SPREAD`], so that those of a
/// dead relay do not come all at once. Long enough for the registry to notice the relay's death
/// ([`PRESENCE_LEASE`](rendezvous_wire::limits::PRESENCE_LEASE)), short enough for harnesses, which look for their executor
/// for 45 s.
pub(super) const UNREACHABLE: Duration = Duration::from_secs(30);
/// See [`UNREACHABLE`].
pub(super) const SPREAD: Duration = Duration::from_secs(10);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Ask the registry for a place.
    Register,
    /// Dial the place that the registry gave last.
    Dial,
}

/// What to do next, after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) turn: Turn,
    pub(super) pause: Duration,
}

/// Why a dial failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The relay takes the ticket no more.
    TicketRefused,
    /// The relay was not reached, or did not say that the ticket is spoiled.
    Passing,
}

/// What the last registration is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// There is none, or its ticket is spoiled.
    None,
    /// Its URL has not worked yet.
    Fresh,
    /// Its URL worked.
    Proven,
}

/// The rules for one executor life.
#[derive(Debug)]
pub(super) struct Schedule {
    dials: Backoff,
    registrations: Backoff,
    place: Place,
    /// How many relays the last registration names.
    relays: usize,
    /// Which of them is dialled.
    relay: usize,
    /// How many were dialled in vain in a row, since the last pause.
    in_vain: usize,
    /// When relays that stay out of reach are given up.
    give_up: Instant,
}

impl Schedule {
    /// At the start: register at once.
    pub(super) fn new(now: Instant) -> (Self, Next) {
        let schedule = Self {
            dials: Backoff::new(),
            registrations: Backoff::new(),
            place: Place::None,
            relays: 1,
            relay: 0,
            in_vain: 0,
            give_up: now,
        };
        (schedule, at_once(Turn::Register))
    }

    /// Whether a registration is held that may still lead to the relay.
    pub(super) fn has_place(&self) -> bool {
        self.place != Place::None
    }

    /// Which of the place's relays is dialled next.
    pub(super) fn relay(&self) -> usize {
        self.relay
    }

    /// The registry gave a place with so many relays; `random` is 64 uniformly random bits, here and below.
    pub(super) fn registered(&mut self, now: Instant, relays: usize, random: u64) -> Next {
        self.registrations = Backoff::new();
        self.place = Place::Fresh;
        self.relays = relays.max(1);
        self.relay = 0;
        self.in_vain = 0;
        self.be_patient(now, random);
        at_once(Turn::Dial)
    }

    /// The registry gave none, which may pass, and wants not to be asked for `retry_after`.
    pub(super) fn register_failed(&mut self, now: Instant, retry_after: Duration, random: u64) -> Next {
        if !self.has_place() {
            let pause = self.registrations.delay(random).max(retry_after);
            return Next {
                turn: Turn::Register,
                pause,
            };
        }
        // The old place may come back sooner than the registry.
        let pause = self.dials.delay(random);
        self.give_up = now + pause.max(retry_after);
        Next {
            turn: Turn::Dial,
            pause,
        }
    }

    /// The relay connection is up. Returns whether it is the first of this registration.
    pub(super) fn connected(&mut self) -> bool {
        self.in_vain = 0;
        std::mem::replace(&mut self.place, Place::Proven) != Place::Proven
    }

    /// The relay connection, which `lasted` this long, is lost.
    pub(super) fn lost(&mut self, now: Instant, lasted: Duration, random: u64) -> Next {
        self.dials.lasted(lasted);
        self.be_patient(now, random);
        Next {
            turn: Turn::Dial,
            pause: self.dials.delay(random),
        }
    }

    /// A dial failed, and the relay wants not to be asked for `retry_after`.
    pub(super) fn dial_failed(&mut self, now: Instant, failure: Failure, retry_after: Duration, random: u64) -> Next {
        let known = self.place;
        if failure == Failure::TicketRefused {
            self.place = Place::None;
            if known == Place::Proven {
                return at_once(Turn::Register);
            }
        }
        if failure == Failure::Passing && self.turn_to_another() && now < self.give_up {
            return at_once(Turn::Dial);
        }
        let pause = self.dials.delay(random).max(retry_after);
        if failure == Failure::TicketRefused {
            // A relay that refuses a ticket which the registry has just made would otherwise be asked without pause.
            return Next {
                turn: Turn::Register,
                pause,
            };
        }
        let patience = self.give_up.saturating_duration_since(now);
        if pause < patience {
            Next {
                turn: Turn::Dial,
                pause,
            }
        } else {
            Next {
                turn: Turn::Register,
                pause: patience,
            }
        }
    }

    /// Goes on to the next relay. False when all of them were tried, and it is time for a pause.
    fn turn_to_another(&mut self) -> bool {
        self.relay = (self.relay + 1) % self.relays;
        self.in_vain += 1;
        let has_more = self.in_vain < self.relays;
        if !has_more {
            self.in_vain = 0;
        }
        has_more
    }

    fn be_patient(&mut self, now: Instant, random: u64) {
        // `jitter` gives the upper half of what it is given.
        self.give_up = now + (UNREACHABLE - SPREAD * 2) + jitter(SPREAD * 2, random);
    }
}

fn at_once(turn: Turn) -> Next {
    Next {
        turn,
        pause: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use rendezvous_wire::limits::PRESENCE_LEASE;

    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A schedule whose relay connection is up.
    fn connected(now: Instant) -> Schedule {
        let (mut schedule, next) = Schedule::new(now);
        assert_eq!(next, at_once(Turn::Register));
        assert_eq!(schedule.registered(now, 1, 0), at_once(Turn::Dial));
        assert!(schedule.connected());
        schedule
    }

    /// Fails every dial from the loss of a connection on, each after `each`; when the registry is asked, after the loss.
    fn until_register(each: Duration, random: u64) -> (Duration, usize, Schedule) {
        let start = Instant::now();
        let mut schedule = connected(start);
        let mut now = start;
        let mut next = schedule.lost(now, secs(3600), random);
        let mut dials = 0;
        while next.turn == Turn::Dial {
            dials += 1;
            now += next.pause + each;
            next = schedule.dial_failed(now, Failure::Passing, NOW, random);
        }
        (now + next.pause - start, dials, schedule)
    }

    #[test]
    fn a_relay_that_stays_away_is_given_up_within_thirty_seconds() {
        assert_eq!(until_register(NOW, u64::MAX).0, UNREACHABLE);
        assert_eq!(until_register(NOW, 0).0, UNREACHABLE - SPREAD);
        for random in [0, u64::MAX / 3, u64::MAX] {
            let (after, dials, _) = until_register(NOW, random);
            assert!(dials >= 4, "{dials}");
            assert!(
                after > PRESENCE_LEASE,
                "the registry still believes in the relay: {after:?}"
            );
        }
        // A dial that runs into its time-out is not cut.
        let (after, ..) = until_register(secs(10), u64::MAX);
        assert!(after >= UNREACHABLE && after <= UNREACHABLE + secs(10), "{after:?}");
    }

    #[test]
    fn the_new_place_is_dialled_at_once_and_gets_all_the_patience() {
        let (_, _, mut schedule) = until_register(NOW, u64::MAX);
        let now = Instant::now();
        assert_eq!(schedule.registered(now, 1, u64::MAX), at_once(Turn::Dial));
        let mut waited = NOW;
        loop {
            let next = schedule.dial_failed(now + waited, Failure::Passing, NOW, 0);
            waited += next.pause;
            if next.turn == Turn::Register {
                break;
            }
        }
        assert_eq!(waited, UNREACHABLE);
    }

    #[test]
    fn while_the_registry_is_away_the_old_place_is_tried_in_turn() {
        let (_, _, mut schedule) = until_register(NOW, u64::MAX);
        let now = Instant::now();
        let next = schedule.register_failed(now, NOW, u64::MAX);
        assert_eq!(next.turn, Turn::Dial);
        let now = now + next.pause;
        let next = schedule.dial_failed(now, Failure::Passing, NOW, 0);
        assert_eq!(next, at_once(Turn::Register));
        // The registry's own wish is kept.
        let asked = schedule.register_failed(now, secs(300), 0);
        assert_eq!(asked.turn, Turn::Dial);
        let next = schedule.dial_failed(now + asked.pause, Failure::Passing, NOW, 0);
        assert_eq!(next.turn, Turn::Dial);
        assert!(!schedule.connected(), "the registration is the old one");
    }

    #[test]
    fn a_connection_starts_the_patience_anew() {
        let now = Instant::now();
        let mut schedule = connected(now);
        let later = now + secs(3600);
        assert_eq!(schedule.lost(later, secs(3600), 0).turn, Turn::Dial);
        let next = schedule.dial_failed(later + secs(1), Failure::Passing, NOW, 0);
        assert_eq!(
            next,
            Next {
                turn: Turn::Dial,
                pause: secs(1)
            }
        );
    }

    #[test]
    fn a_wish_of_the_relay_is_kept_until_it_is_given_up() {
        let now = Instant::now();
        let mut schedule = connected(now);
        schedule.lost(now, NOW, u64::MAX);
        let next = schedule.dial_failed(now, Failure::Passing, secs(20), 0);
        assert_eq!(
            next,
            Next {
                turn: Turn::Dial,
                pause: secs(20)
            }
        );
        let next = schedule.dial_failed(now, Failure::Passing, secs(300), 0);
        assert_eq!(
            next,
            Next {
                turn: Turn::Register,
                pause: UNREACHABLE
            }
        );
    }

    #[test]
    fn a_refused_ticket_leads_to_the_registry() {
        let now = Instant::now();
        let mut schedule = connected(now);
        let next = schedule.dial_failed(now, Failure::TicketRefused, NOW, u64::MAX);
        assert_eq!(next, at_once(Turn::Register));
        assert!(!schedule.has_place());
        // Without a place only the registry is asked.
        for seconds in [1, 2, 4] {
            let next = schedule.register_failed(now, NOW, u64::MAX);
            assert_eq!(
                next,
                Next {
                    turn: Turn::Register,
                    pause: secs(seconds)
                }
            );
        }
        schedule.registered(now, 1, 0);
        let next = schedule.dial_failed(now, Failure::TicketRefused, NOW, u64::MAX);
        assert_eq!(next.turn, Turn::Register);
        assert!(
            next.pause >= secs(1),
            "a ticket that never worked is no reason to hurry"
        );
    }

    #[test]
    fn the_other_relays_are_tried_before_a_pause() {
        let now = Instant::now();
        let mut schedule = connected(now);
        schedule.registered(now, 3, 0);
        assert!(schedule.connected());
        let lost = schedule.lost(now, secs(3600), u64::MAX);
        assert_eq!((lost.turn, lost.pause, schedule.relay()), (Turn::Dial, secs(1), 0));
        for relay in [1, 2] {
            let next = schedule.dial_failed(now, Failure::Passing, secs(5), 0);
            assert_eq!((next, schedule.relay()), (at_once(Turn::Dial), relay));
        }
        let next = schedule.dial_failed(now, Failure::Passing, NOW, u64::MAX);
        assert_eq!((next.turn, next.pause, schedule.relay()), (Turn::Dial, secs(2), 0));
        assert_eq!(schedule.dial_failed(now, Failure::Passing, NOW, 0), at_once(Turn::Dial));
        // The one that takes us is the one to come back to.
        assert!(!schedule.connected());
        schedule.lost(now, secs(3600), 0);
        assert_eq!(schedule.relay(), 1);
        assert_eq!(schedule.dial_failed(now, Failure::Passing, NOW, 0), at_once(Turn::Dial));
        // A spoiled ticket is spoiled everywhere.
        let next = schedule.dial_failed(now, Failure::TicketRefused, NOW, 0);
        assert_eq!(next, at_once(Turn::Register));
        schedule.registered(now, 0, 0);
        assert_eq!(schedule.relay(), 0);
        assert_ne!(schedule.dial_failed(now, Failure::Passing, NOW, 0), at_once(Turn::Dial));
    }

    #[test]
    fn relays_that_all_stay_away_are_given_up_as_one_is() {
        let start = Instant::now();
        let mut schedule = connected(start);
        schedule.registered(start, 4, u64::MAX);
        let mut now = start;
        let mut next = schedule.lost(now, NOW, u64::MAX);
        while next.turn == Turn::Dial {
            now += next.pause;
            next = schedule.dial_failed(now, Failure::Passing, NOW, u64::MAX);
        }
        assert_eq!(now + next.pause - start, UNREACHABLE);
    }
}
