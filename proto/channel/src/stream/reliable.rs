use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rendezvous_wire::frame::data::put_head_with_ack;
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::StreamId;

use super::StreamError;
use super::records::seal_stock;
use crate::message::{Decoder, Encoder, MessageError};
use crate::primitives::aead::TAG_LEN;
use crate::record::{Opener, RecordError, Sealer};
use crate::reliable::{
    Arrival, Kind, Ledger, MAX_BUDGET_WAIT, MAX_PIECE, PROOF_LEN, Piece, ReliableError, ResumeKey, Role, Share,
    TRAILER_LEN, Trailer, Urgent, weight,
};

/// How often a stream that found no memory looks again.
const RETRY: Duration = Duration::from_millis(50);
/// Longest reason of an end that is sent.
const MAX_REASON: usize = 256;

/// What came of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// A whole message.
    Message(Bytes),
    /// The peer will send nothing more.
    End(String),
}

/// Both directions of a reliable stream.
#[derive(Debug)]
pub(super) struct Reliable {
    pub(super) role: Role,
    pub(super) key: ResumeKey,
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
    pub(super) ledger: Ledger,
    pub(super) decoder: Decoder,
    /// Our first message is not sent yet: it is a stock one.
    pub(super) first_is_stock: bool,
    /// In order, and without memory to become messages.
    pub(super) ready: VecDeque<Piece>,
    pub(super) stalled: Option<Stalled>,
    /// What the peer may make us hold.
    pub(super) window: Share,
    /// What we keep until it is confirmed.
    pub(super) kept: Share,
    /// Records and resumes that were not authentic.
    pub(super) forged: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stalled {
    since: Instant,
    retry: Instant,
}

/// Why a record went no further.
enum Stop {
    Forged,
    Error(StreamError),
}

impl From<MessageError> for Stop {
    fn from(error: MessageError) -> Self {
        Self::Error(error.into())
    }
}

impl Reliable {
    /// Takes the ciphertext of one data frame.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        seq: u32,
        ciphertext: &[u8],
        sink: &mut impl FnMut(Delivered),
    ) -> Result<(), StreamError> {
        match self.ledger.judge(seq) {
            Arrival::Duplicate | Arrival::Beyond => return Ok(()),
            Arrival::Early => self.receive_early(now, seq, ciphertext)?,
            Arrival::Next => {
                let direct = self.ready.is_empty() && self.decoder.prepare(ciphertext.len()).is_ok();
                let received = if direct {
                    self.receive_direct(now, seq, ciphertext, sink)
                } else {
                    self.receive_aside(now, seq, ciphertext)
                };
                match received {
                    Ok(()) => {}
                    Err(Stop::Forged) => {
                        self.forged += 1;
                        return Ok(());
                    }
                    Err(Stop::Error(error)) => return Err(error),
                }
                while let Some(piece) = self.ledger.pop() {
                    self.ready.push_back(piece);
                }
                self.deliver(now, sink)?;
            }
        }
        self.grow(now);
        Ok(())
    }

    /// Opens the next record in the place where its message is put together.
    fn receive_direct(
        &mut self,
        now: Instant,
        seq: u32,
        ciphertext: &[u8],
        sink: &mut impl FnMut(Delivered),
    ) -> Result<(), Stop> {
        let Self {
            opener,
            ledger,
            decoder,
            ..
        } = self;
        let mut end = None;
        let mut whole = 0;
        let append = |buffer: &mut Vec<u8>| -> Result<(), Stop> {
            let start = buffer.len();
            opener.open_at(seq, ciphertext, buffer).map_err(|_| Stop::Forged)?;
            let taken: Result<_, ReliableError> = Trailer::split(&buffer[start..]).and_then(|(piece, trailer)| {
                ledger.accept(now, &trailer, piece.len())?;
                ledger.ordered(trailer.kind, piece.len())?;
                Ok((piece.len(), trailer.kind))
            });
            let (len, kind) = taken.map_err(|error| Stop::Error(error.into()))?;
            if kind == Kind::End {
                end = Some(reason(&buffer[start..start + len]));
                buffer.truncate(start);
            } else {
                buffer.truncate(start + len);
            }
            Ok(())
        };
        decoder.push(ciphertext.len(), append, |message| {
            whole += weight(message.len());
            sink(Delivered::Message(message));
        })?;
        ledger.completed(whole);
        if let Some(reason) = end {
            sink(Delivered::End(reason));
        }
        Ok(())
    }

    /// Opens the next record for later.
    fn receive_aside(&mut self, now: Instant, seq: u32, ciphertext: &[u8]) -> Result<(), Stop> {
        let (piece, trailer) = self.open(seq, ciphertext)?;
        self.ledger
            .accept(now, &trailer, piece.bytes.len())
            .map_err(|error| Stop::Error(error.into()))?;
        self.ready.push_back(piece);
        Ok(())
    }

    fn receive_early(&mut self, now: Instant, seq: u32, ciphertext: &[u8]) -> Result<(), StreamError> {
        match self.open(seq, ciphertext) {
            Ok((piece, trailer)) => Ok(self.ledger.accept_early(now, seq, &trailer, piece)?),
            Err(Stop::Forged) => {
                self.forged += 1;
                Ok(())
            }
            Err(Stop::Error(error)) => Err(error),
        }
    }

    fn open(&self, seq: u32, ciphertext: &[u8]) -> Result<(Piece, Trailer), Stop> {
        let mut buffer = Vec::with_capacity(ciphertext.len());
        self.opener
            .open_at(seq, ciphertext, &mut buffer)
            .map_err(|_| Stop::Forged)?;
        let (piece, trailer) = Trailer::split(&buffer).map_err(|error| Stop::Error(error.into()))?;
        let (len, kind) = (piece.len(), trailer.kind);
        buffer.truncate(len);
        let bytes = buffer.into();
        Ok((Piece { kind, bytes }, trailer))
    }

    /// Makes messages of what is ready, as far as there is memory for them.
    fn deliver(&mut self, now: Instant, sink: &mut impl FnMut(Delivered)) -> Result<(), StreamError> {
        while let Some(piece) = self.ready.front() {
            if let Err(error) = self.decoder.prepare(piece.bytes.len()) {
                let MessageError::Budget(_) = error else {
                    return Err(error.into());
                };
                return self.stall(now);
            }
            let Some(piece) = self.ready.pop_front() else { break };
            self.ledger.ordered(piece.kind, piece.bytes.len())?;
            if piece.kind == Kind::End {
                sink(Delivered::End(reason(&piece.bytes)));
            } else if !piece.bytes.is_empty() {
                let mut whole = 0;
                self.decoder.push_plaintext(&piece.bytes, |message| {
                    whole += weight(message.len());
                    sink(Delivered::Message(message));
                })?;
                self.ledger.completed(whole);
            }
        }
        self.stalled = None;
        Ok(())
    }

    fn stall(&mut self, now: Instant) -> Result<(), StreamError> {
        let since = self.stalled.map_or(now, |stalled| stalled.since);
        if since + MAX_BUDGET_WAIT <= now {
            return Err(ReliableError::NoMemory.into());
        }
        self.stalled = Some(Stalled {
            since,
            retry: now + RETRY,
        });
        Ok(())
    }

    /// The application took messages of this weight.
    pub(super) fn taken(&mut self, now: Instant, weight: u64) {
        self.ledger.taken(weight);
        self.grow(now);
    }

    /// Takes a resume, if its proof holds. Says whether the stream was suspended.
    pub(super) fn resume(
        &mut self,
        now: Instant,
        stream: &StreamId,
        epoch: u64,
        next_seq: u32,
        proof: &[u8; PROOF_LEN],
    ) -> Result<bool, StreamError> {
        let holds = self.ledger.is_fresh(epoch) && self.key.verify(self.role.peer(), stream, epoch, next_seq, proof);
        if !holds {
            self.forged += 1;
            return Ok(false);
        }
        Ok(self.ledger.resume(now, epoch, next_seq)?)
    }

    /// The next frame. `farewell` is the reason of the end that follows what is queued.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        id: &StreamId,
        outgoing: &mut Encoder,
        farewell: Option<&str>,
    ) -> Result<Option<Bytes>, RecordError> {
        match self.ledger.poll_urgent(now) {
            Some(Urgent::Again(frame)) => return Ok(Some(frame)),
            Some(Urgent::Resume { epoch, next_seq }) => {
                let proof = self.key.prove(self.role, id, epoch, next_seq);
                let body = Body::Reattach { next_seq, epoch, proof };
                return Ok(Some(Frame::new(id.clone(), body).to_bytes()));
            }
            None => {}
        }
        if self.first_is_stock {
            return self.seal_stock(now, id, outgoing);
        }
        if let Some(len) = self.next_piece(outgoing) {
            self.make_room(len);
            return self
                .seal(now, id, Kind::Piece, len, |buffer| {
                    outgoing.write_piece(MAX_PIECE, buffer)
                })
                .map(Some);
        }
        if let Some(reason) = farewell.filter(|_| outgoing.queued() == 0 && self.ledger.permits(0)) {
            let reason = &reason.as_bytes()[..reason.len().min(MAX_REASON)];
            return self
                .seal(now, id, Kind::End, reason.len(), |buffer| {
                    buffer.extend_from_slice(reason)
                })
                .map(Some);
        }
        if let Some(kind) = self.ledger.wants_control() {
            return self.seal(now, id, kind, 0, |_| ()).map(Some);
        }
        if self.ledger.wants_ack() {
            return Ok(Some(self.ack_frame(id)));
        }
        Ok(None)
    }

    /// Whether [`Self::transmit`] would give a frame.
    pub(super) fn wants_transmit(&self, outgoing: &Encoder, is_leaving: bool) -> bool {
        if self.first_is_stock {
            return self.ledger.wants_urgent() || self.ledger.is_attached() && outgoing.queued() > 0;
        }
        self.ledger.wants_urgent()
            || self.next_piece(outgoing).is_some()
            || is_leaving && outgoing.queued() == 0 && self.ledger.permits(0)
            || self.ledger.wants_control().is_some()
            || self.ledger.wants_ack()
    }

    /// A frame that says what is here, and nothing else.
    pub(super) fn ack_frame(&mut self, id: &StreamId) -> Bytes {
        let (ack, ack_bits) = self.ledger.ack();
        self.ledger.ack_sent();
        let frame = Frame {
            ack,
            ack_bits,
            ..Frame::new(id.clone(), Body::Ack)
        };
        frame.to_bytes()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let retry = self.stalled.map(|stalled| stalled.retry);
        [self.ledger.deadline(), retry].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, sink: &mut impl FnMut(Delivered)) -> Result<(), StreamError> {
        self.ledger.handle_timeout(now)?;
        if self.stalled.is_some_and(|stalled| stalled.retry <= now) {
            self.deliver(now, sink)?;
            self.grow(now);
        }
        Ok(())
    }

    /// Length of the next piece, if it may be sent now.
    fn next_piece(&self, outgoing: &Encoder) -> Option<usize> {
        let len = outgoing.piece_len(MAX_PIECE)?;
        let fits = self.ledger.kept() + len <= self.kept.held().max(self.kept.cap());
        (fits && self.ledger.permits(len)).then_some(len)
    }

    /// Leases what another record of this length needs, or gives back what is not needed any more.
    fn make_room(&mut self, len: usize) {
        let (needed, held) = (self.ledger.kept() + len, self.kept.held());
        if needed > held {
            // Twice as much for the next ones, or, if others were faster, what is there.
            let _ = self.kept.resize(needed.max((held * 2).min(self.kept.cap())));
        } else if needed < held / 4 {
            self.kept.resize(held / 2);
        }
    }

    /// Grants the peer more, if it is worth telling and there is memory for it.
    fn grow(&mut self, now: Instant) {
        let Some((limit, needed)) = self.ledger.propose(now, self.window.cap() as u64) else {
            return;
        };
        let bytes = usize::try_from(needed).unwrap_or(usize::MAX);
        let held = if self.window.resize(bytes) {
            needed
        } else {
            self.window.held() as u64
        };
        self.ledger.raise(limit - needed + held.min(needed));
    }

    fn seal_stock(
        &mut self,
        now: Instant,
        id: &StreamId,
        outgoing: &mut Encoder,
    ) -> Result<Option<Bytes>, RecordError> {
        if !self.ledger.is_attached() {
            return Ok(None);
        }
        let frame = seal_stock(&mut self.sealer, id, outgoing)?;
        if let Some(frame) = &frame {
            self.ledger.keep(now, frame.clone());
            self.first_is_stock = !outgoing.is_between_messages();
        }
        Ok(frame)
    }

    fn seal(
        &mut self,
        now: Instant,
        id: &StreamId,
        kind: Kind,
        len: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> Result<Bytes, RecordError> {
        let mut frame = BytesMut::new();
        let seq = self.sealer.next_seq()?;
        put_head_with_ack(&mut frame, id, self.ledger.ack(), seq, len + TRAILER_LEN + TAG_LEN);
        let start = frame.len();
        write(&mut frame);
        frame.extend_from_slice(&self.ledger.trailer(kind).to_bytes());
        self.sealer.seal(&mut frame, start)?;
        let frame = frame.freeze();
        self.ledger.sent(now, frame.clone(), kind, len);
        Ok(frame)
    }
}

/// The reason of an end, as far as it is text.
fn reason(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_REASON)];
    String::from_utf8_lossy(bytes).into_owned()
}
