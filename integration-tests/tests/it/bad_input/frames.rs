//! Frames and messages that no honest party sends, at the relay.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use prost::Message as _;
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::peer::{self, End, Peer, made_up_key};
use rendezvous_wire::frame::Body;
use rendezvous_wire::frame::proto::{RelayData, RelayHandshake, RelayMessageFrame, RelayReset, relay_message_frame};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::limits::MAX_WS_MESSAGE;
use rendezvous_wire::reason::close;

use super::yard::{PROMPT, Yard, expect, open_stream, stream_works};

/// A message, and the close code that answers it.
struct Bad {
    what: &'static str,
    bytes: Bytes,
    code: u16,
}

/// What the relay itself must refuse: it reads version and stream id, and knows the beginning of a stream.
fn unroutable(stream: &StreamId) -> Vec<Bad> {
    let frame = |version, stream_id: &str, body| RelayMessageFrame {
        version,
        stream_id: stream_id.to_owned(),
        ack: 0,
        ack_bits: 0,
        body,
        traceparent: None,
        tracestate: None,
    };
    let handshake = || {
        let payload = vec![1; 3604].into();
        Some(relay_message_frame::Body::Handshake(RelayHandshake { payload }))
    };
    let bad = |what, frame: RelayMessageFrame| Bad {
        what,
        bytes: frame.encode_to_vec().into(),
        code: close::POLICY,
    };
    let data = |segment_index, segment_count, payload: &[u8]| {
        Some(relay_message_frame::Body::Data(RelayData {
            seq: 0,
            segment_index,
            segment_count,
            payload: payload.to_vec().into(),
        }))
    };
    let blank = RelayReset { reason: " ".into() };
    let long = "x".repeat(129);
    vec![
        Bad {
            what: "no protobuf",
            bytes: vec![0xff; 64].into(),
            code: close::POLICY,
        },
        Bad {
            what: "an empty message",
            bytes: Bytes::new(),
            code: close::POLICY,
        },
        Bad {
            what: "a truncated frame",
            bytes: peer::resume(stream).to_bytes().slice(..20),
            code: close::POLICY,
        },
        bad("version 0", frame(0, stream.as_str(), handshake())),
        bad("version 2", frame(2, stream.as_str(), handshake())),
        bad("no stream id", frame(1, "", handshake())),
        bad("a blank stream id", frame(1, "   ", handshake())),
        bad("an overlong stream id", frame(1, &long, handshake())),
        bad("no body", frame(1, stream.as_str(), None)),
        bad("data before the handshake", frame(1, stream.as_str(), data(0, 1, b"x"))),
        bad("segment 1", frame(1, stream.as_str(), data(1, 1, b"x"))),
        bad("two segments", frame(1, stream.as_str(), data(0, 2, b"x"))),
        bad("empty data", frame(1, stream.as_str(), data(0, 1, b""))),
        bad(
            "an empty handshake",
            frame(
                1,
                stream.as_str(),
                Some(relay_message_frame::Body::Handshake(RelayHandshake {
                    payload: Bytes::new(),
                })),
            ),
        ),
        bad(
            "a blank reset",
            frame(1, stream.as_str(), Some(relay_message_frame::Body::Reset(blank))),
        ),
        bad(
            "a handshake of 64 KiB",
            frame(
                1,
                stream.as_str(),
                Some(relay_message_frame::Body::Handshake(RelayHandshake {
                    payload: vec![1; 65_536].into(),
                })),
            ),
        ),
        Bad {
            what: "a message above the limit",
            bytes: vec![0; MAX_WS_MESSAGE + 1].into(),
            code: close::TOO_BIG,
        },
    ]
}

pub(crate) async fn of_a_harness(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let mut executor = yard.executor(&made_up_key(1)).await?;
    let mut honest = yard.harness().await?;
    let stream = open_stream(&mut executor, &mut honest).await?;

    for (number, bad) in unroutable(&peer::stream_id()?).into_iter().enumerate() {
        let mut harness = yard.harness().await.context(bad.what)?;
        harness.send_bytes(bad.bytes).await.context(bad.what)?;
        closed(&mut harness, bad.code).await.context(bad.what)?;
        stream_works(&mut executor, &mut honest, &stream, u32::try_from(number)?)
            .await
            .context(bad.what)?;
    }

    let mut texting = yard.harness().await?;
    texting.send_text("hello").await?;
    closed(&mut texting, close::UNSUPPORTED)
        .await
        .context("a text message")?;

    // Somebody else's stream.
    let mut thief = yard.harness().await?;
    thief.send(peer::resume(&stream)).await?;
    closed(&mut thief, close::POLICY)
        .await
        .context("a stream of another harness")?;
    stream_works(&mut executor, &mut honest, &stream, 100).await?;

    // A second stream on one connection; its first one is reset at the executor.
    let mut greedy = yard.harness().await?;
    let first = open_stream(&mut executor, &mut greedy).await?;
    greedy.send(peer::data(&peer::stream_id()?, 0, vec![1])).await?;
    closed(&mut greedy, close::POLICY).await.context("a second stream")?;
    let reset = expect(&mut executor, |body| matches!(body, Body::Reset { .. })).await?;
    ensure!(reset.stream_id == first, "the reset is for another stream");
    stream_works(&mut executor, &mut honest, &stream, 101).await?;
    yard.memory_is_bounded()
}

/// The relay drops what an executor sends to nobody, and cuts an executor that breaks the rules of WebSockets.
pub(crate) async fn of_an_executor(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let mut executor = yard.executor(&made_up_key(1)).await?;
    let mut honest = yard.harness().await?;
    let stream = open_stream(&mut executor, &mut honest).await?;
    for seq in 0..100 {
        executor
            .send(peer::data(&peer::stream_id()?, seq, vec![1; 1000]))
            .await?;
        executor.send_bytes(vec![0xff; 64].into()).await?;
    }
    stream_works(&mut executor, &mut honest, &stream, 0)
        .await
        .context("after frames to nobody, and what is no frame")?;

    let worst = [
        ("a text message", None, close::UNSUPPORTED),
        (
            "a message above the limit",
            Some(Bytes::from(vec![0; MAX_WS_MESSAGE + 1])),
            close::TOO_BIG,
        ),
    ];
    for (what, bytes, code) in worst {
        match bytes {
            Some(bytes) => executor.send_bytes(bytes).await?,
            None => executor.send_text("hello").await?,
        }
        closed(&mut executor, code).await.context(what)?;
        honest.end(PROMPT).await.context("the harness of a cut executor")?;
        executor = yard.executor(&made_up_key(1)).await.context(what)?;
        honest = yard.harness().await?;
        open_stream(&mut executor, &mut honest).await.context(what)?;
    }
    yard.memory_is_bounded()
}

async fn closed(peer: &mut Peer, code: u16) -> Result<()> {
    let end = peer.end(PROMPT).await?;
    ensure!(end == End::Close(code), "{end:?}, expected a close with {code}");
    Ok(())
}
