//! A registry with its relay and one environment, and parties without manners.

use std::time::Duration;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::peer::{self, Event, Peer, made_up_key};
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::site::ENVIRONMENT;
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::key::PublicKey;

/// Time in which a peer must get its answer.
pub(super) const PROMPT: Duration = Duration::from_secs(30);
/// Most memory that a registry with its relay may hold, whatever it is sent: a debug build rests at about 30 MB.
pub(super) const MEMORY: u64 = 160 * 1024 * 1024;

/// The registry and the credentials for it.
pub(super) struct Yard {
    pub(super) registry: Registry,
    pub(super) executor_token: String,
    pub(super) harness_token: String,
}

impl Yard {
    pub(super) async fn open(cx: &Context) -> Result<Self> {
        Self::open_another(cx, "registry").await
    }

    /// A further one in the same test.
    pub(super) async fn open_another(cx: &Context, name: &str) -> Result<Self> {
        let options = registry::Options {
            name: name.to_owned(),
            database: Some(format!(
                "sqlite://{}",
                cx.folder().join(format!("{name}.sqlite")).display()
            )),
            embedded_relay: true,
            ..registry::Options::default()
        };
        let registry = Registry::start(cx, options).await?;
        registry.environment(ENVIRONMENT).await?;
        Ok(Self {
            executor_token: registry.credential(Role::Executor, Some(ENVIRONMENT)).await?,
            harness_token: registry.credential(Role::Harness, Some(ENVIRONMENT)).await?,
            registry,
        })
    }

    /// An executor that is connected.
    pub(super) async fn executor(&self, key: &PublicKey) -> Result<Peer> {
        let registered = peer::register(self.registry.url(), ENVIRONMENT, &self.executor_token, key).await?;
        Peer::open(registered.url.expose()).await
    }

    /// The relay URL of a harness, with a fresh ticket.
    pub(super) async fn harness_url(&self) -> Result<String> {
        self.harness_url_for(&made_up_key(9)).await
    }

    /// The same for another key.
    pub(super) async fn harness_url_for(&self, key: &PublicKey) -> Result<String> {
        let bundle = peer::connect(self.registry.url(), ENVIRONMENT, &self.harness_token, key).await?;
        Ok(bundle.url.expose().to_owned())
    }

    /// A harness that is connected.
    pub(super) async fn harness(&self) -> Result<Peer> {
        Peer::open(&self.harness_url().await?).await
    }

    /// Fails if the registry's process holds too much memory.
    pub(super) fn memory_is_bounded(&self) -> Result<()> {
        let resident = self.registry.program.resident()?;
        ensure!(resident <= MEMORY, "the registry holds {} MiB", resident / 1024 / 1024);
        Ok(())
    }
}

/// Opens a stream between a harness and an executor, as far as the relay can tell.
pub(super) async fn open_stream(executor: &mut Peer, harness: &mut Peer) -> Result<StreamId> {
    let stream = peer::stream_id()?;
    harness.send(peer::resume(&stream)).await?;
    harness.send(peer::handshake(&stream, vec![1; 3604])).await?;
    expect(executor, |body| matches!(body, Body::Resume { .. })).await?;
    expect(executor, |body| matches!(body, Body::Handshake { .. })).await?;
    executor.send(peer::handshake(&stream, vec![2; 3424])).await?;
    expect(harness, |body| matches!(body, Body::Handshake { .. })).await?;
    Ok(stream)
}

/// The next frame, which must be of a kind.
pub(super) async fn expect(peer: &mut Peer, kind: fn(&Body) -> bool) -> Result<Frame> {
    match peer.next(PROMPT).await? {
        Event::Frame(frame) if kind(&frame.body) => Ok(frame),
        other => anyhow::bail!("unexpected: {other:?}"),
    }
}

/// A record goes from harness to executor and back: the stream works. Resets of streams that ended meanwhile may come
/// in between.
pub(super) async fn stream_works(executor: &mut Peer, harness: &mut Peer, stream: &StreamId, seq: u32) -> Result<()> {
    harness.send(peer::data(stream, seq, vec![3; 100])).await?;
    record(executor, stream).await?;
    executor.send(peer::data(stream, seq, vec![4; 100])).await?;
    record(harness, stream).await
}

async fn record(peer: &mut Peer, stream: &StreamId) -> Result<()> {
    loop {
        match peer.next(PROMPT).await? {
            Event::Frame(frame) if frame.stream_id == *stream && matches!(frame.body, Body::Data { .. }) => {
                return Ok(());
            }
            Event::Frame(frame) if frame.stream_id != *stream && matches!(frame.body, Body::Reset { .. }) => {}
            other => anyhow::bail!("unexpected: {other:?}"),
        }
    }
}
