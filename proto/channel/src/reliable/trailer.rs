//! The last bytes of a record's plaintext: what its sender has received, and how much it can take.
//!
//! They stand at the end, so that a record is opened in the place where its message is put together.

use super::ReliableError;

/// Length of a trailer.
pub const TRAILER_LEN: usize = 13;

/// What the bytes in front of a trailer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A piece of the stream of messages, or nothing.
    Piece,
    /// Nothing follows; the bytes are the reason.
    End,
    /// Nothing, but a record is asked for in return.
    Question,
}

/// What every record of a reliable stream tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trailer {
    /// What the bytes in front of it are.
    pub(crate) kind: Kind,
    /// The first record that the sender has not received: an acknowledgement that nobody can forge.
    pub(crate) next: u32,
    /// Up to what cost the peer may send, counted from the beginning of the stream.
    pub(crate) limit: u64,
}

impl Trailer {
    /// The trailer as bytes.
    pub(crate) fn to_bytes(self) -> [u8; TRAILER_LEN] {
        let mut bytes = [0; TRAILER_LEN];
        bytes[0] = match self.kind {
            Kind::Piece => 0,
            Kind::End => 1,
            Kind::Question => 2,
        };
        bytes[1..5].copy_from_slice(&self.next.to_be_bytes());
        bytes[5..].copy_from_slice(&self.limit.to_be_bytes());
        bytes
    }

    /// Splits the plaintext of a record into what it carries and its trailer.
    ///
    /// # Errors
    ///
    /// There is no trailer, or it is of no kind that is known.
    pub(crate) fn split(plaintext: &[u8]) -> Result<(&[u8], Self), ReliableError> {
        let (piece, trailer) = plaintext
            .split_last_chunk::<TRAILER_LEN>()
            .ok_or(ReliableError::Trailer)?;
        let [kind, a, b, c, d, limit @ ..] = *trailer;
        let kind = match kind {
            0 => Kind::Piece,
            1 => Kind::End,
            2 if piece.is_empty() => Kind::Question,
            _ => return Err(ReliableError::Trailer),
        };
        let trailer = Self {
            kind,
            next: u32::from_be_bytes([a, b, c, d]),
            limit: u64::from_be_bytes(limit),
        };
        Ok((piece, trailer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_stands_behind_its_piece() {
        for kind in [Kind::Piece, Kind::End, Kind::Question] {
            let trailer = Trailer {
                kind,
                next: 0x0102_0304,
                limit: 0x0506_0708_090a_0b0c,
            };
            let piece: &[u8] = if kind == Kind::Question { b"" } else { b"piece" };
            let plaintext = [piece, &trailer.to_bytes()].concat();
            assert_eq!(Trailer::split(&plaintext), Ok((piece, trailer)));
            assert_eq!(plaintext[piece.len() + 1..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        }
    }

    #[test]
    fn what_is_no_trailer_is_refused() {
        let question = [&b"x"[..], &[2; TRAILER_LEN]].concat();
        for plaintext in [&b""[..], &[0; TRAILER_LEN - 1], &[3; TRAILER_LEN], &question] {
            assert_eq!(Trailer::split(plaintext), Err(ReliableError::Trailer));
        }
    }
}
