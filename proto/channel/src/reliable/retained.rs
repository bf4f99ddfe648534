//! What was sent and is not confirmed: kept as it was sent, and sent again when it seems lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::mutant::{Switches, is_off};
use super::pace::Pace;
use super::rtt::RoundTrip;
use super::{HINT_LIFETIME, ReliableError};

/// What keeping a record costs beside its frame.
const OVERHEAD: usize = 128;
/// Later records that have to be hinted at before one counts as lost.
const REORDERING: u32 = 3;

#[derive(Clone, Debug)]
struct Sent {
    frame: Bytes,
    /// It carries something, so that a trailer confirms it soon.
    elicits: bool,
    at: Instant,
    again: bool,
}

/// The records of one direction that may have to be sent again.
#[derive(Clone, Debug)]
pub(super) struct Retained {
    /// Everything below is confirmed.
    first: u32,
    records: VecDeque<Sent>,
    bytes: usize,
    /// Bytes of the records that nothing has hinted at.
    outstanding: usize,
    eliciting: usize,
    /// The peer said in clear text that it has everything below; at least `first`.
    hinted: u32,
    /// Bit `i`: it said so of `hinted + i`, too.
    hinted_bits: u32,
    /// Since when no confirmation has followed a hint.
    hinted_since: Option<Instant>,
    /// When the oldest record without a hint counts as lost.
    timer: Option<Instant>,
    /// What is sent again: records without a hint from `cursor` to `until`, as many as `allowance` says.
    cursor: u32,
    until: u32,
    allowance: u32,
    /// Since when something outstanding has waited for a confirmation.
    waiting_since: Option<Instant>,
    pace: Pace,
    switches: Switches,
}

impl Sent {
    fn cost(&self) -> usize {
        self.frame.len() + OVERHEAD
    }
}

impl Retained {
    /// Begins with this record.
    pub(super) fn new(first: u32, switches: Switches) -> Self {
        Self {
            first,
            records: VecDeque::new(),
            bytes: 0,
            outstanding: 0,
            eliciting: 0,
            hinted: first,
            hinted_bits: 0,
            hinted_since: None,
            timer: None,
            cursor: first,
            until: first,
            allowance: 0,
            waiting_since: None,
            pace: Pace::new(),
            switches,
        }
    }

    /// The number of the next record.
    pub(super) fn next(&self) -> u32 {
        self.first + u32::try_from(self.records.len()).unwrap_or(u32::MAX)
    }

    /// Everything below is confirmed.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// What the kept frames occupy.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the path has room for another record with a piece of this length.
    pub(super) fn has_room(&self, piece: usize) -> bool {
        self.pace.permits(self.outstanding, piece + OVERHEAD)
    }

    /// Keeps the record that was just sent.
    pub(super) fn push(&mut self, now: Instant, frame: Bytes, elicits: bool, rtt: &RoundTrip) {
        self.bytes += frame.len() + OVERHEAD;
        self.outstanding += frame.len() + OVERHEAD;
        self.eliciting += usize::from(elicits);
        if elicits {
            self.waiting_since.get_or_insert(now);
        }
        self.records.push_back(Sent {
            frame,
            elicits,
            at: now,
            again: false,
        });
        self.timer.get_or_insert_with(|| now + rtt.timeout());
    }

    /// Records without a piece that nothing has hinted at, and all that are not confirmed.
    pub(super) fn controls(&self) -> (usize, usize) {
        let all = self.records.len() - self.eliciting;
        let hinted = usize::try_from(self.hinted - self.first).unwrap_or(usize::MAX);
        let open = self.records.iter().skip(hinted).filter(|sent| !sent.elicits);
        (open.count(), all)
    }

    /// Whether the peer seems to have this record.
    pub(super) fn is_hinted(&self, seq: u32) -> bool {
        let Some(distance) = seq.checked_sub(self.hinted) else {
            return true;
        };
        distance < 32 && self.hinted_bits >> distance & 1 == 1
    }

    /// Takes a clear-text acknowledgement. Nothing is freed by it.
    pub(super) fn hint(&mut self, now: Instant, ack: u32, bits: u32, rtt: &mut RoundTrip) {
        let Some(upto) = ack.checked_add(1) else { return };
        let next = self.next();
        if upto > next || upto < self.hinted {
            return;
        }
        let progress = upto - self.hinted;
        if progress > 0 {
            let newest = usize::try_from(upto - 1 - self.first).ok();
            if let Some(sent) = newest.and_then(|index| self.records.get(index))
                && !sent.again
            {
                let time = now.saturating_duration_since(sent.at);
                rtt.sample(time);
                self.pace.sample(now, time);
            }
            self.delivered(now, upto);
            self.hinted = upto;
            self.hinted_bits = 0;
            self.progress(now, progress, rtt);
        }
        // Bits beyond what was sent mean nothing.
        let known = next - self.hinted;
        let mask = if known >= 32 { u32::MAX } else { (1 << known) - 1 };
        self.hinted_bits |= bits & mask;
        if self.has_hints() {
            self.hinted_since.get_or_insert(now);
        }
        if self.hinted_bits.count_ones() >= REORDERING {
            self.resend_holes(now, rtt);
        }
        if is_off!(self.switches, HintFrees) {
            let _ = self.confirm(now, upto, rtt);
        }
    }

    /// Takes an authentic confirmation of everything below `next`.
    pub(super) fn confirm(&mut self, now: Instant, next: u32, rtt: &mut RoundTrip) -> Result<(), ReliableError> {
        if next > self.next() {
            return Err(ReliableError::NeverSent);
        }
        let before = self.first;
        if next > self.hinted {
            self.delivered(now, next);
        }
        while self.first < next
            && let Some(sent) = self.records.pop_front()
        {
            self.first += 1;
            self.bytes -= sent.cost();
            self.eliciting -= usize::from(sent.elicits);
        }
        if self.first == before {
            return Ok(());
        }
        if let Some(progress @ 1..) = self.first.checked_sub(self.hinted) {
            self.hinted_bits = self.hinted_bits.checked_shr(progress).unwrap_or(0);
            self.hinted = self.first;
            self.progress(now, progress, rtt);
        }
        self.hinted_since = self.has_hints().then_some(now);
        self.waiting_since = (self.eliciting > 0).then_some(now);
        Ok(())
    }

    /// The peer proved what it has, on a new connection: all else is sent again.
    pub(super) fn rewind(&mut self, now: Instant, next: u32, rtt: &mut RoundTrip) -> Result<(), ReliableError> {
        self.confirm(now, next, rtt)?;
        rtt.progress();
        self.pace.forget();
        self.forget_hints();
        self.allowance = u32::MAX;
        if is_off!(self.switches, ResumeSendsNothing) {
            self.cursor = self.until;
        }
        self.rearm(now, rtt);
        self.waiting_since = (self.eliciting > 0).then_some(now);
        Ok(())
    }

    /// The next frame to be sent again, if one is due.
    pub(super) fn again(&mut self, now: Instant) -> Option<Bytes> {
        let seq = self.next_again()?;
        self.cursor = seq + 1;
        self.allowance -= u32::from(self.allowance != u32::MAX);
        let index = usize::try_from(seq - self.first).ok()?;
        let sent = self.records.get_mut(index)?;
        sent.again = true;
        sent.at = now;
        Some(sent.frame.clone())
    }

    /// The record that [`Self::again`] gives.
    pub(super) fn next_again(&self) -> Option<u32> {
        if self.allowance == 0 {
            return None;
        }
        (self.cursor.max(self.hinted)..self.until).find(|&seq| !self.is_hinted(seq))
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.timer, self.hint_deadline()].into_iter().flatten().min()
    }

    /// Since when something outstanding has waited for a confirmation.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.waiting_since
    }

    /// Sends the oldest record again whose time is over. Says whether there was one.
    pub(super) fn handle_timeout(&mut self, now: Instant, rtt: &mut RoundTrip) -> bool {
        let doubtful = self.hint_deadline().is_some_and(|deadline| deadline <= now);
        let lost = self.timer.is_some_and(|deadline| deadline <= now);
        if !doubtful && !lost {
            return false;
        }
        if doubtful {
            self.forget_hints();
        }
        self.timer = None;
        if is_off!(self.switches, NoTimeout) || self.hinted == self.next() {
            return false;
        }
        rtt.expired();
        self.cursor = self.hinted;
        self.until = self.next();
        self.allowance = 1;
        self.rearm(now, rtt);
        true
    }

    /// Whether anything is believed that no trailer said.
    fn has_hints(&self) -> bool {
        self.hinted > self.first || self.hinted_bits != 0
    }

    fn hint_deadline(&self) -> Option<Instant> {
        if is_off!(self.switches, HintLasts) {
            return None;
        }
        self.hinted_since
            .filter(|_| self.eliciting > 0)
            .map(|since| since + HINT_LIFETIME)
    }

    fn forget_hints(&mut self) {
        self.hinted = self.first;
        self.outstanding = self.bytes;
        self.hinted_bits = 0;
        self.hinted_since = None;
        self.cursor = self.first;
        self.until = self.next();
    }

    /// Everything below `upto` has arrived, which is more than was known.
    fn delivered(&mut self, now: Instant, upto: u32) {
        let known = usize::try_from(self.hinted - self.first).unwrap_or(usize::MAX);
        let count = usize::try_from(upto - self.hinted).unwrap_or(usize::MAX);
        let bytes = self.records.iter().skip(known).take(count).map(Sent::cost).sum();
        self.pace.delivered(now, bytes, self.outstanding, upto, self.next());
        self.outstanding -= bytes;
    }

    fn progress(&mut self, now: Instant, records: u32, rtt: &mut RoundTrip) {
        rtt.progress();
        self.rearm(now, rtt);
        if self.cursor < self.until {
            self.allowance = self.allowance.saturating_add(records.saturating_mul(2));
        }
    }

    fn rearm(&mut self, now: Instant, rtt: &RoundTrip) {
        self.timer = (self.hinted < self.next()).then(|| now + rtt.timeout());
    }

    /// Records before hinted ones are lost, unless they were sent again within a round trip.
    fn resend_holes(&mut self, now: Instant, rtt: &RoundTrip) {
        if self.next_again().is_some() {
            return;
        }
        let highest = self.hinted + (31 - self.hinted_bits.leading_zeros());
        let patience: Duration = rtt.smoothed();
        let oldest = usize::try_from(self.hinted - self.first).ok();
        let is_due = oldest
            .and_then(|index| self.records.get(index))
            .is_some_and(|sent| now.saturating_duration_since(sent.at) >= patience);
        if is_due {
            self.cursor = self.hinted;
            self.until = highest;
            self.allowance = highest - self.hinted;
        }
    }
}

#[cfg(test)]
impl Retained {
    /// Everything but the times.
    pub(super) fn state(&self) -> impl std::hash::Hash {
        let records: Vec<_> = self.records.iter().map(|sent| (sent.elicits, sent.again)).collect();
        let timers = [self.hinted_since, self.timer, self.waiting_since].map(|time| time.is_some());
        let again = (self.cursor.max(self.hinted), self.until, self.allowance);
        (self.first, records, self.hinted, self.hinted_bits, timers, again)
    }
}

#[cfg(test)]
mod tests;
