//! Takes the masks off one direction of a WebSocket, HTTP head included, however the bytes are cut.

/// Where in the byte stream the next byte stands.
#[derive(Debug)]
enum State {
    /// In the HTTP head; holds how much of its end was seen.
    Head { matched: usize },
    /// In a frame's header; holds what was read of it.
    Header { read: Vec<u8> },
    /// In a frame's payload.
    Payload { left: u64, mask: [u8; 4], at: usize },
}

/// The state of one direction.
#[derive(Debug)]
pub(super) struct Unmask {
    state: State,
}

impl Default for Unmask {
    fn default() -> Self {
        Self {
            state: State::Head { matched: 0 },
        }
    }
}

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

impl Unmask {
    /// Turns the next bytes of the stream into clear text; head and frame headers stay as they are.
    pub(super) fn apply(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let done = match &mut self.state {
                State::Head { matched } => {
                    *matched = match bytes[0] {
                        byte if byte == END_OF_HEAD[*matched] => *matched + 1,
                        b'\r' => 1,
                        _ => 0,
                    };
                    if *matched == END_OF_HEAD.len() {
                        self.state = State::Header { read: Vec::new() };
                    }
                    1
                }
                State::Header { read } => {
                    read.push(bytes[0]);
                    if let Some((left, mask)) = header(read) {
                        self.state = if left == 0 {
                            State::Header { read: Vec::new() }
                        } else {
                            State::Payload { left, mask, at: 0 }
                        };
                    }
                    1
                }
                State::Payload { left, mask, at } => {
                    let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    for byte in &mut bytes[..n] {
                        *byte ^= mask[*at % 4];
                        *at += 1;
                    }
                    *left -= n as u64;
                    if *left == 0 {
                        self.state = State::Header { read: Vec::new() };
                    }
                    n
                }
            };
            bytes = &mut bytes[done..];
        }
    }
}

/// Payload length and mask of a complete frame header.
fn header(read: &[u8]) -> Option<(u64, [u8; 4])> {
    let (masked, short) = (read.get(1)? & 0x80 != 0, read.get(1)? & 0x7f);
    let (length, rest) = match short {
        126 => (u64::from(u16::from_be_bytes(read.get(2..4)?.try_into().ok()?)), 4),
        127 => (u64::from_be_bytes(read.get(2..10)?.try_into().ok()?), 10),
        short => (u64::from(short), 2),
    };
    let mask = if masked {
        read.get(rest..rest + 4)?.try_into().ok()?
    } else {
        [0; 4]
    };
    Some((length, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
        let mut frame = vec![0x82];
        let flag = if mask.is_some() { 0x80 } else { 0 };
        match u8::try_from(payload.len()) {
            Ok(short @ 0..126) => frame.push(flag | short),
            _ => {
                frame.push(flag | 126);
                frame.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
            }
        }
        frame.extend_from_slice(&mask.unwrap_or_default()[..if mask.is_some() { 4 } else { 0 }]);
        let mask = mask.unwrap_or_default();
        frame.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ mask[i % 4]));
        frame
    }

    #[test]
    fn masks_come_off_however_the_bytes_are_cut() {
        let long = b"long payload ".repeat(100);
        let mut stream = b"GET / HTTP/1.1\r\nupgrade: websocket\r\n\r\n".to_vec();
        stream.extend(frame(b"first", Some([1, 2, 3, 4])));
        stream.extend(frame(b"", Some([5, 6, 7, 8])));
        stream.extend(frame(&long, Some([9, 10, 11, 12])));
        stream.extend(frame(b"bare", None));
        for cut in [1, 2, 3, 7, 64, stream.len()] {
            let mut copy = stream.clone();
            let mut unmask = Unmask::default();
            copy.chunks_mut(cut).for_each(|part| unmask.apply(part));
            for text in [&b"first"[..], &long, b"bare"] {
                assert!(copy.windows(text.len()).any(|window| window == text), "cut {cut}");
            }
        }
    }
}
