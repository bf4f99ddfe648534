//! Every rule about who may open a stream on an executor connection, and what becomes of each frame.

mod admission;
mod places;
mod receiving;
mod reliable;
mod sending;

use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_channel::acceptor::{
    COURTESY_TIME, Ended, Event, MAX_COURTESY, MAX_WAITING_REFUSALS, StreamKey, ValidationId, Verdict,
};
use rendezvous_channel::budget::Budget;
use rendezvous_channel::handshake::{CREDENTIAL_REJECTED, HandshakeError};
use rendezvous_channel::message::MessageError;
use rendezvous_channel::reorder::ReorderError;
use rendezvous_channel::stream::{
    self, INITIAL_MESSAGE_LIMIT, MAX_SEND_QUEUE_MESSAGES, SendError, Stream, StreamError,
};
use rendezvous_channel::{Acceptor, Identity};
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::limits::{
    GAP_TIMEOUT, HANDSHAKE_2_OVERHEAD, HANDSHAKE_COOLDOWN, MAX_FAILED_HANDSHAKES, MAX_MESSAGE, MAX_PENDING_VALIDATIONS,
    MAX_PENDING_VALIDATIONS_PER_HARNESS, MAX_STREAMS, MAX_STREAMS_PER_HARNESS,
};
use rendezvous_wire::reason;

use crate::support::{TestRng, environment, events, harness, registration, stream_id};

struct World {
    rng: TestRng,
    now: Instant,
    executor: Identity,
    harness: Identity,
    acceptor: Acceptor,
}

/// A validation that waits, and the harness behind it.
struct Pending {
    id: ValidationId,
    harness: Stream,
}

/// A stream that both ends hold open.
struct Open {
    key: StreamKey,
    harness: Stream,
}

impl World {
    fn new() -> Self {
        Self::with_budget(Budget::new(usize::MAX))
    }

    fn with_budget(budget: Budget) -> Self {
        let mut rng = TestRng::new(11);
        let executor = Identity::generate(&mut rng);
        Self {
            now: Instant::now(),
            harness: Identity::generate(&mut rng),
            acceptor: Acceptor::new(executor.clone(), environment(), registration(), budget),
            executor,
            rng,
        }
    }

    /// From now on it is another harness that connects.
    fn another_harness(&mut self) {
        self.harness = Identity::generate(&mut self.rng);
    }

    fn connect(&mut self, stream: &str, authorization: &str) -> Stream {
        harness(
            self.now,
            stream,
            &self.harness,
            &self.executor,
            authorization,
            &mut self.rng,
        )
    }

    /// Sends everything that the harness has to say.
    fn pump(&mut self, harness: &mut Stream) {
        while let Some(frame) = harness.poll_transmit() {
            self.acceptor.handle_message(self.now, frame);
        }
    }

    fn frame(&mut self, stream: &str, body: Body) {
        self.acceptor
            .handle_frame(self.now, Frame::new(stream_id(stream), body));
    }

    fn bad_handshake(&mut self, stream: &str) {
        let payload = Bytes::from_static(&[1; 3600]);
        self.frame(stream, Body::Handshake { payload });
    }

    fn data(&mut self, stream: &str) {
        let payload = Bytes::from_static(&[1; 40]);
        self.frame(stream, Body::Data { seq: 0, payload });
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.acceptor.poll_event()).collect()
    }

    fn sent(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.acceptor.poll_transmit())
            .map(|frame| Frame::decode(frame).unwrap())
            .collect()
    }

    /// Everything sent is one reset of this stream, and nothing happened.
    #[track_caller]
    fn expect_refusal(&mut self, stream: &str) {
        assert_eq!(self.events(), []);
        let reset = Frame::reset(stream_id(stream), reason::PROTOCOL_ERROR);
        assert_eq!(self.sent(), [reset]);
    }

    #[track_caller]
    fn expect_nothing(&mut self) {
        assert_eq!(self.events(), []);
        assert_eq!(self.sent(), []);
    }

    fn failures(&self) -> u64 {
        self.acceptor.counters().failed_handshakes
    }

    #[track_caller]
    fn pending(&mut self, stream: &str) -> Pending {
        let mut harness = self.connect(stream, "authorization");
        self.pump(&mut harness);
        let mut events = self.events();
        assert_eq!(events.len(), 1);
        let Some(Event::ValidationRequested {
            id,
            stream_id: asked,
            initiator_key,
            authorization,
        }) = events.pop()
        else {
            panic!("no validation");
        };
        assert_eq!(asked, stream_id(stream));
        assert_eq!(&initiator_key, self.harness.public());
        assert_eq!(authorization.expose(), "authorization");
        assert_eq!(self.sent(), []);
        Pending { id, harness }
    }

    fn verdict(&mut self, id: ValidationId, verdict: Verdict) {
        self.acceptor.handle_verdict(self.now, id, verdict, &mut self.rng);
    }

    #[track_caller]
    fn admit(&mut self, pending: Pending) -> Open {
        let Pending { id, mut harness } = pending;
        self.verdict(id, Verdict::Admit);
        let events = self.events();
        let [
            Event::StreamOpened {
                key,
                stream_id,
                initiator_key,
            },
        ] = &events[..]
        else {
            panic!("not opened: {events:?}");
        };
        assert_eq!((stream_id, initiator_key), (harness.id(), self.harness.public()));
        for frame in self.sent() {
            harness.handle_frame(self.now, frame);
        }
        assert_eq!(self::events(&mut harness), [stream::Event::Connected]);
        Open { key: *key, harness }
    }

    #[track_caller]
    fn open(&mut self, stream: &str) -> Open {
        let pending = self.pending(stream);
        self.admit(pending)
    }

    /// A message from the harness arrives, and one from the executor.
    #[track_caller]
    fn expect_alive(&mut self, open: &mut Open) {
        let key = open.key;
        open.harness.send(Bytes::from_static(b"question")).unwrap();
        self.pump(&mut open.harness);
        let message = Bytes::from_static(b"question");
        assert_eq!(self.events(), [Event::Message { key, message }]);
        let answer = Bytes::from_static(b"answer");
        self.acceptor.send(key, answer.clone()).unwrap();
        for frame in self.sent() {
            open.harness.handle_frame(self.now, frame);
        }
        assert_eq!(events(&mut open.harness), [stream::Event::Message(answer)]);
    }

    #[track_caller]
    fn expect_closed(&mut self, key: StreamKey, ended: Ended) {
        assert_eq!(self.events(), [Event::StreamClosed { key, ended }]);
        assert_eq!(
            self.acceptor.send(key, Bytes::from_static(b"x")),
            Err(SendError::Closed)
        );
    }
}
