use std::{fmt, mem};

use bytes::{Buf as _, Bytes};
use rendezvous_wire::limits::MESSAGE_PREFIX_LEN;

use super::{MessageError, framed_len};
use crate::budget::{Budget, Lease};

/// Least growth of the buffer of an unfinished message.
const MIN_STEP: usize = 64 * 1024;
/// Most growth at once: what may be allocated beyond what has arrived.
const MAX_STEP: usize = 16 * 1024 * 1024;

/// Puts messages together from the plaintexts of records.
///
/// The plaintexts are one stream of bytes: a record may hold several messages, and a prefix may be split. A prefix is
/// judged as soon as it is complete, and what it claims reserves nothing: an unfinished message occupies what has arrived
/// of it and one bounded step more, charged to the [`Budget`]. A decoder that gave an error of its own must not be used again.
pub struct Decoder {
    /// The beginning of one message, prefix included; never a whole one.
    partial: Vec<u8>,
    lease: Lease,
    limit: usize,
}

impl Decoder {
    /// Messages may be `limit` bytes long, at most 64 MiB; unfinished ones are charged to `budget`.
    pub fn new(budget: &Budget, limit: usize) -> Self {
        Self {
            partial: Vec::new(),
            lease: budget.lease(),
            limit,
        }
    }

    /// Changes the limit for messages that begin later.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes one plaintext, `len` bytes at most, that `append` writes behind what the buffer holds, and hands every
    /// message that it completes to `sink`.
    ///
    /// # Errors
    ///
    /// What `append` says, or: a message is empty, too long, or does not fit into the budget.
    pub fn push<E: From<MessageError>>(
        &mut self,
        len: usize,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        mut sink: impl FnMut(Bytes),
    ) -> Result<(), E> {
        if self.partial.is_empty() {
            self.partial = Vec::with_capacity(len);
        } else {
            self.reserve(len)?;
        }
        append(&mut self.partial)?;
        match framed_len(&self.partial, self.limit)? {
            Some(whole) if self.partial.len() >= whole => {
                let mut stream = Bytes::from(mem::take(&mut self.partial));
                while let Some(whole) = framed_len(&stream, self.limit)?
                    && stream.len() >= whole
                {
                    let mut message = stream.split_to(whole);
                    message.advance(MESSAGE_PREFIX_LEN);
                    sink(message);
                }
                // A copy, so that a few bytes do not keep a large buffer alive.
                self.partial = stream.to_vec();
            }
            _ => {}
        }
        self.lease.resize(self.partial.capacity()).map_err(MessageError::from)?;
        Ok(())
    }

    /// Takes one plaintext that is at hand; see [`Self::push`].
    ///
    /// # Errors
    ///
    /// A message is empty, too long, or does not fit into the budget.
    pub fn push_plaintext(&mut self, plaintext: &[u8], sink: impl FnMut(Bytes)) -> Result<(), MessageError> {
        let append = |buffer: &mut Vec<u8>| {
            buffer.extend_from_slice(plaintext);
            Ok(())
        };
        self.push(plaintext.len(), append, sink)
    }

    /// Makes sure that [`Self::push`] of `len` bytes finds the budget that it needs. Nothing else changes.
    ///
    /// # Errors
    ///
    /// The budget is used up, or what has arrived is no beginning of a message.
    pub fn prepare(&mut self, len: usize) -> Result<(), MessageError> {
        if self.partial.is_empty() {
            Ok(self.lease.resize(self.partial.capacity().max(len))?)
        } else {
            self.reserve(len)
        }
    }

    /// Whether a message has begun and is not whole.
    pub fn is_within_message(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Bytes that the unfinished message occupies.
    pub fn occupied(&self) -> usize {
        self.partial.capacity()
    }

    fn reserve(&mut self, len: usize) -> Result<(), MessageError> {
        let arrived = self.partial.len();
        let needed = arrived + len;
        if needed <= self.partial.capacity() {
            return Ok(());
        }
        let step = (arrived / 4).clamp(MIN_STEP, MAX_STEP);
        let whole = framed_len(&self.partial, usize::MAX)?.unwrap_or(0);
        let target = (arrived + step).min(whole).max(needed);
        self.lease.resize(target)?;
        self.partial.reserve_exact(target - arrived);
        Ok(())
    }
}

/// Sizes only: the bytes are plaintext.
impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("arrived", &self.partial.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
