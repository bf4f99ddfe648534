//! Every rule about who may open a stream on an executor connection, and what becomes of each frame.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_channel::acceptor::{Ended, Event, MAX_WAITING_REFUSALS, StreamKey, ValidationId, Verdict};
use rendezvous_channel::budget::Budget;
use rendezvous_channel::handshake::HandshakeError;
use rendezvous_channel::message::MessageError;
use rendezvous_channel::reorder::ReorderError;
use rendezvous_channel::stream::{
    self, INITIAL_MESSAGE_LIMIT, MAX_SEND_QUEUE_MESSAGES, SendError, Stream, StreamError,
};
use rendezvous_channel::{Acceptor, Identity};
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::limits::{
    GAP_TIMEOUT, HANDSHAKE_COOLDOWN, MAX_FAILED_HANDSHAKES, MAX_MESSAGE, MAX_PENDING_VALIDATIONS, MAX_STREAMS,
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

#[test]
fn an_admitted_stream_carries_messages_both_ways() {
    let mut world = World::new();
    let mut open = world.open("s");
    world.expect_alive(&mut open);
    assert_eq!(world.acceptor.active_streams(), 1);
}

#[test]
fn authorizations_of_0_and_4096_bytes_are_asked_about() {
    let mut world = World::new();
    for (stream, authorization) in [("a", String::new()), ("b", "é".repeat(2048))] {
        let mut harness = world.connect(stream, &authorization);
        world.pump(&mut harness);
        let events = world.events();
        let [
            Event::ValidationRequested {
                authorization: asked, ..
            },
        ] = &events[..]
        else {
            panic!("no validation");
        };
        assert_eq!(asked.expose(), authorization);
        assert!(!format!("{events:?}").contains('é'));
    }
}

#[test]
fn an_authorization_of_4097_bytes_is_refused_and_counted() {
    let mut world = World::new();
    let mut harness = world.connect("s", &"x".repeat(4097));
    world.pump(&mut harness);
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
}

#[test]
fn an_authorization_that_is_not_utf_8_is_refused_and_counted() {
    use rendezvous_channel::Initiator;
    let mut world = World::new();
    let prologue = crate::support::prologue("s");
    let (_, message) = Initiator::start(
        &world.harness,
        world.executor.public(),
        &prologue,
        &[0xc3, 0x28],
        &mut world.rng,
    )
    .unwrap();
    let payload = message.into();
    world.frame("s", Body::Handshake { payload });
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
}

#[test]
fn a_handshake_that_cannot_be_read_is_refused_and_counted() {
    let mut world = World::new();
    world.bad_handshake("s");
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
    // A handshake for another stream is not authentic either.
    let mut harness = world.connect("other", "authorization");
    while let Some(frame) = harness.poll_transmit() {
        let mut frame = Frame::decode(frame).unwrap();
        frame.stream_id = stream_id("s");
        world.acceptor.handle_frame(world.now, frame);
    }
    world.expect_refusal("s");
    assert_eq!(world.failures(), 2);
}

#[test]
fn a_handshake_on_an_active_stream_is_refused_and_the_stream_survives() {
    let mut world = World::new();
    let mut open = world.open("s");
    world.bad_handshake("s");
    world.expect_refusal("s");
    let mut second = world.connect("s", "authorization");
    world.pump(&mut second);
    world.expect_refusal("s");
    assert_eq!(world.failures(), 0);
    world.expect_alive(&mut open);
}

#[test]
fn a_handshake_on_a_pending_stream_cancels_it_and_counts() {
    let mut world = World::new();
    let first = world.pending("s");
    world.bad_handshake("s");
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
    // The stream id is free at once, and the late verdict concerns nobody.
    let second = world.pending("s");
    world.verdict(first.id, Verdict::Admit);
    world.expect_nothing();
    let mut open = world.admit(second);
    world.expect_alive(&mut open);
}

#[test]
fn data_on_a_pending_stream_cancels_it_and_counts() {
    let mut world = World::new();
    let pending = world.pending("s");
    world.data("s");
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
    world.verdict(pending.id, Verdict::Admit);
    world.expect_nothing();
}

#[test]
fn data_on_an_unknown_stream_is_refused_and_not_counted() {
    let mut world = World::new();
    world.data("s");
    world.expect_refusal("s");
    assert_eq!((world.failures(), world.acceptor.counters().unknown_streams), (0, 1));
}

#[test]
fn a_reset_is_never_answered() {
    let mut world = World::new();
    let reset = || Body::Reset {
        reason: "gone".to_owned(),
    };
    world.frame("unknown", reset());
    world.expect_nothing();

    let pending = world.pending("pending");
    world.frame("pending", reset());
    world.expect_nothing();
    world.verdict(pending.id, Verdict::Admit);
    world.expect_nothing();

    let open = world.open("active");
    world.frame("active", reset());
    world.expect_closed(open.key, Ended::Reset("gone".to_owned()));
    assert_eq!(world.sent(), []);
    assert_eq!(world.failures(), 0);
}

#[test]
fn a_rejected_harness_is_reset_and_counted() {
    let mut world = World::new();
    let mut pending = world.pending("s");
    world.verdict(pending.id, Verdict::Reject);
    assert_eq!(world.events(), []);
    for frame in world.sent() {
        pending.harness.handle_frame(world.now, frame);
    }
    let reason = reason::PROTOCOL_ERROR.to_owned();
    assert_eq!(events(&mut pending.harness), [stream::Event::Reset { reason }]);
    assert_eq!(world.failures(), 1);
}

#[test]
fn a_rejected_executor_credential_is_told_inside_the_handshake() {
    let mut world = World::new();
    let mut pending = world.pending("s");
    world.verdict(pending.id, Verdict::CredentialRejected);
    assert_eq!(world.events(), []);
    for frame in world.sent() {
        pending.harness.handle_frame(world.now, frame);
    }
    let events = events(&mut pending.harness);
    let [stream::Event::Failed(StreamError::Handshake(error @ HandshakeError::Refused(text)))] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(text.contains("credential") && !error.is_retryable());
    assert_eq!((world.failures(), world.acceptor.active_streams()), (0, 0));
    // The stream id is free again.
    world.open("s");
}

#[test]
fn the_129th_stream_is_refused() {
    let mut world = World::new();
    let mut first = world.open("0");
    for stream in 1..MAX_STREAMS - 1 {
        world.open(&stream.to_string());
    }
    // Two are judged while one place is left.
    let (a, b) = (world.pending("a"), world.pending("b"));
    let last = world.admit(a);
    world.verdict(b.id, Verdict::Admit);
    world.expect_refusal("b");
    assert_eq!(world.acceptor.active_streams(), MAX_STREAMS);
    let mut late = world.connect("late", "authorization");
    world.pump(&mut late);
    world.expect_refusal("late");
    assert_eq!(world.failures(), 0);
    world.expect_alive(&mut first);

    world.acceptor.abort(last.key, reason::PROCESSOR_ENDED);
    world.expect_closed(last.key, Ended::Here);
    world.sent();
    world.open("late");
}

#[test]
fn the_33rd_validation_is_refused_and_a_cancelled_one_keeps_its_place() {
    let mut world = World::new();
    let mut pending: Vec<_> = (0..MAX_PENDING_VALIDATIONS)
        .map(|stream| world.pending(&stream.to_string()))
        .collect();
    let refused = |world: &mut World| {
        let mut late = world.connect("late", "authorization");
        world.pump(&mut late);
        world.expect_refusal("late");
    };
    refused(&mut world);
    world.frame(
        "3",
        Body::Reset {
            reason: "gone".to_owned(),
        },
    );
    refused(&mut world);
    assert_eq!(world.failures(), 0);
    let cancelled = pending.remove(3);
    world.verdict(cancelled.id, Verdict::Reject);
    world.expect_nothing();
    world.pending("late");
    // The others finish in any order.
    for one in pending.into_iter().rev() {
        world.admit(one);
    }
}

#[test]
fn a_pending_validation_holds_up_nobody() {
    let mut world = World::new();
    let mut before = world.open("before");
    let slow = world.pending("slow");
    world.expect_alive(&mut before);
    let mut after = world.open("after");
    world.expect_alive(&mut after);
    let mut slow = world.admit(slow);
    world.expect_alive(&mut slow);
}

#[test]
fn eight_failures_pause_admission_and_nothing_else() {
    let mut world = World::new();
    let mut open = world.open("healthy");
    let judged = world.pending("judged");
    for _ in 0..MAX_FAILED_HANDSHAKES {
        world.bad_handshake("bad");
        world.expect_refusal("bad");
    }
    let start = world.now;
    let mut harness = world.connect("late", "authorization");
    let handshake: Vec<_> = std::iter::from_fn(|| harness.poll_transmit()).collect();
    let try_late = |world: &mut World| {
        for frame in &handshake {
            world.acceptor.handle_message(world.now, frame.clone());
        }
    };
    for part in [0, 1, 5, 9] {
        world.now = start + HANDSHAKE_COOLDOWN * part / 10;
        try_late(&mut world);
        world.expect_refusal("late");
        world.bad_handshake("bad");
        world.expect_refusal("bad");
        world.expect_alive(&mut open);
    }
    // One that was read before the pause is still admitted.
    world.admit(judged);

    // The same handshake is good afterwards, and the counter begins anew.
    world.now = start + HANDSHAKE_COOLDOWN;
    try_late(&mut world);
    let events = world.events();
    let [Event::ValidationRequested { id, .. }] = events[..] else {
        panic!("{events:?}");
    };
    world.admit(Pending { id, harness });
    for _ in 1..MAX_FAILED_HANDSHAKES {
        world.bad_handshake("bad");
        world.expect_refusal("bad");
    }
    world.open("still");
    world.bad_handshake("bad");
    world.sent();
    let mut late = world.connect("paused again", "authorization");
    world.pump(&mut late);
    world.expect_refusal("paused again");
}

#[test]
fn a_failure_during_the_pause_does_not_lengthen_it() {
    let mut world = World::new();
    let judged = world.pending("judged");
    for _ in 0..MAX_FAILED_HANDSHAKES {
        world.bad_handshake("bad");
        world.expect_refusal("bad");
    }
    world.now += HANDSHAKE_COOLDOWN / 2;
    world.verdict(judged.id, Verdict::Reject);
    world.expect_refusal("judged");
    world.now += HANDSHAKE_COOLDOWN / 2;
    world.open("after");
}

#[test]
fn failures_far_apart_pause_nothing() {
    let mut world = World::new();
    for count in 1..=4 * u64::from(MAX_FAILED_HANDSHAKES) {
        world.bad_handshake("bad");
        world.expect_refusal("bad");
        assert_eq!(world.failures(), count);
        // Shorter than a pause, and so long that less than eight fall into a minute.
        world.now += HANDSHAKE_COOLDOWN - Duration::from_secs(1);
    }
    world.open("s");
}

#[test]
fn an_identical_handshake_costs_one_validation() {
    let mut world = World::new();
    let mut pending = world.connect("s", "authorization");
    let handshake: Vec<_> = std::iter::from_fn(|| pending.poll_transmit()).collect();
    for frame in &handshake {
        world.acceptor.handle_message(world.now, frame.clone());
    }
    let events = world.events();
    let [Event::ValidationRequested { id, .. }] = events[..] else {
        panic!("{events:?}");
    };
    world.verdict(id, Verdict::Reject);
    world.sent();
    for frame in &handshake {
        world.acceptor.handle_message(world.now, frame.clone());
    }
    world.expect_refusal("s");
    assert_eq!((world.acceptor.counters().replays, world.failures()), (1, 1));
}

#[test]
fn a_broken_record_ends_its_stream_only() {
    let mut world = World::new();
    let mut healthy = world.open("healthy");
    let open = world.open("broken");
    world.data("broken");
    let ended = Ended::Failed(StreamError::Record(
        rendezvous_channel::record::RecordError::NotAuthentic,
    ));
    world.expect_closed(open.key, ended);
    world.expect_refusal("broken");
    assert_eq!(world.failures(), 0);
    world.expect_alive(&mut healthy);
}

#[test]
fn a_replayed_or_corrupted_record_is_refused() {
    let mut world = World::new();
    let mut open = world.open("s");
    open.harness.send(Bytes::from_static(b"once")).unwrap();
    let first = open.harness.poll_transmit().unwrap();
    world.acceptor.handle_message(world.now, first.clone());
    assert_eq!(world.events().len(), 1);
    // As the same record it is a duplicate; as the next one it is a forgery.
    world.acceptor.handle_message(world.now, first.clone());
    world.expect_nothing();
    let mut forged = Frame::decode(first).unwrap();
    let Body::Data { seq, .. } = &mut forged.body else {
        panic!("no data");
    };
    *seq = 1;
    world.acceptor.handle_frame(world.now, forged);
    let ended = Ended::Failed(StreamError::Record(
        rendezvous_channel::record::RecordError::NotAuthentic,
    ));
    world.expect_closed(open.key, ended);
}

#[test]
fn records_too_far_ahead_end_the_stream() {
    let mut world = World::new();
    let open = world.open("s");
    let payload = Bytes::from_static(&[1; 40]);
    world.frame("s", Body::Data { seq: 65, payload });
    let ended = Ended::Failed(StreamError::Reorder(ReorderError::TooFar { seq: 65, next: 0 }));
    world.expect_closed(open.key, ended);
}

#[test]
fn a_record_that_never_comes_ends_the_stream() {
    let mut world = World::new();
    let mut open = world.open("s");
    let start = world.now;
    for message in ["lost", "early"] {
        open.harness.send(Bytes::from(message)).unwrap();
    }
    open.harness.poll_transmit().unwrap();
    world.pump(&mut open.harness);
    assert_eq!(world.acceptor.poll_timeout(), Some(start + GAP_TIMEOUT));
    world
        .acceptor
        .handle_timeout(start + GAP_TIMEOUT - Duration::from_millis(1));
    world.expect_nothing();
    world.acceptor.handle_timeout(start + GAP_TIMEOUT);
    world.expect_closed(open.key, Ended::Failed(StreamError::Gap(0)));
    let reset = Frame::reset(stream_id("s"), reason::RECORD_GAP);
    assert_eq!(world.sent(), [reset]);
    assert_eq!(world.acceptor.poll_timeout(), None);
}

#[test]
fn messages_are_short_until_the_stream_is_initialized() {
    let mut world = World::new();
    let long = Bytes::from(vec![b'x'; INITIAL_MESSAGE_LIMIT + 1]);
    let mut open = world.open("a");
    open.harness.send(long.slice(1..)).unwrap();
    world.pump(&mut open.harness);
    assert_eq!(world.events().len(), 1);
    world.acceptor.set_initialized(open.key);
    open.harness.send(long.clone()).unwrap();
    world.pump(&mut open.harness);
    assert_eq!(world.events().len(), 1);

    let mut open = world.open("b");
    open.harness.send(long.clone()).unwrap();
    world.pump(&mut open.harness);
    let error = MessageError::TooLong {
        len: long.len(),
        limit: INITIAL_MESSAGE_LIMIT,
    };
    let ended = Ended::Failed(StreamError::Message(error));
    world.expect_closed(open.key, ended);
}

#[test]
fn unfinished_messages_share_the_connections_budget() {
    let budget = Budget::new(200_000);
    let mut world = World::with_budget(budget.clone());
    let mut open: Vec<_> = ["a", "b", "c", "d"].map(|stream| world.open(stream)).into();
    for one in &mut open {
        one.harness.send(Bytes::from(vec![b'x'; 200_000])).unwrap();
        let frame = one.harness.poll_transmit().unwrap();
        world.acceptor.handle_message(world.now, frame);
    }
    let events = world.events();
    assert!(
        matches!(
            &events[..],
            [Event::StreamClosed { key, ended: Ended::Failed(StreamError::Budget(_)) }] if *key == open[3].key
        ),
        "{events:?}"
    );
    let reset = Frame::reset(stream_id("d"), reason::BACKPRESSURE);
    assert_eq!(world.sent(), [reset]);
    for one in &open[..3] {
        world.acceptor.abort(one.key, reason::PROCESSOR_ENDED);
    }
    assert_eq!(budget.used(), 0);
}

#[test]
fn streams_send_in_turn() {
    let mut world = World::new();
    let open = ["a", "b", "c"].map(|stream| world.open(stream));
    let long = Bytes::from(vec![b'x'; 300_000]);
    world.acceptor.send(open[0].key, long.clone()).unwrap();
    world.acceptor.send(open[1].key, long).unwrap();
    world.acceptor.send(open[2].key, Bytes::from_static(b"short")).unwrap();
    let order: Vec<_> = world
        .sent()
        .iter()
        .map(|frame| frame.stream_id.as_str().to_owned())
        .collect();
    assert_eq!(order.join(""), "abcabababab");
    assert!(!world.acceptor.wants_transmit());
}

#[test]
fn closing_sends_what_is_queued_and_aborting_does_not() {
    let mut world = World::new();
    for abort in [false, true] {
        let mut open = world.open("s");
        let key = open.key;
        world.acceptor.send(key, Bytes::from_static(b"last words")).unwrap();
        if abort {
            world.acceptor.abort(key, reason::PROCESSOR_ENDED);
        } else {
            world.acceptor.close(key, reason::PROCESSOR_ENDED);
            assert_eq!(
                world.acceptor.send(key, Bytes::from_static(b"more")),
                Err(SendError::Closed)
            );
        }
        for frame in world.sent() {
            open.harness.handle_frame(world.now, frame);
        }
        world.expect_closed(key, Ended::Here);
        let reset = stream::Event::Reset {
            reason: reason::PROCESSOR_ENDED.to_owned(),
        };
        let words = stream::Event::Message(Bytes::from_static(b"last words"));
        let expected = if abort { vec![reset] } else { vec![words, reset] };
        assert_eq!(events(&mut open.harness), expected);
    }
}

#[test]
fn a_key_never_means_a_later_stream() {
    let mut world = World::new();
    let old = world.open("s");
    world.acceptor.abort(old.key, reason::PROCESSOR_ENDED);
    world.expect_closed(old.key, Ended::Here);
    world.sent();
    let mut new = world.open("s");
    world.acceptor.close(old.key, reason::PROCESSOR_ENDED);
    world.expect_nothing();
    world.expect_alive(&mut new);
}

#[test]
fn what_is_no_valid_frame_is_dropped_and_counted() {
    let mut world = World::new();
    let mut open = world.open("s");
    let valid = Frame::new(stream_id("s"), Body::Heartbeat).to_bytes();
    let wrong_version = [&[0x08, 0x02], &valid[2..]].concat();
    for message in [&b"\xff\xff"[..], b"", &wrong_version] {
        world
            .acceptor
            .handle_message(world.now, Bytes::copy_from_slice(message));
    }
    for body in [Body::Heartbeat, Body::Ack, Body::Resume { next_seq: 7 }] {
        world.frame("s", body.clone());
        world.frame("unknown", body);
    }
    world.expect_nothing();
    assert_eq!(world.acceptor.counters().invalid_frames, 3);
    world.expect_alive(&mut open);
}

#[test]
fn waiting_refusals_are_bounded() {
    let mut world = World::new();
    for _ in 0..MAX_WAITING_REFUSALS + 10 {
        world.data("s");
    }
    assert_eq!(world.acceptor.counters().dropped_refusals, 10);
    assert_eq!(world.sent().len(), MAX_WAITING_REFUSALS);
}

#[test]
fn a_full_queue_takes_nothing_more_until_some_is_sent() {
    let mut world = World::new();
    let open = world.open("s");
    let message = Bytes::from(vec![b'x'; 700 * 1024]);
    world.acceptor.send(open.key, message.clone()).unwrap();
    assert!(world.acceptor.has_room(open.key));
    world.acceptor.send(open.key, message.clone()).unwrap();
    assert!(!world.acceptor.has_room(open.key));
    let refused = world.acceptor.send(open.key, message.clone()).unwrap_err();
    assert!(refused.is_retryable());
    world.sent();
    world.acceptor.send(open.key, message).unwrap();

    world.sent();
    for _ in 0..MAX_SEND_QUEUE_MESSAGES {
        world.acceptor.send(open.key, Bytes::from_static(b"x")).unwrap();
    }
    assert!(!world.acceptor.has_room(open.key));
    let refused = world.acceptor.send(open.key, Bytes::from_static(b"x")).unwrap_err();
    assert!(refused.is_retryable(), "messages are counted too");

    let huge = Bytes::from(vec![0; MAX_MESSAGE + 1]);
    world.sent();
    let refused = world.acceptor.send(open.key, huge).unwrap_err();
    assert!(matches!(refused, SendError::Message(MessageError::TooLong { .. })));
}
