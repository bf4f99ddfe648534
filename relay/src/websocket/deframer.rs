//! From received bytes to frames that are ready to be forwarded.

use bytes::{Buf as _, Bytes, BytesMut};

use super::close::Violation;
use super::header::{Header, Opcode, server_header};
use super::mask::unmask;

/// Frames for one destination are joined up to this many bytes; a longer one stands alone. A chunk is also what fairness
/// between streams is measured in.
pub const MAX_CHUNK: usize = 64 * 1024;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<K> {
    /// Goes to this destination.
    Forward(K),
    /// Goes nowhere.
    Drop,
    /// Ends the connection; nothing after it is looked at.
    Stop,
}

/// A control frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// To be answered with the same payload.
    Ping(&'a [u8]),
    /// Answer to a ping.
    Pong,
    /// The peer ends the connection; nothing after it is looked at.
    Close,
}

/// Takes what a [`Deframer`] finds.
pub trait Sink {
    /// Names a destination.
    type Key: Copy + Eq;

    /// Says where a message goes. `payload` is unmasked and whole.
    fn decide(&mut self, payload: &[u8]) -> Decision<Self::Key>;

    /// Takes `frames` frames for one destination: server headers and payloads, ready to be written to a socket.
    /// Returns false when nothing more can be taken for now.
    fn forward(&mut self, key: Self::Key, chunk: Bytes, frames: u32) -> bool;

    /// Takes a control frame.
    fn control(&mut self, control: Control<'_>);
}

/// How far a buffer was worked through. What is left in the buffer must be presented again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The rest is the beginning of a frame that has this many bytes in all, as far as that is known.
    Need(usize),
    /// The sink can take no more for now.
    Full,
    /// The connection is over, by a close frame or [`Decision::Stop`].
    Over,
}

/// Reads the frames of one client.
#[derive(Debug)]
pub struct Deframer {
    limit: usize,
    /// The fragments so far of a fragmented message. Stock peers never fragment, so this is the slow path.
    fragments: Option<BytesMut>,
}

/// Frames of one destination that stand one after the other at the front of the buffer.
struct Run<K> {
    key: K,
    start: usize,
    end: usize,
    frames: u32,
}

impl Deframer {
    /// A deframer that refuses messages of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, fragments: None }
    }

    /// Hands every whole frame in `buffer` to `sink` and leaves the rest in it.
    ///
    /// # Errors
    ///
    /// The first violation; the frames before it were handed over.
    pub fn process<S: Sink>(&mut self, buffer: &mut BytesMut, sink: &mut S) -> Result<Progress, Violation> {
        let mut cursor = Cursor {
            buffer,
            at: 0,
            run: None,
        };
        let result = self.frames(&mut cursor, sink);
        let room = cursor.flush(sink);
        let at = cursor.at;
        buffer.advance(at);
        match result? {
            Progress::Need(_) if !room => Ok(Progress::Full),
            progress => Ok(progress),
        }
    }

    fn frames<S: Sink>(&mut self, cursor: &mut Cursor<'_, S::Key>, sink: &mut S) -> Result<Progress, Violation> {
        loop {
            let rest = &cursor.buffer[cursor.at..];
            let Some(header) = Header::parse(rest, self.limit)? else {
                return Ok(Progress::Need(0));
            };
            if rest.len() < header.total() {
                return Ok(Progress::Need(header.total()));
            }
            let step = match (header.opcode, header.fin) {
                (Opcode::Binary, true) if self.fragments.is_none() => cursor.whole(&header, sink),
                (Opcode::Binary | Opcode::Continuation | Opcode::Text, _) => self.fragment(cursor, &header, sink)?,
                (Opcode::Close | Opcode::Ping | Opcode::Pong, _) => cursor.control(&header, sink)?,
            };
            match step {
                Step::On => {}
                Step::Full => return Ok(Progress::Full),
                Step::Over => return Ok(Progress::Over),
            }
        }
    }

    #[cold]
    fn fragment<S: Sink>(
        &mut self,
        cursor: &mut Cursor<'_, S::Key>,
        header: &Header,
        sink: &mut S,
    ) -> Result<Step, Violation> {
        let first = header.opcode == Opcode::Binary;
        if first != self.fragments.is_none() {
            return Err(Violation::Fragments);
        }
        let mut fragments = self.fragments.take().unwrap_or_default();
        if fragments.len() + header.payload > self.limit {
            return Err(Violation::TooBig);
        }
        let payload = cursor.at + header.header;
        unmask(cursor.buffer, payload, payload, header.payload, header.mask);
        fragments.extend_from_slice(&cursor.buffer[payload..payload + header.payload]);
        cursor.at += header.total();
        if !header.fin {
            self.fragments = Some(fragments);
            return Ok(Step::On);
        }
        Ok(match sink.decide(&fragments) {
            Decision::Drop => Step::On,
            Decision::Stop => Step::Over,
            Decision::Forward(key) => {
                let (server, len) = server_header(fragments.len());
                let mut frame = BytesMut::with_capacity(len + fragments.len());
                frame.extend_from_slice(&server[..len]);
                frame.extend_from_slice(&fragments);
                let room = cursor.flush(sink);
                match sink.forward(key, frame.freeze(), 1) && room {
                    true => Step::On,
                    false => Step::Full,
                }
            }
        })
    }
}

enum Step {
    On,
    Full,
    Over,
}

struct Cursor<'a, K> {
    buffer: &'a mut BytesMut,
    /// Where the next client frame begins.
    at: usize,
    run: Option<Run<K>>,
}

impl<K: Copy + Eq> Cursor<'_, K> {
    /// A whole message in one frame.
    fn whole<S: Sink<Key = K>>(&mut self, header: &Header, sink: &mut S) -> Step {
        let (server, len) = server_header(header.payload);
        let received = self.at + header.header;
        let joined = self.run.as_ref().map(|run| (run.start, run.end + len));
        let payload = match joined {
            // Behind the run, closing the gap that the shorter header leaves.
            Some((start, place)) if place + header.payload - start <= MAX_CHUNK => place,
            // Where it was received: the run ends here.
            _ => received,
        };
        unmask(self.buffer, received, payload, header.payload, header.mask);
        self.at += header.total();
        let key = match sink.decide(&self.buffer[payload..payload + header.payload]) {
            Decision::Forward(key) => key,
            Decision::Drop => return Step::On,
            Decision::Stop => return Step::Over,
        };
        let start = payload - len;
        self.buffer[start..payload].copy_from_slice(&server[..len]);
        let end = payload + header.payload;
        match &mut self.run {
            Some(run) if run.key == key && run.end == start => {
                run.end = end;
                run.frames += 1;
            }
            run => {
                let next = Run {
                    key,
                    start,
                    end,
                    frames: 1,
                };
                if let Some(done) = run.replace(next) {
                    return match self.emit(&done, sink) {
                        true => Step::On,
                        false => Step::Full,
                    };
                }
            }
        }
        Step::On
    }

    fn control<S: Sink<Key = K>>(&mut self, header: &Header, sink: &mut S) -> Result<Step, Violation> {
        let start = self.at + header.header;
        unmask(self.buffer, start, start, header.payload, header.mask);
        let payload = &self.buffer[start..start + header.payload];
        let (control, step) = match header.opcode {
            Opcode::Ping => (Control::Ping(payload), Step::On),
            Opcode::Pong => (Control::Pong, Step::On),
            _ => {
                check_close(payload)?;
                (Control::Close, Step::Over)
            }
        };
        sink.control(control);
        self.at += header.total();
        Ok(step)
    }

    /// Hands over what is collected; false when the sink is full.
    fn flush<S: Sink<Key = K>>(&mut self, sink: &mut S) -> bool {
        match self.run.take() {
            Some(run) => self.emit(&run, sink),
            None => true,
        }
    }

    /// Cuts `run`, which lies before everything else that is still wanted, out of the buffer.
    fn emit<S: Sink<Key = K>>(&mut self, run: &Run<K>, sink: &mut S) -> bool {
        self.buffer.advance(run.start);
        let chunk = self.buffer.split_to(run.end - run.start).freeze();
        self.at -= run.end;
        if let Some(next) = &mut self.run {
            next.start -= run.end;
            next.end -= run.end;
        }
        sink.forward(run.key, chunk, run.frames)
    }
}

/// A close frame is empty, or begins with a code that an endpoint may send.
fn check_close(payload: &[u8]) -> Result<(), Violation> {
    let code = match payload {
        [] => return Ok(()),
        [high, low, ..] => u16::from_be_bytes([*high, *low]),
        [_] => return Err(Violation::CloseFrame),
    };
    match code {
        1000..=1003 | 1007..=1014 | 3000..=4999 => Ok(()),
        _ => Err(Violation::CloseFrame),
    }
}

#[cfg(test)]
mod tests;
