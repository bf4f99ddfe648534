//! A registry killed in the middle of registrations has kept every registration that it answered.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::peer::{self, Peer, made_up_key};
use rendezvous_integration_tests::postgres::Postgres;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::{Context, wait};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Environments that register at once.
const ENVIRONMENTS: usize = 40;
/// Registrations that are answered before the kill.
const BEFORE_THE_KILL: usize = 12;

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
        ..registry::Options::default()
    };
    let mut registry = Registry::start(cx, options.clone()).await?;
    let address = registry.address()?.to_string();
    let executor_token = registry.credential(Role::Executor, None).await?;
    let harness_token = registry.credential(Role::Harness, None).await?;
    let environments: Vec<String> = (0..ENVIRONMENTS).map(|number| format!("durable-{number}")).collect();
    for environment in &environments {
        registry.environment(environment).await?;
    }

    let answered = Arc::new(Semaphore::new(0));
    let mut registrations = JoinSet::new();
    for environment in environments {
        let (url, token, answered) = (registry.url().to_owned(), executor_token.clone(), Arc::clone(&answered));
        registrations.spawn(async move {
            let result = peer::register(&url, &environment, &token, &made_up_key(3)).await;
            answered.add_permits(1);
            result.map(|response| (environment, response))
        });
    }
    let _enough = answered.acquire_many(u32::try_from(BEFORE_THE_KILL)?).await?;
    registry.program.kill().await?;
    let acknowledged: Vec<_> = registrations.join_all().await.into_iter().flatten().collect();
    ensure!(
        acknowledged.len() >= BEFORE_THE_KILL,
        "only {} were answered",
        acknowledged.len()
    );

    let again = registry::Options {
        name: "registry again".into(),
        listen: address,
        ..options
    };
    let registry = Registry::start(cx, again).await?;
    for (environment, response) in acknowledged {
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
