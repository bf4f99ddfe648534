//! Streams that outlive the connection.

use std::time::Instant;

use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::{RegistrationId, StreamId};

use super::{Acceptor, Ended, Event, Slot, StreamKey};
use crate::reliable::Config;
use crate::stream::Stream;

impl Acceptor {
    /// Lets every stream that is opened later become reliable: each has to be settled with [`Self::settle`] if
    /// [`Self::is_undecided`] says so.
    #[must_use]
    pub fn offering(mut self, offer: Config) -> Self {
        self.offer = Some(offer);
        self
    }

    /// Whether [`Self::settle`] has to be called for this stream; see [`Stream::is_undecided`].
    pub fn is_undecided(&self, key: StreamKey) -> bool {
        self.stream(key).is_some_and(Stream::is_undecided)
    }

    /// Whether a stream outlives its connection.
    pub fn is_reliable(&self, key: StreamKey) -> bool {
        self.stream(key).is_some_and(Stream::is_reliable)
    }

    /// Streams that wait for their harnesses now.
    pub fn suspended_streams(&self) -> usize {
        self.suspended
    }

    /// Says whether the ends of a stream agreed; see [`Stream::settle`].
    pub fn settle(&mut self, now: Instant, key: StreamKey, agreed: bool) {
        self.with_key(key, |stream| stream.settle(now, agreed));
    }

    /// The application took a message of this length; see [`Stream::taken`].
    pub fn taken(&mut self, now: Instant, key: StreamKey, message: usize) {
        self.with_key(key, |stream| stream.taken(now, message));
    }

    /// The connection is gone: handshakes are forgotten, stock streams end, and reliable ones wait for their harnesses.
    pub fn disconnect(&mut self, now: Instant) {
        self.now = Some(now);
        self.control.clear();
        self.slots.retain(|_, slot| matches!(slot, Slot::Active { .. }));
        for validation in self.validations.values_mut() {
            validation.cancel();
        }
        let keys: Vec<(StreamKey, StreamId)> = self.active.iter().map(|(key, id)| (*key, id.clone())).collect();
        for (key, id) in keys {
            if self.with(&id, |stream| stream.is_reliable()) == Some(true) {
                self.with(&id, |stream| stream.suspend(now));
            } else {
                self.slots.remove(&id);
                self.active.remove(&key);
                self.deadlines.set(key, None);
                let ended = Ended::Disconnected;
                self.events.push_back(Event::StreamClosed { key, ended });
            }
        }
    }

    /// There is a connection again, possibly for another registration. Replayed handshakes of the old one do not read.
    pub fn reconnect(&mut self, registration: RegistrationId) {
        self.registration = registration;
    }

    /// What means something to open streams that are reliable, and nothing to all others.
    pub(super) fn handle_reliable(&mut self, now: Instant, frame: Frame) {
        let id = frame.stream_id.clone();
        let resumes = matches!(frame.body, Body::Reattach { .. });
        let known = self.with(&id, |stream| stream.handle_frame(now, frame)).is_some();
        if resumes && !known && !self.slots.contains_key(&id) {
            // Whoever waits for an answer need not wait for ever.
            self.counters.unknown_streams += 1;
            self.refuse(&id);
        }
    }
}
