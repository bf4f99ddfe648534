//! Two registries on one PostgreSQL and a relay of one of them: whoever is asked, the answer leads to the executor.

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor;
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::link::Link;
use rendezvous_integration_tests::postgres::Postgres;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::relay::{self, Relay};
use rendezvous_integration_tests::site::ENVIRONMENT;

use crate::ours::shell;

pub(crate) async fn serve_one_environment(cx: Context) -> Result<()> {
    let postgres = Postgres::start().await?;
    let start = async |name: &str| {
        let options = registry::Options {
            name: name.into(),
            database: Some(postgres.url()),
            ..registry::Options::default()
        };
        Registry::start(&cx, options).await
    };
    // Both find an empty database: the migrations must not trip over each other.
    let (one, two) = tokio::try_join!(start("registry one"), start("registry two"))?;
    one.environment(ENVIRONMENT).await?;
    let relay_token = one.credential(Role::Relay, None).await?;
    let link = Link::bind().await?;
    let relay = relay::Options::new(two.url(), &relay_token, &format!("ws://{}", link.address()));
    let relay = Relay::start(&cx, relay).await?;
    link.lead_to(relay.address()?);
    let executor_token = two.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let harness_token = one.credential(Role::Harness, Some(ENVIRONMENT)).await?;

    let mut options = executor::Options {
        name: "executor".into(),
        registry: one.url().into(),
        environment: ENVIRONMENT.into(),
        token: executor_token,
        workspace: cx.subfolder("workspace")?,
        content: cx.subfolder("far-content")?,
        ca_file: None,
        namespace: None,
    };
    let mut executor = executor::start_ours(&cx, &options).await?;
    let access = |registry: &Registry| Access {
        registry: registry.url().into(),
        environment: ENVIRONMENT.into(),
        token: harness_token.clone(),
        ca_file: None,
        namespace: None,
    };
    for registry in [&one, &two] {
        let finished = shell(&cx, &access(registry), "hostname").await?.success()?;
        ensure!(finished.text().trim() == executor::HOST_NAME, "{}", finished.text());
    }

    // The executor moves to the other replica; the first still knows where it is.
    executor.kill().await?;
    options.registry = two.url().into();
    let started = executor::start_ours(&cx, &options).await?;
    let finished = shell(&cx, &access(&one), "hostname").await?.success()?;
    ensure!(finished.text().trim() == executor::HOST_NAME, "{}", finished.text());

    // One replica dies; the other goes on.
    drop(one);
    let finished = shell(&cx, &access(&two), "hostname").await?.success()?;
    ensure!(finished.text().trim() == executor::HOST_NAME, "{}", finished.text());
    drop(started);
    Ok(())
}
