use std::collections::VecDeque;
use std::fmt;

use bytes::{BufMut as _, Bytes, BytesMut};
use rendezvous_wire::limits::{MAX_MESSAGE, MAX_RECORD_PLAINTEXT, MESSAGE_PREFIX_LEN};

use super::{MessageError, check_length};

/// Shortest limit of the pieces of a message: each costs a record and a frame around it.
pub const MIN_PIECE_LIMIT: usize = 4 * 1024;

/// Cuts queued messages into the plaintexts of records. Each message begins a new record.
pub struct Encoder {
    queue: VecDeque<Bytes>,
    /// What is written of the first message, its prefix included.
    written: usize,
    queued: usize,
    /// Longest piece.
    limit: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            written: 0,
            queued: 0,
            limit: MAX_RECORD_PLAINTEXT,
        }
    }
}

impl Encoder {
    /// Cuts shorter pieces from now on, of at most `limit` bytes, but never shorter ones than [`MIN_PIECE_LIMIT`].
    pub fn limit_pieces(&mut self, limit: usize) {
        self.limit = limit.clamp(MIN_PIECE_LIMIT, MAX_RECORD_PLAINTEXT);
    }

    /// Queues one message.
    ///
    /// # Errors
    ///
    /// The message is empty or longer than 64 MiB.
    pub fn push(&mut self, message: Bytes) -> Result<(), MessageError> {
        check_length(message.len(), MAX_MESSAGE)?;
        self.queued += message.len() + MESSAGE_PREFIX_LEN;
        self.queue.push_back(message);
        Ok(())
    }

    /// Bytes of plaintext that wait, prefixes included.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Messages that wait, the one included that is partly written.
    pub fn queued_messages(&self) -> usize {
        self.queue.len()
    }

    /// Length of the next record's plaintext; `None` if nothing waits.
    pub fn record_len(&self) -> Option<usize> {
        self.piece_len(MAX_RECORD_PLAINTEXT)
    }

    /// Length of the next piece of at most `limit` bytes, and of what [`Self::limit_pieces`] said; `None` if nothing waits. The
    /// first piece of a message must have room for its prefix.
    pub fn piece_len(&self, limit: usize) -> Option<usize> {
        let message = self.queue.front()?;
        Some(
            (message.len() + MESSAGE_PREFIX_LEN - self.written)
                .min(limit)
                .min(self.limit),
        )
    }

    /// Messages that wait, without the one that is partly written.
    pub fn whole_messages(&self) -> usize {
        self.queue.len() - usize::from(self.written > 0)
    }

    /// Whether the next piece begins a message.
    pub fn is_between_messages(&self) -> bool {
        self.written == 0
    }

    /// Appends the next record's plaintext, [`Self::record_len`] bytes.
    pub fn write_record(&mut self, buffer: &mut BytesMut) {
        self.write_piece(MAX_RECORD_PLAINTEXT, buffer);
    }

    /// Appends the next piece, [`Self::piece_len`] bytes.
    pub fn write_piece(&mut self, limit: usize, buffer: &mut BytesMut) {
        let (Some(len), Some(message)) = (self.piece_len(limit), self.queue.front()) else {
            return;
        };
        let body = if self.written == 0 {
            let claimed = u32::try_from(message.len()).expect("the length was checked when it was queued");
            buffer.put_u32(claimed);
            &message[..len - MESSAGE_PREFIX_LEN]
        } else {
            let start = self.written - MESSAGE_PREFIX_LEN;
            &message[start..start + len]
        };
        buffer.put_slice(body);
        self.written += len;
        self.queued -= len;
        if self.written == message.len() + MESSAGE_PREFIX_LEN {
            self.queue.pop_front();
            self.written = 0;
        }
    }

    /// Drops everything that waits.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Sizes only: the messages are plaintext.
impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("queued", &self.queued)
            .finish_non_exhaustive()
    }
}
