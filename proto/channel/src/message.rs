//! Messages inside the byte stream that the records of a direction carry: four big-endian bytes of length, then the
//! message.

mod decoder;
mod encoder;

use rendezvous_wire::limits::{MAX_MESSAGE, MESSAGE_PREFIX_LEN};

pub use decoder::Decoder;
pub use encoder::{Encoder, MIN_PIECE_LIMIT};

use crate::budget::BudgetExhausted;

/// Why a message was refused.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// A message has at least one byte.
    #[error("message is empty")]
    Empty,
    /// Longer than the protocol, or the receiver at this point of the stream, allows.
    #[error("message of {len} bytes is too long, at most {limit} are allowed")]
    TooLong {
        /// The length, or what the prefix claims.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// What has arrived of it does not fit into our memory budget.
    #[error(transparent)]
    Budget(#[from] BudgetExhausted),
}

fn check_length(len: usize, limit: usize) -> Result<(), MessageError> {
    match len {
        0 => Err(MessageError::Empty),
        len if len > limit.min(MAX_MESSAGE) => Err(MessageError::TooLong {
            len,
            limit: limit.min(MAX_MESSAGE),
        }),
        _ => Ok(()),
    }
}

/// Length of the first message of `stream` with its prefix, as soon as the prefix is complete.
fn framed_len(stream: &[u8], limit: usize) -> Result<Option<usize>, MessageError> {
    let Some(prefix) = stream.first_chunk::<MESSAGE_PREFIX_LEN>() else {
        return Ok(None);
    };
    // Beyond the address space is beyond any limit.
    let len = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    check_length(len, limit)?;
    Ok(Some(MESSAGE_PREFIX_LEN + len))
}

#[cfg(test)]
mod tests;
