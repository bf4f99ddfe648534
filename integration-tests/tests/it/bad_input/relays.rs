//! Our harness at a hostile relay: whatever comes, the attempt fails, the next one may succeed, no byte is lost, and little
//! memory is used.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::peer;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::site::ENVIRONMENT;
use rendezvous_integration_tests::upgrade::switching;
use rendezvous_integration_tests::{Context, Program, executor, wait};
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::limits::MAX_WS_MESSAGE;
use tokio_tungstenite::tungstenite::Message;

use super::hostile_relay::{HostileRelay, Misdeed};

/// Most memory that a harness may ever have held: a debug build rests at about 20 MB.
const MEMORY: u64 = 96 * 1024 * 1024;
/// Harnesses at once.
const AT_ONCE: usize = 6;
/// Says that it runs, takes a line, and gives it back.
const SCRIPT: &str = "echo ready; read line; echo got-$line; exit 7";

/// An answer to the upgrade, or to the frames of a harness that opens its stream.
const BEFORE: &[(&str, Misdeed)] = &[
    ("no HTTP", Misdeed::Answer(|_| b"garbage\r\n\r\n".to_vec())),
    (
        "no upgrade",
        Misdeed::Answer(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec()),
    ),
    (
        "a redirect",
        Misdeed::Answer(|_| {
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_vec()
        }),
    ),
    (
        "a failure",
        Misdeed::Answer(|_| b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_vec()),
    ),
    ("a wrong key", Misdeed::Answer(|_| switching("made-up"))),
    (
        "endless headers",
        Misdeed::Answer(|_| {
            [
                &b"HTTP/1.1 101 Switching Protocols\r\n"[..],
                &b"x: y\r\n".repeat(2_000_000),
            ]
            .concat()
        }),
    ),
    (
        "a huge length",
        Misdeed::Answer(|accept| {
            [
                switching(accept),
                vec![0x82, 127, 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ]
            .concat()
        }),
    ),
    (
        "a masked frame",
        Misdeed::Answer(|accept| [switching(accept), vec![0x82, 0x81, 1, 2, 3, 4, 5]].concat()),
    ),
    (
        "a reserved opcode",
        Misdeed::Answer(|accept| [switching(accept), vec![0x83, 1, 5]].concat()),
    ),
    (
        "endless fragments",
        Misdeed::Answer(|accept| {
            let fragment = |first: u8| [&[first, 127, 0, 0, 0, 0, 0, 1, 0, 0][..], &[7; 65_536]].concat();
            [switching(accept), fragment(0x02), fragment(0x00).repeat(100)].concat()
        }),
    ),
    ("a text message", Misdeed::Instead(|_| vec![Message::text("hello")])),
    (
        "what is no protobuf",
        Misdeed::Instead(|_| vec![Message::binary(vec![0xff; 64])]),
    ),
    (
        "an empty message",
        Misdeed::Instead(|_| vec![Message::binary(Vec::new())]),
    ),
    (
        "an invalid frame",
        Misdeed::Instead(|stream| vec![Message::Binary(invalid(stream))]),
    ),
    (
        "a message above the limit",
        Misdeed::Instead(|_| vec![Message::binary(vec![0; MAX_WS_MESSAGE + 1])]),
    ),
    (
        "data before the handshake",
        Misdeed::Instead(|stream| vec![binary(peer::data(stream, 0, vec![1; 100]))]),
    ),
    (
        "a reset",
        Misdeed::Instead(|stream| vec![binary(Frame::reset(stream.clone(), "go away"))]),
    ),
    (
        "a wrong message 2",
        Misdeed::Instead(|stream| vec![binary(peer::handshake(stream, vec![2; 3424]))]),
    ),
    (
        "a short message 2",
        Misdeed::Instead(|stream| vec![binary(peer::handshake(stream, vec![2; 10]))]),
    ),
    (
        "a long message 2",
        Misdeed::Instead(|stream| vec![binary(peer::handshake(stream, vec![2; 65_536]))]),
    ),
    (
        "frames of other streams, then a close",
        Misdeed::Instead(|_| {
            let other = StreamId::new("another").expect("an id");
            let frame = binary(peer::data(&other, 0, vec![1; 60_000]));
            [vec![frame; 500], vec![Message::Close(None)]].concat()
        }),
    ),
];

/// What comes for one of the executor's frames while a command runs, and whether that ends the connection.
const AMID: &[(&str, Misdeed, bool)] = &[
    (
        "a text message",
        Misdeed::Amid(|_, frame| vec![Message::text("x"), Message::Binary(frame)]),
        true,
    ),
    (
        "what is no protobuf",
        Misdeed::Amid(|_, frame| vec![Message::binary(vec![0xff; 9]), Message::Binary(frame)]),
        true,
    ),
    (
        "an invalid frame",
        Misdeed::Amid(|stream, frame| vec![Message::Binary(invalid(stream)), Message::Binary(frame)]),
        true,
    ),
    (
        "a changed record",
        Misdeed::Amid(|_, frame| vec![changed(&frame)]),
        true,
    ),
    (
        "a second handshake",
        Misdeed::Amid(|stream, frame| vec![binary(peer::handshake(stream, vec![1; 3424])), Message::Binary(frame)]),
        true,
    ),
    (
        "a reset",
        Misdeed::Amid(|stream, frame| vec![binary(Frame::reset(stream.clone(), "x")), Message::Binary(frame)]),
        true,
    ),
    (
        "a record far ahead",
        Misdeed::Amid(|stream, frame| {
            vec![
                binary(peer::data(stream, 1_000_000, vec![1; 50])),
                Message::Binary(frame),
            ]
        }),
        true,
    ),
    ("a close", Misdeed::Amid(|_, _| vec![Message::Close(None)]), true),
    (
        "a record twice",
        Misdeed::Amid(|_, frame| vec![Message::Binary(frame.clone()), Message::Binary(frame)]),
        false,
    ),
    (
        "a stranger's frames",
        Misdeed::Amid(|_, frame| {
            let other = StreamId::new("another").expect("an id");
            let stranger = [
                Message::Binary(invalid(&other)),
                binary(peer::data(&other, 0, vec![1; 50])),
                binary(Frame::new(other, Body::Heartbeat)),
            ];
            [stranger.to_vec(), vec![Message::Binary(frame)]].concat()
        }),
        false,
    ),
    (
        "a flood of pings",
        Misdeed::Amid(|_, frame| {
            [
                vec![Message::Ping(vec![1; 125].into()); 10_000],
                vec![Message::Binary(frame)],
            ]
            .concat()
        }),
        false,
    ),
];

fn binary(frame: Frame) -> Message {
    Message::Binary(frame.to_bytes())
}

/// A frame of the stream with version 2.
fn invalid(stream: &StreamId) -> Bytes {
    let valid = Frame::new(stream.clone(), Body::Heartbeat).to_bytes();
    // The version is the first field.
    [&[0x08, 0x02][..], &valid[2..]].concat().into()
}

/// The same frame with another last byte, which is part of a record's tag.
fn changed(frame: &Bytes) -> Message {
    let mut bytes = frame.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    Message::binary(bytes)
}

/// An executor of ours behind the hostile relay.
struct Den {
    cx: Context,
    relay: Arc<HostileRelay>,
    registry: Registry,
    _executor: Program,
}

impl Den {
    async fn open(cx: &Context) -> Result<Self> {
        let relay = HostileRelay::listen().await?;
        let options = registry::Options {
            embedded_relay: true,
            public_url: Some(format!("http://{}", relay.address())),
            ..registry::Options::default()
        };
        let registry = Registry::start(cx, options).await?;
        relay.lead_to(registry.address()?);
        registry.environment(ENVIRONMENT).await?;
        let token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
        let options = executor::Options::new(cx, registry.url(), ENVIRONMENT, token)?;
        Ok(Self {
            cx: cx.clone(),
            relay,
            _executor: executor::start_ours(cx, &options).await?,
            registry,
        })
    }

    /// A harness to whom this is going to be done; its credential's id.
    async fn victim(&self, what: &str, misdeed: Misdeed, forever: bool) -> Result<(Program, String)> {
        let (token, credential) = self.registry.named_credential(Role::Harness, Some(ENVIRONMENT)).await?;
        self.relay.plan(&credential, misdeed, forever);
        let access = Access {
            registry: self.registry.url().into(),
            environment: ENVIRONMENT.into(),
            token,
            ca_file: None::<PathBuf>,
            namespace: None,
        };
        let timeout: &[&str] = if forever { &["--connect-timeout", "2"] } else { &[] };
        let arguments = [timeout, &["run", "--", "sh", "-c", SCRIPT]].concat();
        let command = access.command(&self.cx, arguments)?;
        Ok((Program::start(&self.cx, what, command)?, credential))
    }

    async fn before(&self, what: &str, misdeed: Misdeed) -> Result<()> {
        let (mut harness, credential) = self.victim(what, misdeed, false).await?;
        harness.stdout().contains("ready\n", wait::SOON).await?;
        ensure!(self.relay.done(&credential) == 1, "it was not done");
        finish(&mut harness, "ready\ngot-x\n").await?;
        Ok(())
    }

    async fn amid(&self, what: &str, misdeed: Misdeed, may_be_lost: bool) -> Result<()> {
        let (mut harness, credential) = self.victim(what, misdeed, false).await?;
        harness.stdout().contains("ready\n", wait::SOON).await?;
        self.relay.strike(&credential);
        let stderr = finish(&mut harness, "ready\ngot-x\n").await?;
        ensure!(self.relay.done(&credential) == 1, "it was not done");
        // What is mended within a second is not told, so nothing can be asked of the others.
        ensure!(may_be_lost || !stderr.contains("connection lost"), "stderr: {stderr}");
        Ok(())
    }
}

/// Gives the harness its line and looks at all that it wrote; its standard error.
async fn finish(harness: &mut Program, expected: &str) -> Result<String> {
    harness.write(b"x\n").await?;
    harness.stdout().contains("got-x\n", wait::SOON).await?;
    let peak = harness.peak();
    let finished = harness.finish(wait::SOON).await?;
    ensure!(
        finished.code == 7 && finished.text() == expected,
        "exit code {}, {:?}: {}",
        finished.code,
        finished.text(),
        finished.stderr
    );
    // A harness that has ended by now has no memory to look at.
    if let Ok(peak) = peak {
        ensure!(peak < MEMORY, "the harness held {} MiB", peak / 1024 / 1024);
    }
    Ok(finished.stderr)
}

pub(crate) async fn before_the_stream(cx: Context) -> Result<()> {
    let den = &Den::open(&cx).await?;
    let rows = futures_util::stream::iter(0..BEFORE.len()).map(|row| async move {
        let (what, misdeed) = BEFORE[row];
        den.before(what, misdeed).await.context(what)
    });
    rows.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

pub(crate) async fn amid_a_command(cx: Context) -> Result<()> {
    let den = &Den::open(&cx).await?;
    let rows = futures_util::stream::iter(0..AMID.len()).map(|row| async move {
        let (what, misdeed, may_be_lost) = AMID[row];
        den.amid(what, misdeed, may_be_lost).await.context(what)
    });
    rows.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// A relay that never behaves: the harness gives up with the documented code.
pub(crate) async fn for_ever(cx: Context) -> Result<()> {
    let den = Den::open(&cx).await?;
    for (what, misdeed) in BEFORE
        .iter()
        .filter(|(what, _)| ["a text message", "no HTTP", "a wrong message 2"].contains(what))
    {
        let (mut harness, credential) = den.victim(what, *misdeed, true).await?;
        let finished = harness.finish(wait::SOON).await.context(*what)?;
        ensure!(
            finished.code == 69 && finished.stdout.is_empty(),
            "{what}: exit code {}: {}",
            finished.code,
            finished.stderr
        );
        ensure!(den.relay.done(&credential) >= 2, "{what}: it did not try again");
    }
    Ok(())
}

/// A frame that the relay keeps to itself comes again, on the same connection.
pub(crate) async fn swallowed_frame(cx: Context) -> Result<()> {
    let den = Den::open(&cx).await?;
    den.amid("a swallowed frame", Misdeed::Amid(|_, _| Vec::new()), false)
        .await
}
