//! The relay's view of a frame: its route, found in the received buffer without decoding the body.
//!
//! Only the top level is walked: every field is read as far as its length and skipped. Cost depends on the number of
//! top-level fields, not on the payload. Like a protobuf decoder, the last occurrence of a field wins, so that the relay
//! and an endpoint never see two different routes in one buffer.

use crate::limits::{FRAME_VERSION, MAX_STREAM_ID};

/// Most top-level fields that are walked; a well-formed frame has at most nine.
const MAX_FIELDS: usize = 32;

/// What a relay may know of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The stream, never blank, at most [`MAX_STREAM_ID`] bytes.
    pub stream_id: &'a str,
    /// Which member of the body is set; `None` if none that is known.
    pub kind: Option<Kind>,
}

/// Which member of the body is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One Noise record.
    Data,
    /// Only acknowledges.
    Ack,
    /// The harness opens, or takes up, its stream.
    Resume,
    /// The stream is over.
    Reset,
    /// Keeps a path alive.
    Heartbeat,
    /// One Noise handshake message.
    Handshake,
}

/// Why a buffer has no route. The sender is at fault.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeekError {
    /// A field ends beyond the buffer, or a varint has no end.
    #[error("frame is truncated")]
    Truncated,
    /// A field with a wire type or number that protobuf does not know, or a known field with the wrong wire type.
    #[error("frame has a malformed field")]
    Field,
    /// An unknown field of the group type, which proto3 has not: a general decoder skips it, no peer sends it.
    #[error("frame has a group")]
    Group,
    /// More top-level fields than any valid frame has.
    #[error("frame has too many fields")]
    TooManyFields,
    /// `version` is not 1.
    #[error("frame version {0} is not supported, expected {FRAME_VERSION}")]
    Version(u64),
    /// `stream_id` is missing, blank, too long or not UTF-8.
    #[error("frame has no valid stream id")]
    StreamId,
}

/// Finds the route of the frame in `buffer`.
///
/// # Errors
///
/// Says what is wrong with the buffer as far as a relay looks.
pub fn route(buffer: &[u8]) -> Result<Route<'_>, PeekError> {
    let mut cursor = Cursor { rest: buffer };
    let mut version = 0;
    let mut stream_id: &[u8] = &[];
    let mut kind = None;
    let mut fields = 0;
    while !cursor.rest.is_empty() {
        fields += 1;
        if fields > MAX_FIELDS {
            return Err(PeekError::TooManyFields);
        }
        let key = cursor.varint()?;
        let (number, wire_type) = (key >> 3, key & 7);
        if number == 0 || number > (1 << 29) - 1 {
            return Err(PeekError::Field);
        }
        match (number, wire_type) {
            // A uint32 is cut to 32 bits by every decoder.
            (1, 0) => version = cursor.varint()? & u64::from(u32::MAX),
            (2, 2) => stream_id = cursor.block()?,
            (5..=10, 2) => {
                cursor.block()?;
                kind = Some(match number {
                    5 => Kind::Data,
                    6 => Kind::Ack,
                    7 => Kind::Resume,
                    8 => Kind::Reset,
                    9 => Kind::Heartbeat,
                    _ => Kind::Handshake,
                });
            }
            (3 | 4, 0) => {
                cursor.varint()?;
            }
            (11 | 12, 2) => {
                cursor.block()?;
            }
            (1..=12, _) => return Err(PeekError::Field),
            (_, 0) => {
                cursor.varint()?;
            }
            (_, 1) => cursor.skip(8)?,
            (_, 2) => {
                cursor.block()?;
            }
            (_, 5) => cursor.skip(4)?,
            (_, 3 | 4) => return Err(PeekError::Group),
            _ => return Err(PeekError::Field),
        }
    }
    if version != u64::from(FRAME_VERSION) {
        return Err(PeekError::Version(version));
    }
    if stream_id.len() > MAX_STREAM_ID {
        return Err(PeekError::StreamId);
    }
    let stream_id = std::str::from_utf8(stream_id).map_err(|_| PeekError::StreamId)?;
    if stream_id.trim().is_empty() {
        return Err(PeekError::StreamId);
    }
    Ok(Route { stream_id, kind })
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn varint(&mut self) -> Result<u64, PeekError> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                // The tenth byte has room for one bit only.
                if index == 9 && byte > 1 {
                    return Err(PeekError::Truncated);
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(PeekError::Truncated)
    }

    fn block(&mut self) -> Result<&'a [u8], PeekError> {
        let len = usize::try_from(self.varint()?).map_err(|_| PeekError::Truncated)?;
        let (block, rest) = self.rest.split_at_checked(len).ok_or(PeekError::Truncated)?;
        self.rest = rest;
        Ok(block)
    }

    fn skip(&mut self, len: usize) -> Result<(), PeekError> {
        self.rest = self.rest.get(len..).ok_or(PeekError::Truncated)?;
        Ok(())
    }
}
