//! A registry killed in the middle of registrations has kept every registration that it answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::peer::{self, Peer, made_up_key};
use rendezvous_integration_tests::postgres::Postgres;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::{Context, wait};
use rendezvous_wire::registry::RegisterResponse;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Parties that make environments and register for them without pause.
const PARTIES: usize = 12;
/// Registrations that are answered before the kill.
const BEFORE_THE_KILL: u32 = 24;
/// Acknowledged registrations that are looked for afterwards, at most.
const LOOKED_AT: usize = 60;

pub(crate) async fn sqlite(cx: Context) -> Result<()> {
    keeps_its_word(&cx, None).await
}

pub(crate) async fn postgres(cx: Context) -> Result<()> {
    let postgres = Postgres::start().await?;
    keeps_its_word(&cx, Some(postgres.url())).await
}

async fn keeps_its_word(cx: &Context, database: Option<String>) -> Result<()> {
    let options = registry::Options {
        database,
        embedded_relay: true,
        more: ["--rate-per-minute", "1000000", "--rate-burst", "1000000"]
            .map(Into::into)
            .into(),
        ..registry::Options::default()
    };
    let mut registry = Registry::start(cx, options.clone()).await?;
    let address = registry.address()?.to_string();
    let crowd = Crowd {
        url: registry.url().to_owned(),
        admin: registry.credential(Role::Admin, None).await?,
        executor: registry.credential(Role::Executor, None).await?,
        started: AtomicUsize::new(0),
        answered: Semaphore::new(0),
    };
    let crowd = Arc::new(crowd);
    let harness_token = registry.credential(Role::Harness, None).await?;
    let mut parties = JoinSet::new();
    for number in 0..PARTIES {
        parties.spawn(Arc::clone(&crowd).register_until_the_end(number));
    }
    let enough = tokio::time::timeout(wait::SOON, crowd.answered.acquire_many(BEFORE_THE_KILL));
    let _enough = enough.await.context("registrations are answered")??;
    registry.program.kill().await?;
    let acknowledged: Vec<_> = parties.join_all().await.into_iter().flatten().collect();
    let started = crowd.started.load(Ordering::Relaxed);
    ensure!(
        acknowledged.len() < started,
        "the kill hit no registration: all {started} were answered"
    );

    let again = registry::Options {
        name: "registry again".into(),
        listen: address,
        more: Vec::new(),
        ..options
    };
    let registry = Registry::start(cx, again).await?;
    // The last ones were nearest to the kill.
    for (environment, response) in acknowledged.into_iter().rev().take(LOOKED_AT) {
        // As an executor does: 503 means that the relay is not there yet, anything else is final.
        let dialled = wait::until("the relay", wait::SOON, async || {
            match Peer::dial(response.url.expose()).await {
                Ok(Err(503)) => None,
                other => Some(other),
            }
        });
        let dialled = dialled.await?.with_context(|| environment.clone())?;
        let _executor = dialled.map_err(|status| anyhow::anyhow!("{environment} is refused with {status}"))?;
        let bundle = peer::connect(registry.url(), &environment, &harness_token, &made_up_key(4)).await;
        let bundle = bundle.with_context(|| environment.clone())?;
        ensure!(
            bundle.executor_registration_id == response.executor_registration_id
                && bundle.executor_public_key == made_up_key(3),
            "{environment} has another registration"
        );
    }
    Ok(())
}

/// What the parties share.
struct Crowd {
    url: String,
    admin: String,
    executor: String,
    /// Registrations that were sent.
    started: AtomicUsize,
    answered: Semaphore,
}

impl Crowd {
    /// Makes one environment after the other and registers for it, until the registry is gone; what was answered.
    async fn register_until_the_end(self: Arc<Self>, party: usize) -> Vec<(String, RegisterResponse)> {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            let environment = format!("durable-{party}-{number}");
            if self.create(&environment).await.is_err() {
                break;
            }
            self.started.fetch_add(1, Ordering::Relaxed);
            let registered = peer::register(&self.url, &environment, &self.executor, &made_up_key(3)).await;
            let Ok(response) = registered else { break };
            acknowledged.push((environment, response));
            self.answered.add_permits(1);
        }
        acknowledged
    }

    async fn create(&self, environment: &str) -> Result<()> {
        let request = reqwest::Client::new()
            .post(format!("{}/v1/environments", self.url))
            .bearer_auth(&self.admin)
            .json(&json!({"id": environment}));
        let response = request.send().await?;
        ensure!(response.status().is_success(), "{}", response.status());
        Ok(())
    }
}
