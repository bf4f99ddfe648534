//! A revoked credential's live connections are cut within five seconds.

use std::time::Duration;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::peer::{self, End, Peer, made_up_key};
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::relay::{self, Relay};
use rendezvous_integration_tests::site::ENVIRONMENT;
use rendezvous_wire::reason::close;

/// What is promised.
const PROMISE: Duration = Duration::from_secs(5);

pub(crate) async fn harness(cx: Context) -> Result<()> {
    let mut parties = Parties::meet(&cx).await?;
    parties
        .registry
        .manage(&["credential", "revoke", &parties.harness_id])
        .await?
        .success()?;
    let end = parties.harness.end(PROMISE).await?;
    ensure!(end == End::Close(close::POLICY), "{end:?}");
    let key = made_up_key(2);
    let again = peer::connect(parties.registry.url(), ENVIRONMENT, &parties.harness_token, &key).await;
    ensure!(again.is_err(), "the revoked credential still connects");
    // The executor hears that the stream is over and stays.
    let event = parties.executor.next(PROMISE).await?;
    ensure!(matches!(event, peer::Event::Frame(_)), "{event:?}");
    Ok(())
}

pub(crate) async fn executor(cx: Context) -> Result<()> {
    let mut parties = Parties::meet(&cx).await?;
    parties
        .registry
        .manage(&["credential", "revoke", &parties.executor_id])
        .await?
        .success()?;
    let end = parties.executor.end(PROMISE).await?;
    ensure!(end == End::Close(close::POLICY), "{end:?}");
    parties.harness.end(PROMISE).await?;
    let dialled = Peer::dial(&parties.executor_url).await?;
    ensure!(
        dialled.err() == Some(401),
        "the revoked credential's ticket is still good"
    );
    Ok(())
}

/// An executor and a harness on one stream of a stand-alone relay.
struct Parties {
    registry: Registry,
    _relay: Relay,
    executor: Peer,
    executor_id: String,
    executor_url: String,
    harness: Peer,
    harness_id: String,
    harness_token: String,
}

impl Parties {
    async fn meet(cx: &Context) -> Result<Self> {
        let registry = Registry::start(cx, registry::Options::default()).await?;
        registry.environment(ENVIRONMENT).await?;
        let relay_token = registry.credential(Role::Relay, None).await?;
        let (executor_token, executor_id) = registry.named_credential(Role::Executor, Some(ENVIRONMENT)).await?;
        let (harness_token, harness_id) = registry.named_credential(Role::Harness, Some(ENVIRONMENT)).await?;
        let placeholder = "ws://127.0.0.1:1";
        let relay = Relay::start(cx, relay::Options::new(registry.url(), &relay_token, placeholder)).await?;
        let local = |url: &str| url.replace(placeholder, relay.url());

        let registered = peer::register(registry.url(), ENVIRONMENT, &executor_token, &made_up_key(1)).await?;
        let executor_url = local(registered.url.expose());
        let mut executor = Peer::open(&executor_url).await?;
        let bundle = peer::connect(registry.url(), ENVIRONMENT, &harness_token, &made_up_key(2)).await?;
        let mut harness = Peer::open(&local(bundle.url.expose())).await?;
        harness.send(peer::resume(&peer::stream_id()?)).await?;
        executor.next(PROMISE).await?;
        Ok(Self {
            registry,
            _relay: relay,
            executor,
            executor_id,
            executor_url,
            harness,
            harness_id,
            harness_token,
        })
    }
}
