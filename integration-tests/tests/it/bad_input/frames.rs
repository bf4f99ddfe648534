//! Frames and messages that no honest party sends, at the relay.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use prost::Message as _;
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::peer::{self, End, Peer, made_up_key};
use rendezvous_wire::frame::Body;
use rendezvous_wire::frame::proto::relay_message_frame::Body as Member;
use rendezvous_wire::frame::proto::{RelayData, RelayHandshake, RelayMessageFrame, RelayReset};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::limits::MAX_WS_MESSAGE;
use rendezvous_wire::reason::close;

use super::yard::{PROMPT, Yard, expect, open_stream, stream_works};

/// A first message of a harness, and the close code that answers it.
type Bad = (&'static str, Bytes, u16);

/// What the relay refuses: it reads version and stream id, and knows how a stream begins.
fn bad_beginnings(stream: &StreamId) -> Vec<Bad> {
    let frame = |version, stream_id: &str, body| {
        let frame = RelayMessageFrame {
            version,
            stream_id: stream_id.to_owned(),
            body,
            ..RelayMessageFrame::default()
        };
        Bytes::from(frame.encode_to_vec())
    };
    let with = |body| frame(1, stream.as_str(), Some(body));
    let handshake = |payload: Vec<u8>| {
        Member::Handshake(RelayHandshake {
            payload: payload.into(),
        })
    };
    let whole = || Some(handshake(vec![1; 3604]));
    let data = |segment_index, segment_count, payload: &[u8]| {
        Member::Data(RelayData {
            seq: 0,
            segment_index,
            segment_count,
            payload: payload.to_vec().into(),
        })
    };
    let blank = RelayReset { reason: " ".into() };
    vec![
        ("no protobuf", vec![0xff; 64].into(), close::PROTOCOL),
        ("an empty message", Bytes::new(), close::PROTOCOL),
        (
            "a truncated frame",
            peer::resume(stream).to_bytes().slice(..20),
            close::PROTOCOL,
        ),
        ("version 0", frame(0, stream.as_str(), whole()), close::PROTOCOL),
        ("version 2", frame(2, stream.as_str(), whole()), close::PROTOCOL),
        ("no stream id", frame(1, "", whole()), close::PROTOCOL),
        ("a blank stream id", frame(1, "   ", whole()), close::PROTOCOL),
        (
            "an overlong stream id",
            frame(1, &"x".repeat(129), whole()),
            close::PROTOCOL,
        ),
        ("an empty handshake", with(handshake(Vec::new())), close::PROTOCOL),
        ("no body", frame(1, stream.as_str(), None), close::POLICY),
        ("data before the handshake", with(data(0, 1, b"x")), close::POLICY),
        ("segment 1", with(data(1, 1, b"x")), close::POLICY),
        ("two segments", with(data(0, 2, b"x")), close::POLICY),
        ("empty data", with(data(0, 1, b"")), close::POLICY),
        ("a blank reset", with(Member::Reset(blank)), close::POLICY),
        ("a handshake of 64 KiB", with(handshake(vec![1; 65_536])), close::POLICY),
        ("a handshake of 100 bytes", with(handshake(vec![1; 100])), close::POLICY),
        (
            "a message above the limit",
            vec![0; MAX_WS_MESSAGE + 1].into(),
            close::TOO_BIG,
        ),
    ]
}

pub(crate) async fn of_a_harness(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let mut executor = yard.executor(&made_up_key(1)).await?;
    let mut honest = yard.harness().await?;
    let stream = open_stream(&mut executor, &mut honest).await?;

    for (number, (what, bytes, code)) in bad_beginnings(&peer::stream_id()?).into_iter().enumerate() {
        let mut harness = yard.harness().await.context(what)?;
        harness.send_bytes(bytes).await.context(what)?;
        closed(&mut harness, code).await.context(what)?;
        stream_works(&mut executor, &mut honest, &stream, u32::try_from(number)?)
            .await
            .context(what)?;
    }

    let mut texting = yard.harness().await?;
    texting.send_text("hello").await?;
    closed(&mut texting, close::UNSUPPORTED)
        .await
        .context("a text message")?;

    // Somebody else's stream. Only the same key may take a stream up.
    let mut thief = Peer::open(&yard.harness_url_for(&made_up_key(8)).await?).await?;
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
