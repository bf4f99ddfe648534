//! Control frames that the relay sends, and what makes it close a connection.

use bytes::{BufMut as _, Bytes, BytesMut};
use rendezvous_wire::reason::close;

use super::header::{MAX_CONTROL, Opcode};

/// What a peer did against the WebSocket protocol or the relay's profile of it.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A reserved bit is set; no extension was negotiated.
    #[error("reserved bit set")]
    ReservedBit,
    /// An opcode that the protocol does not know.
    #[error("unknown opcode")]
    Opcode,
    /// A client's frame must be masked.
    #[error("frame is not masked")]
    NotMasked,
    /// A control frame in fragments, or longer than 125 bytes.
    #[error("malformed control frame")]
    ControlFrame,
    /// A length that is not written in the shortest way, or above 63 bits.
    #[error("malformed length")]
    Length,
    /// A continuation without a beginning, or a beginning inside a fragmented message.
    #[error("fragments out of order")]
    Fragments,
    /// A close frame with one byte of payload or a code that must not be sent.
    #[error("malformed close frame")]
    CloseFrame,
    /// A text message.
    #[error("only binary messages are spoken here")]
    Text,
    /// A message above the limit.
    #[error("message too large")]
    TooBig,
}

impl Violation {
    /// The close code that answers it.
    pub const fn close_code(self) -> u16 {
        match self {
            Self::Text => close::UNSUPPORTED,
            Self::TooBig => close::TOO_BIG,
            _ => close::PROTOCOL,
        }
    }
}

/// A close frame; a reason that does not fit is cut between characters.
pub fn close_frame(code: u16, reason: &str) -> Bytes {
    let mut end = reason.len().min(MAX_CONTROL - 2);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let mut payload = BytesMut::with_capacity(2 + end);
    payload.put_u16(code);
    payload.put_slice(&reason.as_bytes()[..end]);
    control_frame(Opcode::Close, &payload)
}

/// An empty ping.
pub fn ping_frame() -> Bytes {
    Bytes::from_static(&[0x80 | Opcode::Ping as u8, 0])
}

/// The pong that answers a ping with this payload, of at most 125 bytes.
pub fn pong_frame(payload: &[u8]) -> Bytes {
    control_frame(Opcode::Pong, &payload[..payload.len().min(MAX_CONTROL)])
}

fn control_frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    let len = u8::try_from(payload.len()).unwrap_or(0);
    let mut frame = BytesMut::with_capacity(2 + payload.len());
    frame.put_u8(0x80 | opcode as u8);
    frame.put_u8(len);
    frame.put_slice(&payload[..usize::from(len)]);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_frames_on_the_wire() {
        assert_eq!(&ping_frame()[..], [0x89, 0]);
        assert_eq!(&pong_frame(b"ab")[..], [0x8a, 2, b'a', b'b']);
        assert_eq!(&close_frame(1001, "bye")[..], [0x88, 5, 0x03, 0xe9, b'b', b'y', b'e']);
    }

    #[test]
    fn a_long_close_reason_is_cut_between_characters() {
        let frame = close_frame(1008, &"ä".repeat(100));
        assert_eq!(frame[1], 2 + 122);
        assert!(std::str::from_utf8(&frame[4..]).is_ok());
    }
}
