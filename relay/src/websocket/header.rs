//! Frame headers.

use super::close::Violation;

/// Most payload of a control frame.
pub(super) const MAX_CONTROL: usize = 125;
/// Longest header of a frame that a server sends.
pub const MAX_SERVER_HEADER: usize = 10;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// A later fragment of a message.
    Continuation = 0,
    /// A text message or its first fragment.
    Text = 1,
    /// A binary message or its first fragment.
    Binary = 2,
    /// The end of the connection.
    Close = 8,
    /// To be answered with a pong.
    Ping = 9,
    /// Answer to a ping.
    Pong = 10,
}

/// The header of a client's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Last fragment of its message.
    pub fin: bool,
    /// What the frame is.
    pub opcode: Opcode,
    /// The mask over the payload.
    pub mask: [u8; 4],
    /// Length of the header itself.
    pub header: usize,
    /// Length of the payload.
    pub payload: usize,
}

impl Header {
    /// Reads the header at the front of `buffer`; `None` while it is not complete. Everything that can be refused is
    /// refused as soon as its byte is there, before the payload arrives.
    ///
    /// # Errors
    ///
    /// Any [`Violation`] that a header can show; a payload above `limit` is [`Violation::TooBig`].
    pub fn parse(buffer: &[u8], limit: usize) -> Result<Option<Self>, Violation> {
        let Some(&first) = buffer.first() else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(Violation::ReservedBit);
        }
        let fin = first & 0x80 != 0;
        let opcode = match first & 0x0f {
            0 => Opcode::Continuation,
            1 => return Err(Violation::Text),
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return Err(Violation::Opcode),
        };
        let control = first & 0x08 != 0;
        if control && !fin {
            return Err(Violation::ControlFrame);
        }
        let Some(&second) = buffer.get(1) else { return Ok(None) };
        if second & 0x80 == 0 {
            return Err(Violation::NotMasked);
        }
        let short = usize::from(second & 0x7f);
        if control && short > MAX_CONTROL {
            return Err(Violation::ControlFrame);
        }
        let (len_end, payload) = match short {
            126 => {
                let Some(len) = array::<2>(buffer, 2) else {
                    return Ok(None);
                };
                let len = usize::from(u16::from_be_bytes(len));
                if len < 126 {
                    return Err(Violation::Length);
                }
                (4, len)
            }
            127 => {
                let Some(len) = array::<8>(buffer, 2) else {
                    return Ok(None);
                };
                let len = u64::from_be_bytes(len);
                if len <= u64::from(u16::MAX) || len >> 63 != 0 {
                    return Err(Violation::Length);
                }
                (10, usize::try_from(len).map_err(|_| Violation::TooBig)?)
            }
            len => (2, len),
        };
        if payload > limit {
            return Err(Violation::TooBig);
        }
        let Some(mask) = array::<4>(buffer, len_end) else {
            return Ok(None);
        };
        Ok(Some(Self {
            fin,
            opcode,
            mask,
            header: len_end + 4,
            payload,
        }))
    }

    /// Length of the whole frame.
    pub fn total(&self) -> usize {
        self.header + self.payload
    }
}

fn array<const N: usize>(buffer: &[u8], at: usize) -> Option<[u8; N]> {
    buffer.get(at..at + N)?.try_into().ok()
}

/// The header of an unfragmented binary frame from a server: the bytes and how many of them count.
pub fn server_header(payload: usize) -> ([u8; MAX_SERVER_HEADER], usize) {
    let mut header = [0; MAX_SERVER_HEADER];
    header[0] = 0x80 | Opcode::Binary as u8;
    let len = match (u8::try_from(payload), u16::try_from(payload)) {
        (Ok(short), _) if short < 126 => {
            header[1] = short;
            2
        }
        (_, Ok(medium)) => {
            header[1] = 126;
            header[2..4].copy_from_slice(&medium.to_be_bytes());
            4
        }
        _ => {
            header[1] = 127;
            header[2..10].copy_from_slice(&(payload as u64).to_be_bytes());
            10
        }
    };
    (header, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 256 * 1024;

    fn parse(bytes: &[u8]) -> Result<Option<Header>, Violation> {
        Header::parse(bytes, LIMIT)
    }

    #[test]
    fn every_length_form() {
        for (bytes, header, payload) in [
            (&[0x82, 0x80, 1, 2, 3, 4][..], 6, 0),
            (&[0x82, 0xfd, 1, 2, 3, 4], 6, 125),
            (&[0x82, 0xfe, 0, 126, 1, 2, 3, 4], 8, 126),
            (&[0x82, 0xfe, 0xff, 0xff, 1, 2, 3, 4], 8, 65535),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4], 14, 65536),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 4, 0, 0, 1, 2, 3, 4], 14, LIMIT),
        ] {
            let parsed = parse(bytes).unwrap().unwrap();
            assert_eq!(
                (parsed.header, parsed.payload, parsed.mask),
                (header, payload, [1, 2, 3, 4])
            );
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "cut at {cut}");
            }
            let (_, server) = server_header(payload);
            assert_eq!(server + 4, header);
        }
    }

    #[test]
    fn refusals() {
        for (bytes, violation) in [
            (&[0xc2, 0x80][..], Violation::ReservedBit),
            (&[0xa2, 0x80], Violation::ReservedBit),
            (&[0x92, 0x80], Violation::ReservedBit),
            (&[0x81], Violation::Text),
            (&[0x01], Violation::Text),
            (&[0x83], Violation::Opcode),
            (&[0x8b], Violation::Opcode),
            (&[0x82, 0x05], Violation::NotMasked),
            (&[0x09], Violation::ControlFrame),
            (&[0x89, 0xfe], Violation::ControlFrame),
            (&[0x82, 0xfe, 0, 125], Violation::Length),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff], Violation::Length),
            (&[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0], Violation::Length),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 4, 0, 1], Violation::TooBig),
            (
                &[0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                Violation::TooBig,
            ),
        ] {
            assert_eq!(parse(bytes), Err(violation), "{bytes:02x?}");
        }
    }
}
