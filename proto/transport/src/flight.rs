//! How much is on its way to the relay at once. Many streams share that way, and a message that is small and urgent waits
//! behind what has been written to it; so no more is written than the way takes, and a little.
//!
//! Pings between the messages tell how far the relay has read. No clock, no socket.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What may be on its way in any case, in bytes: two large frames. Where short messages share the way, less.
const LEAST: usize = 128 * 1024;
const LEAST_SHARED: usize = 16 * 1024;
/// The most: more than 1 Gbit/s at 100 ms needs.
const MOST: usize = 32 * 1024 * 1024;
/// How long what is on its way beyond what the way takes may need to get there. A relay or an executor that is busy takes
/// about as long to say so.
const DELAY: Duration = Duration::from_millis(5);
/// As much where short messages share the way, which wait for it.
const DELAY_SHARED: Duration = Duration::from_micros(500);
/// Longest time that one message may occupy the way then.
const TURN: Duration = Duration::from_millis(1);
/// Shortest time over which a rate is taken: ways let a little pass at once after a silence.
const INTERVAL: Duration = Duration::from_millis(10);
/// Intervals of which the one counts in which most arrived.
const INTERVALS: usize = 16;
/// Shortest time between two pings that wait for nothing.
const PROBE: Duration = Duration::from_millis(100);
/// The shortest round trip is that of this time and of as much before it: the way may change.
const MEMORY: Duration = Duration::from_secs(300);

/// The window of one connection.
#[derive(Debug)]
pub(crate) struct Flight {
    window: usize,
    is_shared: bool,
    /// The way is let run empty until a ping behind this is answered, so that the round trip is its own again.
    drained_at: Option<u64>,
    /// Bytes that were given to the connection, and that the relay has read, so far.
    sent: u64,
    arrived: u64,
    last_ping: u64,
    pings: VecDeque<Ping>,
    /// Shortest round trips: lately, and in the time before.
    shortest: [Option<Duration>; 2],
    since: Option<Instant>,
    last_probe: Option<Instant>,
    /// When the present interval began, and what had arrived by then.
    interval: Option<(Instant, u64)>,
    /// Bytes in a second.
    rates: VecDeque<u128>,
}

#[derive(Debug)]
struct Ping {
    at: Instant,
    /// What had been sent by then.
    sent: u64,
}

impl Flight {
    pub(crate) fn new() -> Self {
        Self {
            window: LEAST,
            is_shared: false,
            drained_at: None,
            sent: 0,
            arrived: 0,
            last_ping: 0,
            pings: VecDeque::new(),
            shortest: [None; 2],
            since: None,
            last_probe: None,
            interval: None,
            rates: VecDeque::new(),
        }
    }

    /// Whether another message may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.sent - self.arrived < self.window() as u64
    }

    /// Whether short messages share the way with long ones from now on. Says what a ping has to carry, if one is needed now.
    pub(crate) fn share(&mut self, now: Instant, is_shared: bool) -> Option<[u8; 8]> {
        if std::mem::replace(&mut self.is_shared, is_shared) == is_shared {
            return None;
        }
        self.resize();
        self.unstick(now)
    }

    /// How long a message should be at most, in bytes, where short ones wait for it.
    pub(crate) fn longest(&self) -> Option<usize> {
        if !self.is_shared || self.rates.is_empty() {
            return None;
        }
        let bytes = self.fastest() * TURN.as_micros() / 1_000_000;
        usize::try_from(bytes).ok()
    }

    /// A message will be given to the connection. Says what a ping in front of it has to carry, if there should be one: nothing
    /// much is on its way, and behind the message it would tell how long the message takes, too.
    pub(crate) fn probe(&mut self, now: Instant) -> Option<[u8; 8]> {
        let is_recent = |last| now.saturating_duration_since(last) < PROBE;
        if !self.pings.is_empty() || self.last_probe.is_some_and(is_recent) {
            return None;
        }
        self.last_probe = Some(now);
        Some(self.ping(now))
    }

    /// A message of this length was given to the connection. Says what a ping behind it has to carry, if there should be one.
    pub(crate) fn sent(&mut self, now: Instant, len: usize) -> Option<[u8; 8]> {
        self.sent += len as u64;
        let is_due = self.sent - self.last_ping >= self.window() as u64 / 4;
        is_due.then(|| self.ping(now))
    }

    fn ping(&mut self, now: Instant) -> [u8; 8] {
        self.last_ping = self.sent;
        self.pings.push_back(Ping {
            at: now,
            sent: self.sent,
        });
        self.sent.to_be_bytes()
    }

    /// The relay answered a ping. What is no answer to one of ours means nothing; the answer to an earlier one need not come.
    /// Says what another ping has to carry, if one is needed now.
    pub(crate) fn pong(&mut self, now: Instant, payload: &[u8]) -> Option<[u8; 8]> {
        let sent = u64::from_be_bytes(payload.try_into().ok()?);
        let index = self.pings.iter().position(|ping| ping.sent == sent)?;
        let ping = self.pings.drain(..=index).next_back()?;
        let (start, before) = *self.interval.get_or_insert((ping.at, self.arrived));
        self.arrived = ping.sent;
        if self.drained_at.is_some_and(|mark| ping.sent > mark) {
            self.drained_at = None;
        }
        let passed = now.saturating_duration_since(start);
        if passed >= INTERVAL {
            if self.rates.len() == INTERVALS {
                self.rates.pop_front();
            }
            let rate = u128::from(self.arrived - before) * 1_000_000 / passed.as_micros();
            self.rates.push_back(rate);
            self.interval = Some((now, self.arrived));
        }
        self.measure(now, now.saturating_duration_since(ping.at));
        self.resize();
        self.unstick(now)
    }

    /// A window that has become small would wait for ever.
    fn unstick(&mut self, now: Instant) -> Option<[u8; 8]> {
        let is_stuck = !self.has_room() && self.pings.is_empty();
        is_stuck.then(|| self.ping(now))
    }

    /// Takes the time that a ping and its answer took.
    fn measure(&mut self, now: Instant, time: Duration) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MEMORY {
            self.since = Some(now);
            self.shortest = [None, self.shortest[0]];
            self.drained_at = Some(self.sent);
        }
        let lately = &mut self.shortest[0];
        *lately = Some(lately.map_or(time, |shortest| shortest.min(time)));
    }

    /// How much may be on its way now.
    fn window(&self) -> usize {
        match self.drained_at {
            Some(_) => self.least(),
            None => self.window,
        }
    }

    fn least(&self) -> usize {
        if self.is_shared { LEAST_SHARED } else { LEAST }
    }

    fn resize(&mut self) {
        let delay = if self.is_shared { DELAY_SHARED } else { DELAY };
        let shortest = self.shortest.iter().flatten().min().copied().unwrap_or_default();
        // Twice what the way takes, so that one learns whether it takes more.
        let bytes = self.fastest() * (shortest * 2 + delay).as_micros() / 1_000_000;
        self.window = usize::try_from(bytes).unwrap_or(MOST).clamp(self.least(), MOST);
    }

    /// The greatest rate of late, in bytes a second.
    fn fastest(&self) -> u128 {
        self.rates.iter().max().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
