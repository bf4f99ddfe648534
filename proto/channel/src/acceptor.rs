//! The executor's many streams on one physical connection: who may open one, and what becomes of each frame.
//!
//! A handshake that is read is paused until a validation says whether the harness is admitted; meanwhile everything else
//! goes on. Refusals cost the peer a stream, and us as little as possible: an identical handshake is refused by its
//! hash, and after [`MAX_FAILED_HANDSHAKES`](rendezvous_wire::limits::MAX_FAILED_HANDSHAKES) failures admission pauses
//! while the open streams work on.

mod admission;
mod deadlines;
mod event;
mod places;
mod refusal;
mod reliable;
mod replay;
mod turns;

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use rand_core::CryptoRng;
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::key::{KeyDigest, PublicKey};
use rendezvous_wire::limits::{MAX_AUTHORIZATION, MAX_RECORD_PLAINTEXT};
use rendezvous_wire::secret::Secret;

pub use event::{Counters, Ended, Event, StreamKey, ValidationId, Verdict};

use self::admission::Admission;
use self::deadlines::Deadlines;
use self::refusal::Courtesy;
pub use self::refusal::{COURTESY_TIME, MAX_COURTESY};
use self::replay::ReplayCache;
use self::turns::{Share, Turns};
use crate::budget::Budget;
use crate::handshake::{CREDENTIAL_REJECTED, HandshakeError, Paused, Prologue, Responder, SessionKeys};
use crate::identity::Identity;
use crate::primitives::hash::sha256;
use crate::reliable as reliability;
use crate::stream::{self, SendError, Stream};

/// Refusals that may wait to be sent; further ones are dropped and counted.
pub const MAX_WAITING_REFUSALS: usize = 1024;

/// The streams of one executor connection.
///
/// After any call that takes `&mut self`, poll transmissions, events and the timeout until they are empty.
#[derive(Debug)]
pub struct Acceptor {
    identity: Identity,
    /// Keys that we had before.
    previous: Vec<Identity>,
    environment: EnvironmentId,
    registration: RegistrationId,
    budget: Budget,
    slots: HashMap<StreamId, Slot>,
    active: HashMap<StreamKey, StreamId>,
    validations: HashMap<ValidationId, Validation>,
    admission: Admission,
    replays: ReplayCache,
    /// Handshake answers and resets: they go before any record.
    control: VecDeque<Bytes>,
    turns: Turns,
    courtesy: Courtesy,
    /// Longest plaintext of a record, in bytes.
    record_limit: usize,
    deadlines: Deadlines,
    suspended: usize,
    events: VecDeque<Event>,
    counters: Counters,
    last_number: u64,
    /// What new streams may become.
    offer: Option<reliability::Config>,
    /// The newest time that we know.
    now: Option<Instant>,
}

#[derive(Debug)]
enum Slot {
    Pending(ValidationId),
    Active {
        key: StreamKey,
        harness: KeyDigest,
        /// What the streams of this harness share.
        budget: Budget,
        stream: Box<Stream>,
        share: Share,
    },
}

/// A validation occupies its place until its registry call ends, cancelled or not.
#[derive(Debug)]
enum Validation {
    Running {
        stream_id: StreamId,
        harness: KeyDigest,
        paused: Box<Paused>,
    },
    Cancelled {
        harness: KeyDigest,
    },
}

impl Validation {
    fn cancel(&mut self) {
        if let Self::Running { harness, .. } = self {
            *self = Self::Cancelled { harness: *harness };
        }
    }
}

impl Acceptor {
    /// An empty connection. `budget` is charged for what harnesses make us hold, and may be shared between connections.
    pub fn new(identity: Identity, environment: EnvironmentId, registration: RegistrationId, budget: Budget) -> Self {
        Self {
            identity,
            previous: Vec::new(),
            environment,
            registration,
            budget,
            slots: HashMap::new(),
            active: HashMap::new(),
            validations: HashMap::new(),
            admission: Admission::default(),
            replays: ReplayCache::default(),
            control: VecDeque::new(),
            turns: Turns::default(),
            courtesy: Courtesy::default(),
            record_limit: MAX_RECORD_PLAINTEXT,
            deadlines: Deadlines::default(),
            suspended: 0,
            events: VecDeque::new(),
            counters: Counters::default(),
            last_number: 0,
            offer: None,
            now: None,
        }
    }

    /// Answers handshakes to earlier keys too, each tried in turn after the newest. So a harness that knows one of them can
    /// make sure whom it has come to.
    #[must_use]
    pub fn with_previous(mut self, previous: Vec<Identity>) -> Self {
        self.previous = previous;
        self
    }

    /// Takes what the connection received. What is no valid frame is dropped and counted.
    pub fn handle_message(&mut self, now: Instant, message: Bytes) {
        match Frame::decode(message) {
            Ok(frame) => self.handle_frame(now, frame),
            Err(_) => self.counters.invalid_frames += 1,
        }
    }

    /// Takes one frame.
    pub fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.now = Some(now);
        match frame.body {
            Body::Handshake { payload } => self.handle_handshake(now, frame.stream_id, &payload),
            Body::Data { .. } => self.handle_data(now, frame),
            Body::Reset { .. } => self.handle_reset(now, frame),
            Body::Ack | Body::Reattach { .. } => self.handle_reliable(now, frame),
            Body::Resume { .. } | Body::Heartbeat => {}
        }
    }

    /// Takes the answer to a [`Event::ValidationRequested`]. Every request needs exactly one answer, also when its stream
    /// is gone by then. Draws from `rng` as [`Paused::accept`] does.
    pub fn handle_verdict<R: CryptoRng + ?Sized>(
        &mut self,
        now: Instant,
        id: ValidationId,
        verdict: Verdict,
        rng: &mut R,
    ) {
        let Some(Validation::Running {
            stream_id,
            harness,
            paused,
        }) = self.validations.remove(&id)
        else {
            return;
        };
        self.slots.remove(&stream_id);
        match verdict {
            Verdict::Admit if !self.has_place(harness) => self.refuse(&stream_id),
            Verdict::Admit => {
                let initiator = paused.initiator_key().clone();
                match paused.accept(rng) {
                    Ok((answer, keys)) => {
                        self.make_place(harness);
                        self.open(stream_id, initiator, answer, &keys);
                    }
                    Err(_) => self.fail_handshake(now, &stream_id),
                }
            }
            Verdict::Reject => self.fail_handshake(now, &stream_id),
            // The harness did nothing wrong, so neither is a failure of its handshake.
            Verdict::CredentialRejected => match paused.refuse(rng, CREDENTIAL_REJECTED) {
                Ok(answer) => self.push_handshake(stream_id, answer),
                Err(_) => self.refuse(&stream_id),
            },
            Verdict::NotListed => self.turn_away(now, &stream_id, *paused, rng),
        }
    }

    /// Tells that time has passed. To be called at [`Self::poll_timeout`], and, with reliable streams, before what was sent after
    /// a while is transmitted.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = Some(now);
        for key in self.deadlines.due(now) {
            self.with_key(key, |stream| stream.handle_timeout(now));
        }
    }

    /// Queues one message on a stream.
    ///
    /// # Errors
    ///
    /// As [`Stream::send`]; closed too if there is no such stream any more.
    pub fn send(&mut self, key: StreamKey, message: Bytes) -> Result<(), SendError> {
        self.with_key(key, |stream| stream.send(message))
            .unwrap_or(Err(SendError::Closed))
    }

    /// Whether [`Self::send`] takes another message for this stream.
    pub fn has_room(&self, key: StreamKey) -> bool {
        self.stream(key).is_some_and(Stream::has_room)
    }

    /// Lifts the limit on the messages of a stream; see [`Stream::set_initialized`].
    pub fn set_initialized(&mut self, key: StreamKey) {
        self.with_key(key, Stream::set_initialized);
    }

    /// Ends a stream once everything queued is sent.
    pub fn close(&mut self, key: StreamKey, reason: &str) {
        self.with_key(key, |stream| stream.close(reason));
    }

    /// Ends a stream at once.
    pub fn abort(&mut self, key: StreamKey, reason: &str) {
        self.with_key(key, |stream| stream.abort(reason));
    }

    /// The next frame to be sent: handshakes and resets first, then the record of the stream that
    /// has sent least.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.control.pop_front() {
                return Some(frame);
            }
            let key = self.turns.pop()?;
            let Some(id) = self.active.get(&key).cloned() else {
                continue;
            };
            // It waits until it is charged, so that it is not given a place before.
            let limit = self.record_limit;
            let transmit = |stream: &mut Stream| {
                stream.limit_records(limit);
                let before = stream.whole_messages();
                let frame = stream.poll_transmit();
                (frame, before > stream.whole_messages())
            };
            let (frame, is_message) = self.with(&id, transmit).unwrap_or_default();
            let len = frame.as_ref().map_or(0, Bytes::len);
            self.charge(key, &id, len);
            if frame.is_some() {
                self.turns.sent(self.now, key, len, is_message);
                return frame;
            }
        }
    }

    /// Whether [`Self::poll_transmit`] has something to give.
    pub fn wants_transmit(&self) -> bool {
        !self.control.is_empty() || !self.turns.is_empty()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    /// What was refused so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Streams that are open now.
    pub fn active_streams(&self) -> usize {
        self.active.len()
    }

    /// A stream has had its turn.
    fn charge(&mut self, key: StreamKey, id: &StreamId, bytes: usize) {
        if let Some(Slot::Active { stream, share, .. }) = self.slots.get_mut(id) {
            self.turns.taken(share, bytes);
            if stream.wants_transmit() {
                self.turns.wait(key, share);
            }
        }
    }

    fn handle_handshake(&mut self, now: Instant, id: StreamId, message: &[u8]) {
        match self.slots.get(&id) {
            Some(Slot::Active { .. }) => return self.refuse(&id),
            Some(Slot::Pending(_)) => return self.cancel_and_fail(now, &id),
            None => {}
        }
        if self.admission.is_paused(now) || !self.may_read() {
            return self.refuse(&id);
        }
        let hash = sha256(&[message]);
        if self.replays.contains(&hash) {
            self.counters.replays += 1;
            return self.refuse(&id);
        }
        let Ok((paused, authorization)) = self.read(&id, message) else {
            return self.fail_handshake(now, &id);
        };
        let harness = paused.initiator_key().digest();
        if !self.may_validate(harness) {
            return self.refuse(&id);
        }
        self.replays.insert(hash);
        let validation = ValidationId(self.number());
        self.events.push_back(Event::ValidationRequested {
            id: validation,
            stream_id: id.clone(),
            initiator_key: paused.initiator_key().clone(),
            authorization,
        });
        self.validations.insert(
            validation,
            Validation::Running {
                stream_id: id.clone(),
                harness,
                paused: Box::new(paused),
            },
        );
        self.slots.insert(id, Slot::Pending(validation));
    }

    fn read(&self, id: &StreamId, message: &[u8]) -> Result<(Paused, Secret), HandshakeError> {
        let prologue = Prologue::new(&self.environment, &self.registration, id);
        let mut paused = Responder::read(&self.identity, &prologue, message);
        for identity in &self.previous {
            if paused.is_err() {
                paused = Responder::read(identity, &prologue, message);
            }
        }
        let paused = paused?;
        let payload = paused.payload();
        if payload.len() > MAX_AUTHORIZATION {
            return Err(HandshakeError::PayloadTooLong {
                len: payload.len(),
                limit: MAX_AUTHORIZATION,
            });
        }
        let authorization = std::str::from_utf8(payload).map_err(|_| HandshakeError::NotAuthentic)?;
        let authorization = Secret::new(authorization);
        Ok((paused, authorization))
    }

    fn handle_data(&mut self, now: Instant, frame: Frame) {
        match self.slots.get(&frame.stream_id) {
            Some(Slot::Active { .. }) => {
                let id = frame.stream_id.clone();
                self.with(&id, |stream| stream.handle_frame(now, frame));
            }
            Some(Slot::Pending(_)) => self.cancel_and_fail(now, &frame.stream_id),
            None => {
                self.counters.unknown_streams += 1;
                self.refuse(&frame.stream_id);
            }
        }
    }

    fn handle_reset(&mut self, now: Instant, frame: Frame) {
        match self.slots.get(&frame.stream_id) {
            Some(Slot::Active { .. }) => {
                let id = frame.stream_id.clone();
                self.with(&id, |stream| stream.handle_frame(now, frame));
            }
            Some(Slot::Pending(_)) => self.cancel(&frame.stream_id),
            None => {}
        }
    }

    fn cancel(&mut self, id: &StreamId) {
        if let Some(Slot::Pending(validation)) = self.slots.remove(id)
            && let Some(validation) = self.validations.get_mut(&validation)
        {
            validation.cancel();
        }
    }

    fn cancel_and_fail(&mut self, now: Instant, id: &StreamId) {
        self.cancel(id);
        self.fail_handshake(now, id);
    }

    fn push_handshake(&mut self, id: StreamId, message: Vec<u8>) {
        let payload = message.into();
        let frame = Frame::new(id, Body::Handshake { payload });
        self.control.push_back(frame.to_bytes());
    }

    fn open(&mut self, id: StreamId, initiator_key: PublicKey, answer: Vec<u8>, keys: &SessionKeys) {
        let key = StreamKey(self.number());
        self.push_handshake(id.clone(), answer);
        let harness = initiator_key.digest();
        let budget = self.budget_for(harness);
        let stream = Box::new(Stream::accept_with(id.clone(), keys, &budget, self.offer.clone()));
        self.deadlines.set(key, stream.poll_timeout());
        self.active.insert(key, id.clone());
        self.slots.insert(
            id.clone(),
            Slot::Active {
                key,
                harness,
                budget,
                stream,
                share: Share::default(),
            },
        );
        self.events.push_back(Event::StreamOpened {
            key,
            stream_id: id,
            initiator_key,
        });
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn stream(&self, key: StreamKey) -> Option<&Stream> {
        match self.slots.get(self.active.get(&key)?)? {
            Slot::Active { stream, .. } => Some(stream),
            Slot::Pending(_) => None,
        }
    }

    fn with_key<T>(&mut self, key: StreamKey, call: impl FnOnce(&mut Stream) -> T) -> Option<T> {
        let id = self.active.get(&key)?.clone();
        self.with(&id, call)
    }

    /// Calls an active stream and takes up what it has to say: events, its wish to send, its end.
    fn with<T>(&mut self, id: &StreamId, call: impl FnOnce(&mut Stream) -> T) -> Option<T> {
        let Some(Slot::Active { key, stream, share, .. }) = self.slots.get_mut(id) else {
            return None;
        };
        let key = *key;
        if let Some(now) = self.now {
            stream.advance(now);
        }
        self.suspended -= usize::from(stream.suspended_since().is_some());
        let result = call(stream);
        let mut ended = Ended::Here;
        while let Some(event) = stream.poll_event() {
            match event {
                stream::Event::Message(message) => self.events.push_back(Event::Message { key, message }),
                stream::Event::Reset { reason } => ended = Ended::Reset(reason),
                stream::Event::Failed(error) => ended = Ended::Failed(error),
                stream::Event::Ended { reason } => ended = Ended::There(reason),
                stream::Event::Suspended => self.events.push_back(Event::StreamSuspended { key }),
                stream::Event::Resumed => self.events.push_back(Event::StreamResumed { key }),
                stream::Event::Connected | stream::Event::Worn => {}
            }
        }
        if stream.is_closed() {
            while let Some(frame) = stream.poll_transmit() {
                self.control.push_back(frame);
            }
            self.slots.remove(id);
            self.active.remove(&key);
            self.deadlines.set(key, None);
            self.events.push_back(Event::StreamClosed { key, ended });
            return Some(result);
        }
        self.suspended += usize::from(stream.suspended_since().is_some());
        self.deadlines.set(key, stream.poll_timeout());
        if stream.wants_transmit() {
            self.turns.wait(key, share);
        }
        Some(result)
    }
}
