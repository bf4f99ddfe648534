//! What a hostile relay, or strangers through it, send to a real executor, while an honest harness works beside them.

use std::time::Instant;

use bytes::Bytes;
use prost::Message as _;
use rendezvous_transport::stream::StreamEnd;
use rendezvous_wire::frame::Body;
use rendezvous_wire::frame::proto::relay_message_frame::Body as Member;
use rendezvous_wire::frame::proto::{RelayData, RelayHandshake, RelayMessageFrame, RelayReset};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::limits::{HANDSHAKE_COOLDOWN, MAX_FAILED_HANDSHAKES, MAX_STREAMS, MAX_WS_MESSAGE};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame as RawFrame, FrameHeader};

use crate::raw::{RawStream, binary, handshake, is_reset, is_silent, stream_id};
use crate::session::{Session, up};
use crate::world::{Seen, World, within};

/// Most memory that an executor may ever have held, whatever it was sent: a debug build rests at about 30 MB.
pub(crate) const MEMORY: u64 = 160 * 1024 * 1024;

/// A frame with these members, valid or not.
fn frame(version: u32, stream_id: &str, body: Option<Member>) -> Bytes {
    let frame = RelayMessageFrame {
        version,
        stream_id: stream_id.to_owned(),
        body,
        ..RelayMessageFrame::default()
    };
    frame.encode_to_vec().into()
}

/// What is no valid frame, or means nothing to an executor: it is dropped without an answer.
fn unanswered() -> Vec<(&'static str, Bytes)> {
    let stream = stream_id();
    let whole = || {
        Some(Member::Handshake(RelayHandshake {
            payload: vec![1; 3604].into(),
        }))
    };
    let with = |body| frame(1, stream.as_str(), Some(body));
    let data = |segment_index, segment_count, payload: &'static [u8]| {
        with(Member::Data(RelayData {
            seq: 0,
            segment_index,
            segment_count,
            payload: Bytes::from_static(payload),
        }))
    };
    let valid = |body: Body| rendezvous_wire::frame::Frame::new(stream.clone(), body).to_bytes();
    vec![
        ("no protobuf", vec![0xff; 64].into()),
        ("an empty message", Bytes::new()),
        (
            "a truncated frame",
            with(Member::Reset(RelayReset { reason: "x".into() })).slice(..20),
        ),
        ("version 0", frame(0, stream.as_str(), whole())),
        ("version 2", frame(2, stream.as_str(), whole())),
        ("no stream id", frame(1, "", whole())),
        ("a blank stream id", frame(1, " \t", whole())),
        ("an overlong stream id", frame(1, &"x".repeat(129), whole())),
        ("no body", frame(1, stream.as_str(), None)),
        ("segment 1", data(1, 1, b"x")),
        ("two segments", data(0, 2, b"x")),
        ("empty data", data(0, 1, b"")),
        ("an empty handshake", with(Member::Handshake(RelayHandshake::default()))),
        ("a blank reset", with(Member::Reset(RelayReset { reason: " ".into() }))),
        ("a reset of nobody's stream", valid(Body::Reset { reason: "x".into() })),
        ("a resume", valid(Body::Resume { next_seq: 7 })),
        ("a heartbeat", valid(Body::Heartbeat)),
        ("an acknowledgement", valid(Body::Ack)),
    ]
}

#[tokio::test]
async fn frames_that_no_honest_relay_sends() {
    let mut world = World::new();
    let executor = up(&mut world).await;
    let mut session = Session::open(&world).await;
    for (what, bytes) in unanswered() {
        world.inject(Message::Binary(bytes));
        is_silent(&mut world).await;
        assert_eq!(session.run("echo on").await.0, "on\n", "after {what}");
    }
    world.inject(Message::text("hello"));
    is_silent(&mut world).await;
    assert_eq!(session.run("echo on").await.0, "on\n", "after a text message");
    // Nobody's stream, and what no initiator wrote; fewer than would pause admission.
    let most = vec![1; 65_535];
    for payload in [&[1][..], &[2; 3604], &most] {
        let stream = stream_id();
        world.inject(handshake(&stream, payload.to_vec()));
        is_reset(&mut world, &stream).await;
    }
    assert_eq!(session.run("echo on").await.0, "on\n");
    let mut raw = RawStream::open(&mut world).await.expect("still admitted");

    // A handshake on a stream that is open: refused, and the stream goes on.
    let again = handshake(&raw.id, vec![1; 3604]);
    world.inject(again);
    is_reset(&mut world, &raw.id).await;
    raw.initialize(&mut world).await;
    // A reset is the relay's to forge: it ends the stream, without a word.
    world.inject(binary(
        &raw.id,
        Body::Reset {
            reason: "forged".into(),
        },
    ));
    is_silent(&mut world).await;
    world.inject(raw.record(b"late"));
    is_reset(&mut world, &raw.id).await;
    assert_eq!(session.run("echo on").await.0, "on\n");
    assert!(executor.peak() < MEMORY, "{} bytes", executor.peak());
}

#[tokio::test]
async fn what_breaks_the_websocket_costs_only_the_connection() {
    let mut world = World::new();
    let executor = up(&mut world).await;
    let reserved = RawFrame::from_payload(
        FrameHeader {
            opcode: OpCode::Data(Data::Reserved(3)),
            ..FrameHeader::default()
        },
        Bytes::from_static(b"x"),
    );
    for (what, message, code) in [
        (
            "a message above the limit",
            Message::binary(vec![0; MAX_WS_MESSAGE + 1]),
            1009,
        ),
        ("a reserved opcode", Message::Frame(reserved), 1002),
    ] {
        let mut session = Session::open(&world).await;
        assert!(matches!(world.next().await, Seen::Validate(_)));
        assert_eq!(session.run("echo on").await.0, "on\n");
        world.inject(message);
        assert_eq!(world.next().await, Seen::Gone(Some(code)), "{what}");
        let again = world.next().await;
        assert_eq!(again, Seen::Upgrade("reg-1".to_owned(), 101), "{what}");
    }
    let mut session = Session::open(&world).await;
    assert_eq!(session.run("echo on").await.0, "on\n");
    assert!(executor.peak() < MEMORY, "{} bytes", executor.peak());
}

#[tokio::test]
async fn one_stream_too_many() {
    let mut world = World::new();
    let executor = up(&mut world).await;
    let mut session = Session::open(&world).await;
    let mut streams = Vec::new();
    for number in 1..MAX_STREAMS {
        let stream = RawStream::open(&mut world).await;
        streams.push(stream.unwrap_or_else(|| panic!("stream {number} is refused")));
    }
    // More of them than failures that would pause admission: a full house is nobody's failure.
    for _ in 0..=MAX_FAILED_HANDSHAKES {
        assert!(RawStream::open(&mut world).await.is_none(), "one too many is admitted");
    }
    assert_eq!(session.run("echo on").await.0, "on\n");
    for stream in [0, MAX_STREAMS - 2] {
        streams[stream].initialize(&mut world).await;
    }
    let left = streams.swap_remove(0);
    world.inject(binary(&left.id, Body::Reset { reason: "gone".into() }));
    let mut next = RawStream::open(&mut world).await.expect("a place is free");
    next.initialize(&mut world).await;
    assert!(executor.peak() < MEMORY, "{} bytes", executor.peak());
}

/// Eight bad handshakes straight to the executor: a good one is refused for a while, whoever sends it, and nobody who is in
/// notices.
#[tokio::test]
async fn bad_handshakes_pause_admission() {
    let mut world = World::new();
    let executor = up(&mut world).await;
    let healthy = Healthy::start(&world).await;
    assert!(matches!(world.next().await, Seen::Validate(_)));
    for number in 1..MAX_FAILED_HANDSHAKES {
        refused(&mut world, &stream_id(), number).await;
    }
    // Seven are not enough.
    RawStream::open(&mut world).await.expect("admitted");
    assert!(matches!(world.next().await, Seen::Validate(_)));
    let before_pause = Instant::now();
    refused(&mut world, &stream_id(), MAX_FAILED_HANDSHAKES).await;

    let turned_away = world.harness().await.err();
    assert!(matches!(turned_away, Some(StreamEnd::Reset(_))), "{turned_away:?}");
    assert!(before_pause.elapsed() < HANDSHAKE_COOLDOWN, "too slow to tell");
    healthy.goes_on().await;
    if std::env::var_os("RENDEZVOUS_FULL").is_some_and(|value| value == "1") {
        // Neither good nor bad ones extend the pause.
        while let Err(end) = world.harness().await {
            assert!(matches!(end, StreamEnd::Reset(_)), "{end:?}");
            refused(&mut world, &stream_id(), 0).await;
            assert!(
                before_pause.elapsed() < 2 * HANDSHAKE_COOLDOWN,
                "the pause does not end"
            );
            healthy.goes_on().await;
        }
        assert!(
            before_pause.elapsed() >= HANDSHAKE_COOLDOWN,
            "{:?}",
            before_pause.elapsed()
        );
        assert!(matches!(world.next().await, Seen::Validate(_)));
        healthy.goes_on().await;
    }
    // The registry was asked about nobody who came during the pause, or it would have been seen before this.
    drop(healthy);
    world.cut();
    assert_eq!(world.next().await, Seen::Gone(None));
    assert!(executor.peak() < MEMORY, "{} bytes", executor.peak());
}

async fn refused(world: &mut World, stream: &StreamId, number: u32) {
    world.inject(handshake(stream, vec![u8::try_from(number).expect("few"); 3604]));
    is_reset(world, stream).await;
}

/// A harness that runs one command after the other.
struct Healthy {
    runs: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Healthy {
    async fn start(world: &World) -> Self {
        let mut session = Session::open(world).await;
        let (counter, runs) = watch::channel(0);
        let task = tokio::spawn(async move {
            loop {
                assert_eq!(session.run("echo on").await, ("on\n".to_owned(), 0));
                counter.send_modify(|runs| *runs += 1);
            }
        });
        Self { runs, task }
    }

    /// Two more commands are run from now: one of them whole.
    async fn goes_on(&self) {
        let mut runs = self.runs.clone();
        let goal = *runs.borrow() + 2;
        let reached = within(runs.wait_for(|runs| *runs >= goal)).await;
        assert!(reached.is_ok(), "the healthy stream broke");
    }
}

impl Drop for Healthy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
