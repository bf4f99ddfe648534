//! How much of a stream is on its way at once: what the path delivers in two of its shortest round trips. More would only
//! wait somewhere between the ends, and what other streams send would wait behind it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{ACK_BYTES, MAX_PIECE, MAX_WINDOW};

/// What may always be on its way: a few acknowledgements' worth, so that the next one is not waited for though both ends and
/// the relay are busy. A relay holds more for a harness that is slow.
pub(super) const LEAST: usize = 4 * ACK_BYTES;
/// Rounds whose fastest counts.
const ROUNDS: usize = 4;
/// The shortest round trip is that of this time and of as much before it: the path may change.
const MEMORY: Duration = Duration::from_secs(300);

/// The window of one direction. Lengths are those of frames, with what keeping them costs.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    window: usize,
    /// Shortest round trips: lately, and in the time before.
    shortest: [Option<Duration>; 2],
    since: Option<Instant>,
    round: Option<Round>,
    /// Bytes in a second, of the last rounds that the window held up.
    rates: VecDeque<u128>,
}

/// The time in which all that was on its way at its beginning arrives.
#[derive(Clone, Copy, Debug)]
struct Round {
    start: Instant,
    /// Its last record is the one before.
    end: u32,
    delivered: usize,
    /// The window was full.
    is_full: bool,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            window: LEAST,
            shortest: [None; 2],
            since: None,
            round: None,
            rates: VecDeque::new(),
        }
    }

    /// Whether another frame of this length may go out while so much is on its way.
    pub(super) fn permits(&self, outstanding: usize, frame: usize) -> bool {
        outstanding == 0 || outstanding.saturating_add(frame) <= self.window
    }

    /// Takes the time that one record and its acknowledgement took.
    pub(super) fn sample(&mut self, now: Instant, time: Duration) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MEMORY {
            self.since = Some(now);
            self.shortest = [None, self.shortest[0]];
        }
        let lately = &mut self.shortest[0];
        *lately = Some(lately.map_or(time, |shortest| shortest.min(time)));
    }

    /// So much has arrived, everything below `hinted`, of the `outstanding` that were on their way; `next` is the number of
    /// the next record.
    pub(super) fn delivered(&mut self, now: Instant, bytes: usize, outstanding: usize, hinted: u32, next: u32) {
        let is_full = outstanding + MAX_PIECE >= self.window;
        if let Some(round) = &mut self.round {
            round.delivered += bytes;
            round.is_full |= is_full;
            if hinted < round.end {
                return;
            }
            let round = *round;
            self.finish(now, round);
        }
        self.round = (hinted < next).then_some(Round {
            start: now,
            end: next,
            delivered: 0,
            is_full: false,
        });
    }

    /// The way is another one.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }

    fn finish(&mut self, now: Instant, round: Round) {
        let time = now.saturating_duration_since(round.start).as_micros().max(1);
        let rate = round.delivered as u128 * 1_000_000 / time;
        let known = self.rates.iter().max().copied().unwrap_or(0);
        // A round in which nothing waited says only what was to be sent.
        if !round.is_full && rate <= known {
            return;
        }
        if self.rates.len() == ROUNDS {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        let fastest = self.rates.iter().max().copied().unwrap_or(rate);
        let shortest = self.shortest.iter().flatten().min();
        let product = fastest * shortest.map_or(0, Duration::as_micros) / 1_000_000;
        self.window = usize::try_from(2 * product)
            .unwrap_or(MAX_WINDOW)
            .clamp(LEAST, MAX_WINDOW);
    }
}

#[cfg(test)]
mod tests;
