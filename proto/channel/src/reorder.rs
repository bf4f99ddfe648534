//! The window in which records may arrive out of order.
//!
//! Stock peers never send a record twice, so one that is lost stays lost: the window gives it
//! [`GAP_TIMEOUT`] and then the stream has to end.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use rendezvous_wire::limits::{GAP_TIMEOUT, REORDER_BYTES, REORDER_DISTANCE};

use crate::budget::{Budget, BudgetExhausted, Lease};

/// Why a record cannot be held.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReorderError {
    /// Too far ahead of the next expected record.
    #[error("record {seq} is more than {REORDER_DISTANCE} ahead of record {next}")]
    TooFar {
        /// Number of the record.
        seq: u32,
        /// The expected number.
        next: u64,
    },
    /// More ciphertext than a stream may make us hold.
    #[error("more than {REORDER_BYTES} bytes arrived ahead of a missing record")]
    TooMuch,
    /// The memory budget is used up.
    #[error(transparent)]
    Budget(#[from] BudgetExhausted),
}

/// What became of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is the next one. Take the ones behind it with [`Reorder::pop`].
    Next(Bytes),
    /// It waits for an earlier one.
    Held,
    /// It was here before; the first copy counts.
    Duplicate,
}

/// Holds ciphertext that arrived early.
#[derive(Debug)]
pub struct Reorder {
    next: u64,
    /// Index `i` is record `next + i`; the first is missing.
    held: VecDeque<Option<Bytes>>,
    lease: Lease,
    gap_since: Option<Instant>,
}

impl Reorder {
    /// Expects record 0.
    pub fn new(budget: &Budget) -> Self {
        Self {
            next: 0,
            held: VecDeque::new(),
            lease: budget.lease(),
            gap_since: None,
        }
    }

    /// Takes the record `seq`.
    ///
    /// # Errors
    ///
    /// It is too far ahead, or does not fit.
    pub fn insert(&mut self, now: Instant, seq: u32, record: Bytes) -> Result<Inserted, ReorderError> {
        let Some(distance) = u64::from(seq).checked_sub(self.next) else {
            return Ok(Inserted::Duplicate);
        };
        if distance == 0 {
            self.advance();
            return Ok(Inserted::Next(record));
        }
        let index = usize::try_from(distance)
            .ok()
            .filter(|_| distance <= u64::from(REORDER_DISTANCE))
            .ok_or(ReorderError::TooFar { seq, next: self.next })?;
        if matches!(self.held.get(index), Some(Some(_))) {
            return Ok(Inserted::Duplicate);
        }
        let bytes = self.lease.held() + record.len();
        if bytes > REORDER_BYTES {
            return Err(ReorderError::TooMuch);
        }
        self.lease.resize(bytes)?;
        if self.held.len() <= index {
            self.held.resize(index + 1, None);
        }
        // A copy: a slice would keep the whole read buffer alive, of which it may be a small part.
        self.held[index] = Some(Bytes::copy_from_slice(&record));
        self.gap_since.get_or_insert(now);
        Ok(Inserted::Held)
    }

    /// The next record if it is here. Call it until it gives none, after each [`Inserted::Next`].
    pub fn pop(&mut self, now: Instant) -> Option<Bytes> {
        match self.held.front_mut().and_then(Option::take) {
            Some(record) => {
                let rest = self.lease.held() - record.len();
                self.lease.resize(rest).ok()?;
                self.advance();
                Some(record)
            }
            None => {
                // What is still held waits for another record than before.
                self.gap_since = (self.lease.held() > 0).then_some(now);
                None
            }
        }
    }

    /// Everything that is held, with its number, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = (u32, Bytes)> {
        let next = u32::try_from(self.next).unwrap_or(u32::MAX);
        self.gap_since = None;
        // What is taken out is bounded by the window, and the taker's from now on.
        let _ = self.lease.resize(0);
        let held = std::mem::take(&mut self.held);
        (next..).zip(held).filter_map(|(seq, record)| Some((seq, record?)))
    }

    /// When the missing record has to be here.
    pub fn deadline(&self) -> Option<Instant> {
        self.gap_since.map(|since| since + GAP_TIMEOUT)
    }

    /// The expected record.
    pub fn next(&self) -> u64 {
        self.next
    }

    fn advance(&mut self) {
        self.held.pop_front();
        self.next += 1;
    }
}

#[cfg(test)]
mod tests;
