//! The harness's end of a stream.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_channel::handshake::HandshakeError;
use rendezvous_channel::stream::{Event, Fault, SendError, Stream, StreamError};
use rendezvous_channel::{Identity, Prologue, Responder};
use rendezvous_wire::frame::{Body, DecodeError, Frame};
use rendezvous_wire::limits::{GAP_TIMEOUT, INITIALIZE_TIMEOUT};
use rendezvous_wire::reason;

use crate::support::{TestRng, environment, events, harness, registration, stream_id, unlimited};

const STREAM: &str = "4b2d2a1e-7a3c-4f3e-9a65-2f3ef2b6a001";

struct World {
    rng: TestRng,
    now: Instant,
    executor: Identity,
    harness: Stream,
}

impl World {
    fn new() -> Self {
        let mut rng = TestRng::new(21);
        let (identity, executor) = (Identity::generate(&mut rng), Identity::generate(&mut rng));
        let now = Instant::now();
        Self {
            harness: harness(now, STREAM, &identity, &executor, "authorization", &mut rng),
            rng,
            now,
            executor,
        }
    }

    fn sent(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.harness.poll_transmit())
            .map(|frame| Frame::decode(frame).unwrap())
            .collect()
    }

    /// Answers the handshake that was sent and gives the executor's end.
    fn answer(&mut self) -> (Frame, Stream) {
        let Body::Handshake { payload } = &self.sent()[1].body else {
            panic!("no handshake");
        };
        let prologue = Prologue::new(&environment(), &registration(), &stream_id(STREAM));
        let paused = Responder::read(&self.executor, &prologue, payload).unwrap();
        assert_eq!(paused.payload(), b"authorization");
        let (message, keys) = paused.accept(&mut self.rng).unwrap();
        let payload = message.into();
        let frame = Frame::new(stream_id(STREAM), Body::Handshake { payload });
        (frame, Stream::accept(stream_id(STREAM), &keys, &unlimited()))
    }

    /// Both ends, open.
    fn open() -> (Self, Stream) {
        let mut world = Self::new();
        let (answer, executor) = world.answer();
        world.harness.handle_frame(world.now, answer);
        assert_eq!(events(&mut world.harness), [Event::Connected]);
        (world, executor)
    }

    fn deliver(&mut self, stream: &str, body: Body) {
        let frame = Frame::new(stream_id(stream), body).to_bytes();
        self.harness.handle_message(self.now, frame);
    }

    /// The stream failed with this error and says so to the executor.
    #[track_caller]
    fn expect_failure(&mut self, error: StreamError) {
        let reset = Frame::reset(stream_id(STREAM), error.reset_reason());
        assert_eq!(events(&mut self.harness), [Event::Failed(error)]);
        assert!(self.harness.is_closed());
        assert_eq!(self.sent(), [reset]);
        assert_eq!(self.harness.send(Bytes::from_static(b"x")), Err(SendError::Closed));
        assert_eq!(self.harness.poll_timeout(), None);
    }
}

fn data(seq: u32) -> Body {
    Body::Data {
        seq,
        payload: Bytes::from_static(&[1; 40]),
    }
}

#[test]
fn resume_and_handshake_go_out_back_to_back() {
    let mut world = World::new();
    world.harness.send(Bytes::from_static(b"queued early")).unwrap();
    let frames = world.sent();
    assert_eq!(frames.len(), 2);
    assert!(frames.iter().all(|frame| frame.stream_id.as_str() == STREAM));
    assert_eq!(frames[0].body, Body::Resume { next_seq: 0 });
    assert_eq!(frames[0].clone().to_bytes().len(), 42);
    let Body::Handshake { payload } = &frames[1].body else {
        panic!("no handshake");
    };
    assert_eq!(payload.len(), 3568 + "authorization".len());
}

#[test]
fn what_was_queued_before_the_handshake_goes_out_after_it() {
    let mut world = World::new();
    world.harness.send(Bytes::from_static(b"queued early")).unwrap();
    let (answer, mut executor) = world.answer();
    assert_eq!(world.sent(), []);
    world.harness.handle_frame(world.now, answer);
    for frame in world.sent() {
        executor.handle_frame(world.now, frame);
    }
    assert_eq!(
        events(&mut executor),
        [Event::Message(Bytes::from_static(b"queued early"))]
    );
}

#[test]
fn the_largest_frame_is_that_of_stock_peers() {
    let (mut world, _) = World::open();
    world.harness.send(Bytes::from(vec![b'x'; 100_000])).unwrap();
    let frame = world.harness.poll_transmit().unwrap();
    assert_eq!(frame.len(), 61_506);
    let frame = Frame::decode(frame).unwrap();
    let Body::Data { seq: 0, payload } = &frame.body else {
        panic!("no data");
    };
    assert_eq!((payload.len(), frame.ack, frame.ack_bits), (61_456, 0, 0));
}

#[test]
fn other_streams_and_empty_frames_are_skipped_at_any_time() {
    let mut world = World::new();
    let skip = |world: &mut World| {
        world.deliver("other", data(0));
        world.deliver("other", Body::Reset { reason: "x".to_owned() });
        let mut invalid = Frame::new(stream_id("other"), Body::Heartbeat).to_bytes().to_vec();
        invalid[1] = 9;
        world.harness.handle_message(world.now, invalid.into());
        for body in [Body::Ack, Body::Heartbeat, Body::Resume { next_seq: 3 }] {
            world.deliver(STREAM, body);
        }
        assert_eq!(events(&mut world.harness), []);
        assert!(!world.harness.is_closed());
    };
    skip(&mut world);
    let (answer, _executor) = world.answer();
    world.harness.handle_frame(world.now, answer);
    assert_eq!(events(&mut world.harness), [Event::Connected]);
    skip(&mut world);
}

#[test]
fn a_record_before_the_answer_fails() {
    let mut world = World::new();
    world.sent();
    world.deliver(STREAM, data(0));
    world.expect_failure(StreamError::EarlyRecord);
}

#[test]
fn a_reset_ends_the_stream_at_any_time_and_is_not_answered() {
    for mut world in [World::new(), World::open().0] {
        world.sent();
        world.deliver(
            STREAM,
            Body::Reset {
                reason: "why not".to_owned(),
            },
        );
        let reason = "why not".to_owned();
        assert_eq!(events(&mut world.harness), [Event::Reset { reason }]);
        assert!(world.harness.is_closed());
        assert_eq!(world.sent(), []);
    }
}

#[test]
fn what_is_no_valid_frame_of_this_stream_fails() {
    for mut world in [World::new(), World::open().0] {
        world.sent();
        let mut invalid = Frame::new(stream_id(STREAM), Body::Heartbeat).to_bytes().to_vec();
        invalid[1] = 9;
        world.harness.handle_message(world.now, invalid.into());
        world.expect_failure(StreamError::Frame(DecodeError::Version(9)));
    }
    let mut world = World::new();
    world.harness.handle_message(world.now, Bytes::from_static(b"\xff\xff"));
    assert!(matches!(
        world.harness.poll_event(),
        Some(Event::Failed(StreamError::Frame(DecodeError::Malformed(_))))
    ));
}

#[test]
fn a_second_answer_fails() {
    let mut world = World::new();
    let (answer, _executor) = world.answer();
    world.harness.handle_frame(world.now, answer.clone());
    assert_eq!(events(&mut world.harness), [Event::Connected]);
    world.harness.handle_frame(world.now, answer);
    world.expect_failure(StreamError::SecondHandshake);
}

#[test]
fn a_wrong_answer_fails() {
    let mut world = World::new();
    world.sent();
    world.deliver(
        STREAM,
        Body::Handshake {
            payload: Bytes::from_static(&[1; 3424]),
        },
    );
    world.expect_failure(StreamError::Handshake(HandshakeError::NotAuthentic));
}

#[test]
fn no_answer_fails_in_time() {
    let mut world = World::new();
    world.sent();
    let deadline = world.now + INITIALIZE_TIMEOUT;
    assert_eq!(world.harness.poll_timeout(), Some(deadline));
    world.harness.handle_timeout(deadline - Duration::from_millis(1));
    assert_eq!(events(&mut world.harness), []);
    world.harness.handle_timeout(deadline);
    assert_eq!(StreamError::HandshakeTimeout.fault(), Fault::Path);
    world.expect_failure(StreamError::HandshakeTimeout);
}

#[test]
fn each_kind_of_error_has_its_reset() {
    let (mut world, mut executor) = World::open();
    for message in ["lost", "early"] {
        executor.send(Bytes::from(message)).unwrap();
    }
    executor.poll_transmit().unwrap();
    let early = executor.poll_transmit().unwrap();
    world.harness.handle_message(world.now, early);
    world.harness.handle_timeout(world.now + GAP_TIMEOUT);
    assert_eq!(StreamError::Gap(0).reset_reason(), reason::RECORD_GAP);
    world.expect_failure(StreamError::Gap(0));

    let (mut world, _) = World::open();
    world.deliver(STREAM, data(0));
    let error = StreamError::Record(rendezvous_channel::record::RecordError::NotAuthentic);
    assert_eq!(error.reset_reason(), reason::PROTOCOL_ERROR);
    world.expect_failure(error);
}

#[test]
fn closing_before_the_answer_resets_at_once() {
    let mut world = World::new();
    world.harness.send(Bytes::from_static(b"never sent")).unwrap();
    world.harness.close("enough");
    assert_eq!(world.sent(), [Frame::reset(stream_id(STREAM), "enough")]);
    assert!(world.harness.is_closed());
}

#[test]
fn nothing_secret_is_printed() {
    let (mut world, mut executor) = World::open();
    world.harness.send(Bytes::from(vec![b'x'; 100_000])).unwrap();
    let frame = world.harness.poll_transmit().unwrap();
    executor.handle_message(world.now, frame);
    for stream in [&world.harness, &executor, &World::new().harness] {
        let text = format!("{stream:?}");
        assert!(text.contains("redacted") || text.contains("Identity("), "{text}");
        assert!(
            !text.contains("xxx") && !text.contains("authorization") && text.len() < 1500,
            "{text}"
        );
    }
    let message = Event::Message(Bytes::from_static(b"secret"));
    assert_eq!(format!("{message:?}"), "Message(6 bytes)");
}
