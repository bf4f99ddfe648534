//! Records: one AEAD ciphertext each, numbered by their place in the direction.
//!
//! The counter is never sent: it is the `seq` of the data frame. A direction carries at most 2^32 - 1 records.

use std::fmt;

use bytes::BytesMut;
use rendezvous_wire::limits::{MAX_RECORD_CIPHERTEXT, MAX_RECORD_PLAINTEXT};

use crate::primitives::aead::{Aead, Aes256Gcm, KEY_LEN, TAG_LEN};

/// Why a record could not be sealed or opened. The direction is dead after any of them.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// Not sealed by the peer as the next record of this direction.
    #[error("record is not authentic")]
    NotAuthentic,
    /// More bytes than a record may have.
    #[error("record of {0} bytes is too long")]
    TooLong(usize),
    /// All numbers of the direction are used up: a new stream is needed.
    #[error("no record number is left on this stream")]
    Exhausted,
    /// An earlier record failed.
    #[error("an earlier record of this stream failed")]
    Poisoned,
}

/// Counts records from 0 and gives no number twice.
#[derive(Clone, Copy)]
enum Counter {
    Next(u32),
    Exhausted,
    Poisoned,
}

impl Counter {
    fn peek(self) -> Result<u32, RecordError> {
        match self {
            Self::Next(seq) => Ok(seq),
            Self::Exhausted => Err(RecordError::Exhausted),
            Self::Poisoned => Err(RecordError::Poisoned),
        }
    }

    fn advance(&mut self) {
        if let Self::Next(seq) = *self {
            *self = match seq + 1 {
                u32::MAX => Self::Exhausted,
                next => Self::Next(next),
            };
        }
    }
}

/// Seals the records of one direction, in order.
pub struct Sealer<A = Aes256Gcm> {
    aead: A,
    counter: Counter,
}

impl<A: Aead> Sealer<A> {
    /// Begins with record 0.
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        Self {
            aead: A::new(key),
            counter: Counter::Next(0),
        }
    }

    /// The number of the record that [`Self::seal`] makes next.
    ///
    /// # Errors
    ///
    /// No number is left, or an earlier record failed.
    pub fn next_seq(&self) -> Result<u32, RecordError> {
        self.counter.peek()
    }

    /// Seals `buffer[start..]` where it stands and appends the tag.
    ///
    /// # Errors
    ///
    /// The plaintext is longer than a record may be, or [`Self::next_seq`] fails.
    ///
    /// # Panics
    ///
    /// If `start` is beyond the buffer.
    pub fn seal(&mut self, buffer: &mut BytesMut, start: usize) -> Result<(), RecordError> {
        let seq = self.counter.peek()?;
        let plaintext = &mut buffer[start..];
        if plaintext.len() > MAX_RECORD_PLAINTEXT {
            self.counter = Counter::Poisoned;
            return Err(RecordError::TooLong(plaintext.len()));
        }
        match self.aead.seal(u64::from(seq), &[], plaintext) {
            Ok(tag) => {
                buffer.extend_from_slice(&tag);
                self.counter.advance();
                Ok(())
            }
            Err(_) => {
                self.counter = Counter::Poisoned;
                Err(RecordError::NotAuthentic)
            }
        }
    }
}

/// Opens the records of one direction, in order.
pub struct Opener<A = Aes256Gcm> {
    aead: A,
    counter: Counter,
}

impl<A: Aead> Opener<A> {
    /// Begins with record 0.
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        Self {
            aead: A::new(key),
            counter: Counter::Next(0),
        }
    }

    /// Appends the plaintext of the next record to `buffer`; after an error nothing is appended.
    ///
    /// # Errors
    ///
    /// The record is too long or not authentic, an earlier one was, or no number is left.
    pub fn open(&mut self, record: &[u8], buffer: &mut Vec<u8>) -> Result<(), RecordError> {
        let seq = self.counter.peek()?;
        let start = buffer.len();
        let result = self.try_open(seq, record, buffer);
        match result {
            Ok(()) => self.counter.advance(),
            Err(_) => {
                self.counter = Counter::Poisoned;
                buffer.truncate(start);
            }
        }
        result
    }

    /// Appends the plaintext of any record of the direction to `buffer`; after an error nothing is appended. The order of
    /// [`Self::open`] is not touched, and a record that fails poisons nothing: for receivers that ask for it again.
    ///
    /// # Errors
    ///
    /// The record is too long or not authentic.
    pub fn open_at(&self, seq: u32, record: &[u8], buffer: &mut Vec<u8>) -> Result<(), RecordError> {
        let start = buffer.len();
        self.try_open(seq, record, buffer)
            .inspect_err(|_| buffer.truncate(start))
    }

    fn try_open(&self, seq: u32, record: &[u8], buffer: &mut Vec<u8>) -> Result<(), RecordError> {
        if record.len() > MAX_RECORD_CIPHERTEXT {
            return Err(RecordError::TooLong(record.len()));
        }
        let (text, tag) = record.split_last_chunk::<TAG_LEN>().ok_or(RecordError::NotAuthentic)?;
        let start = buffer.len();
        buffer.extend_from_slice(text);
        self.aead
            .open(u64::from(seq), &[], &mut buffer[start..], tag)
            .map_err(|_| RecordError::NotAuthentic)
    }
}

impl<A> fmt::Debug for Sealer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer([redacted])")
    }
}

impl<A> fmt::Debug for Opener<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener([redacted])")
    }
}

#[cfg(test)]
mod tests;
