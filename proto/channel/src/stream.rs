//! One stream of either role: frames in, frames out, messages at the other end.
//!
//! The harness side begins with its handshake ([`Stream::connect`]); the executor side begins when the handshake is done
//! and the harness admitted ([`Stream::accept`]), and everything before that is the
//! [`Acceptor`](crate::acceptor::Acceptor)'s. After any call that takes `&mut self`, poll transmissions, events and the
//! timeout until they are empty.

mod continuity;
mod error;
mod open;
mod records;
mod reliable;
mod undecided;

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use bytes::Bytes;
use rand_core::CryptoRng;
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::limits::{INITIALIZE_TIMEOUT, MAX_MESSAGE};
use rendezvous_wire::secret::Secret;

pub use error::{Fault, SendError, StreamError};

use self::open::Open;
use self::reliable::{Delivered, Reliable};
use crate::budget::Budget;
use crate::handshake::{HandshakeError, Initiator, Prologue, SessionKeys};
use crate::identity::Identity;
use crate::message::Encoder;
use crate::reliable::{self as reliability, LINGER, weight};

/// Plaintext that may wait to be sent on one stream before [`Stream::send`] says that it is full. One message may go
/// beyond it, so that every message can be sent.
pub const MAX_SEND_QUEUE: usize = 1024 * 1024;
/// Messages that may wait to be sent on one stream.
pub const MAX_SEND_QUEUE_MESSAGES: usize = 1024;
/// Longest message that an executor takes before [`Stream::set_initialized`].
pub const INITIAL_MESSAGE_LIMIT: usize = 256 * 1024;

/// What a harness needs to open a stream.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The environment that was asked for.
    pub environment: &'a EnvironmentId,
    /// The executor's registration.
    pub registration: &'a RegistrationId,
    /// The executor's key; only its holder can answer.
    pub executor_key: &'a PublicKey,
    /// What the registry gave to present to the executor.
    pub authorization: &'a Secret,
}

/// What a stream tells. `Debug` shows the size of a message, not its text.
#[derive(PartialEq, Eq)]
pub enum Event {
    /// The handshake is done.
    Connected,
    /// One whole message.
    Message(Bytes),
    /// The peer, or somebody on the path, ended the stream; the reason is not authentic.
    Reset {
        /// For people.
        reason: String,
    },
    /// The stream ended by our decision.
    Failed(StreamError),
    /// The connection of a reliable stream is gone, or somebody says so. Nothing is lost: a harness dials again and says
    /// [`Stream::reconnect`].
    Suspended,
    /// A reliable stream goes on where it was.
    Resumed,
    /// The peer ended a reliable stream; nothing is missing. The reason is authentic.
    Ended {
        /// For people.
        reason: String,
    },
    /// Half of the record numbers of a reliable stream are used up: a harness opens another stream and moves there.
    Worn,
}

/// One end of an end-to-end channel.
pub struct Stream {
    id: StreamId,
    state: State,
    outgoing: Encoder,
    /// At most three frames: resume, handshake, reset.
    control: VecDeque<Bytes>,
    events: VecDeque<Event>,
    /// What a harness offers until its handshake is done.
    offer: Option<reliability::Config>,
    /// The newest time that we know.
    now: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Handshaking {
        initiator: Box<Initiator>,
        deadline: Instant,
        budget: Budget,
    },
    Open(Box<Open>),
    /// Sends what waits, then a reset with this reason.
    Draining(Box<Open>, Farewell),
    Closed,
}

#[derive(Debug)]
struct Farewell {
    reason: String,
    /// When a reliable stream waits no longer for the confirmation of its end.
    until: Option<Instant>,
}

impl Stream {
    /// Opens a stream to an executor: the resume and handshake frames are ready to be sent.
    ///
    /// `budget` is charged for what the executor makes us hold. Draws from `rng` as [`Initiator::start`] does.
    ///
    /// # Errors
    ///
    /// The authorization is too long, or the executor's key invalid.
    pub fn connect<R: CryptoRng + ?Sized>(
        now: Instant,
        id: StreamId,
        identity: &Identity,
        target: &Target<'_>,
        budget: &Budget,
        rng: &mut R,
    ) -> Result<Self, HandshakeError> {
        let prologue = Prologue::new(target.environment, target.registration, &id);
        let authorization = target.authorization.expose().as_bytes();
        let (initiator, message) = Initiator::start(identity, target.executor_key, &prologue, authorization, rng)?;
        let frames = [
            Body::Resume { next_seq: 0 },
            Body::Handshake {
                payload: message.into(),
            },
        ];
        Ok(Self {
            control: frames.map(|body| Frame::new(id.clone(), body).to_bytes()).into(),
            state: State::Handshaking {
                initiator: Box::new(initiator),
                deadline: now + INITIALIZE_TIMEOUT,
                budget: budget.clone(),
            },
            id,
            outgoing: Encoder::default(),
            events: VecDeque::new(),
            offer: None,
            now: Some(now),
        })
    }

    /// The executor's end of a stream whose handshake is done.
    ///
    /// Until [`Self::set_initialized`] a message may have [`INITIAL_MESSAGE_LIMIT`] bytes only.
    pub fn accept(id: StreamId, keys: &SessionKeys, budget: &Budget) -> Self {
        Self::accept_with(id, keys, budget, None)
    }

    /// As [`Self::accept`]; with an offer, the stream may become reliable: see [`Self::settle`].
    pub fn accept_with(id: StreamId, keys: &SessionKeys, budget: &Budget, offer: Option<reliability::Config>) -> Self {
        Self {
            id,
            state: State::Open(Box::new(Open::new(keys, budget, INITIAL_MESSAGE_LIMIT, offer))),
            outgoing: Encoder::default(),
            control: VecDeque::new(),
            events: VecDeque::new(),
            offer: None,
            now: None,
        }
    }

    /// The stream's name.
    pub fn id(&self) -> &StreamId {
        &self.id
    }

    /// Lifts the limit on messages to 64 MiB: the peer has shown that it speaks the protocol above.
    pub fn set_initialized(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.set_message_limit(MAX_MESSAGE);
        }
    }

    /// Takes what a harness connection received. Frames of other streams are skipped; anything that is no valid frame of
    /// this one ends the stream.
    pub fn handle_message(&mut self, now: Instant, message: Bytes) {
        if self.is_closed() {
            return;
        }
        match Frame::decode_for(&self.id, message) {
            Ok(Some(frame)) => self.handle_frame(now, frame),
            Ok(None) => {}
            // On a reliable stream it is one more frame that was lost.
            Err(_) if self.is_reliable() => {}
            Err(error) => self.fail(error.into()),
        }
    }

    /// Takes one frame. Frames of other streams and heartbeats are skipped, and, unless the stream is reliable, resumes and
    /// acknowledgements.
    pub fn handle_frame(&mut self, now: Instant, frame: Frame) {
        if frame.stream_id != self.id {
            return;
        }
        self.advance(now);
        if let Body::Data { .. } | Body::Ack = frame.body
            && let Some(reliable) = self.reliable_mut()
        {
            reliable.ledger.hint(now, frame.ack, frame.ack_bits);
        }
        match frame.body {
            Body::Handshake { payload } => self.handle_handshake(&payload),
            Body::Data { seq, payload } => self.handle_data(now, seq, payload),
            Body::Reset { reason } => self.handle_reset(now, reason),
            Body::Reattach { next_seq, epoch, proof } => self.handle_reattach(now, epoch, next_seq, &proof),
            Body::Ack | Body::Resume { .. } | Body::Heartbeat => {}
        }
    }

    /// Tells that time has passed. To be called at [`Self::poll_timeout`], and, with a reliable stream, before what was sent
    /// after a while is transmitted: it measures times.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        if self.poll_timeout().is_none_or(|deadline| now < deadline) {
            return;
        }
        let mut delivered = VecDeque::new();
        let result = match &mut self.state {
            State::Handshaking { .. } => Err(StreamError::HandshakeTimeout),
            State::Draining(_, farewell) if farewell.until.is_some_and(|until| until <= now) => {
                let reason = std::mem::take(&mut farewell.reason);
                return self.reset(&reason);
            }
            State::Open(open) => open.handle_timeout(now, &mut |what| delivered.push_back(what)),
            State::Draining(open, _) => open.handle_timeout(now, &mut |_| ()),
            State::Closed => Ok(()),
        };
        delivered.into_iter().for_each(|what| self.deliver(what));
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// Queues one message. It may be queued before the handshake is done.
    ///
    /// # Errors
    ///
    /// The message is empty or longer than 64 MiB, too much waits already, or the stream is over.
    pub fn send(&mut self, message: Bytes) -> Result<(), SendError> {
        match self.state {
            State::Draining(..) | State::Closed => Err(SendError::Closed),
            _ if !self.has_room() => Err(SendError::Full),
            _ => Ok(self.outgoing.push(message)?),
        }
    }

    /// Whether [`Self::send`] takes another message.
    pub fn has_room(&self) -> bool {
        self.outgoing.queued() < MAX_SEND_QUEUE && self.outgoing.queued_messages() < MAX_SEND_QUEUE_MESSAGES
    }

    /// Ends the stream once everything queued is sent; what arrives from now on is dropped.
    pub fn close(&mut self, reason: &str) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(open) => {
                let farewell = Farewell {
                    reason: reason.to_owned(),
                    until: self.now.filter(|_| open.reliable().is_some()).map(|now| now + LINGER),
                };
                self.state = State::Draining(open, farewell);
            }
            State::Handshaking { .. } => self.reset(reason),
            state => self.state = state,
        }
    }

    /// Ends the stream at once; what is queued is dropped. A reliable stream still tells its peer, or it would wait.
    pub fn abort(&mut self, reason: &str) {
        if self.is_reliable() {
            self.outgoing.clear();
            self.close(reason);
        } else if !self.is_closed() {
            self.reset(reason);
        }
    }

    /// Whether nothing but a last reset may still be sent.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether [`Self::poll_transmit`] would give a frame.
    pub fn wants_transmit(&self) -> bool {
        !self.control.is_empty()
            || match &self.state {
                State::Open(open) => open.wants_transmit(&self.outgoing, false),
                State::Draining(open, _) => open.wants_transmit(&self.outgoing, true),
                State::Handshaking { .. } | State::Closed => false,
            }
    }

    /// Makes the records of messages at most `limit` bytes of plaintext long from now on; see [`Encoder::limit_pieces`].
    pub fn limit_records(&mut self, limit: usize) {
        self.outgoing.limit_pieces(limit);
    }

    /// Messages that wait to be sent, of which nothing is sent yet.
    pub fn whole_messages(&self) -> usize {
        self.outgoing.whole_messages()
    }

    /// The next frame to be sent, whole and encoded.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.control.pop_front() {
            return Some(frame);
        }
        let (open, farewell) = match &mut self.state {
            State::Open(open) => (open, None),
            State::Draining(open, farewell) => (open, Some(&*farewell.reason)),
            State::Handshaking { .. } | State::Closed => return None,
        };
        match open.transmit(self.now, &self.id, &mut self.outgoing, farewell) {
            Ok(Some(frame)) => return Some(frame),
            Ok(None) => {
                if let State::Draining(open, farewell) = &mut self.state
                    && open.is_finished()
                {
                    let reason = std::mem::take(&mut farewell.reason);
                    self.reset(&reason);
                }
            }
            Err(error) => self.fail(error.into()),
        }
        self.control.pop_front()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Handshaking { deadline, .. } => Some(*deadline),
            State::Open(open) => open.deadline(),
            State::Draining(open, farewell) => {
                let deadline = open.reliable().and_then(Reliable::deadline);
                [farewell.until, deadline].into_iter().flatten().min()
            }
            State::Closed => None,
        }
    }

    fn handle_handshake(&mut self, message: &[u8]) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Handshaking { initiator, budget, .. } => match initiator.finish(message) {
                Ok(keys) => {
                    let offer = self.offer.take();
                    self.state = State::Open(Box::new(Open::new(&keys, &budget, MAX_MESSAGE, offer)));
                    self.events.push_back(Event::Connected);
                }
                Err(error) => self.fail(error.into()),
            },
            State::Open(open) if open.reliable().is_none() => self.fail(StreamError::SecondHandshake),
            state => self.state = state,
        }
    }

    fn handle_data(&mut self, now: Instant, seq: u32, ciphertext: Bytes) {
        let mut end = None;
        let result = match &mut self.state {
            State::Open(open) => {
                let events = &mut self.events;
                open.receive(now, seq, ciphertext, &mut |what| match what {
                    Delivered::Message(message) => events.push_back(Event::Message(message)),
                    Delivered::End(reason) => end = Some(reason),
                })
            }
            State::Draining(open, _) if open.reliable().is_some() => {
                // It goes nowhere, but the peer's confirmations are in it.
                let mut weights = 0;
                let result = open.receive(now, seq, ciphertext, &mut |what| match what {
                    Delivered::Message(message) => weights += weight(message.len()),
                    Delivered::End(reason) => end = Some(reason),
                });
                open.taken(now, weights);
                result
            }
            State::Handshaking { .. } => Err(StreamError::EarlyRecord),
            State::Draining(..) | State::Closed => Ok(()),
        };
        match result {
            Err(error) => self.fail(error),
            Ok(()) => {
                if let Some(reason) = end {
                    self.end(reason);
                }
                if self
                    .reliable_mut()
                    .is_some_and(|reliable| reliable.ledger.poll_renewal())
                {
                    self.events.push_back(Event::Worn);
                }
            }
        }
    }

    fn handle_reset(&mut self, now: Instant, reason: String) {
        if self.is_reliable() {
            self.suspend(now);
        } else if !self.is_closed() {
            self.state = State::Closed;
            self.control.clear();
            self.outgoing.clear();
            self.events.push_back(Event::Reset { reason });
        }
    }

    fn deliver(&mut self, what: Delivered) {
        match what {
            Delivered::Message(message) => self.events.push_back(Event::Message(message)),
            Delivered::End(reason) => self.end(reason),
        }
    }

    /// The peer said that nothing follows. It waits for a word that we know.
    fn end(&mut self, reason: String) {
        let id = self.id.clone();
        let last = self.reliable_mut().map(|reliable| reliable.ack_frame(&id));
        self.state = State::Closed;
        self.outgoing.clear();
        self.control.clear();
        self.control.extend(last);
        self.events.push_back(Event::Ended { reason });
    }

    /// Tells what time it is, and nothing else.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = Some(self.now.map_or(now, |known| known.max(now)));
    }

    fn fail(&mut self, error: StreamError) {
        self.reset(error.reset_reason());
        self.events.push_back(Event::Failed(error));
    }

    fn reset(&mut self, reason: &str) {
        self.state = State::Closed;
        self.outgoing.clear();
        self.control.clear();
        self.control.push_back(Frame::reset(self.id.clone(), reason).to_bytes());
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("outgoing", &self.outgoing)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("Connected"),
            Self::Message(message) => write!(f, "Message({} bytes)", message.len()),
            Self::Reset { reason } => f.debug_struct("Reset").field("reason", reason).finish(),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
            Self::Suspended => f.write_str("Suspended"),
            Self::Resumed => f.write_str("Resumed"),
            Self::Ended { reason } => f.debug_struct("Ended").field("reason", reason).finish(),
            Self::Worn => f.write_str("Worn"),
        }
    }
}
