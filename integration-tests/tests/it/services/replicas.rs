//! Two registries on one PostgreSQL: whoever is asked, the answer leads to the executor, also after one of them died for
//! good together with the relay in it.

use anyhow::{Context as _, Result, bail, ensure};
use rendezvous_integration_tests::executor;
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::link::Link;
use rendezvous_integration_tests::postgres::Postgres;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::relay::{self, Relay};
use rendezvous_integration_tests::site::ENVIRONMENT;
use rendezvous_integration_tests::{Context, Program, wait};

use super::outage::talk;
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

    let mut options = executor::Options::new(&cx, one.url(), ENVIRONMENT, executor_token)?;
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

/// The relay that holds the executor dies and never comes back, with its registry. There was no other when the executor
/// registered. The executor and the harness know a balancer's address only.
pub(crate) async fn outlive_a_relay(cx: Context) -> Result<()> {
    let postgres = Postgres::start().await?;
    let start = async |name: &str| {
        let options = registry::Options {
            name: name.into(),
            database: Some(postgres.url()),
            embedded_relay: true,
            ..registry::Options::default()
        };
        Registry::start(&cx, options).await
    };
    let mut dying = start("registry one").await?;
    dying.environment(ENVIRONMENT).await?;
    let executor_token = dying.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let balancer = Link::bind().await?;
    balancer.lead_to(dying.address()?);
    let access = Access {
        registry: format!("http://{}", balancer.address()),
        environment: ENVIRONMENT.into(),
        token: dying.credential(Role::Harness, Some(ENVIRONMENT)).await?,
        ca_file: None,
        namespace: None,
    };
    let options = executor::Options::new(&cx, &access.registry, ENVIRONMENT, executor_token)?;
    let mut executor = executor::start_ours(&cx, &options).await?;
    let script = "echo ready-$$; while read line; do echo got-$line-$$; [ $line = end ] && exit 4; done";
    let mut program = Program::start(&cx, "harness", access.shell(&cx, script)?)?;
    program.stdout().contains("ready-", wait::SOON).await?;

    let living = start("registry two").await?;
    balancer.lead_to(living.address()?);
    dying.program.kill().await?;

    program.write(b"on\n").await?;
    program.stdout().contains("got-on-", wait::SOON * 2).await?;
    ensure!(executor.is_running(), "the executor ended");
    let holder = relay_of_executor(&living).await?;
    ensure!(holder.ends_with(&living.address()?.to_string()), "{holder}");
    let other = shell(&cx, &access, "hostname").await?.success()?;
    ensure!(other.text().trim() == executor::HOST_NAME, "{}", other.text());
    program.write(b"end\n").await?;
    let finished = program.finish(wait::SOON).await?;
    ensure!(finished.code == 4, "exit code {}: {}", finished.code, finished.stderr);
    let text = finished.text();
    let pid = text.lines().next().and_then(|line| line.strip_prefix("ready-"));
    let pid = pid.with_context(|| text.clone())?;
    ensure!(text == format!("ready-{pid}\ngot-on-{pid}\ngot-end-{pid}\n"), "{text}");
    Ok(())
}

/// The relay that holds the executor dies, and another one was there when the executor registered: it goes there with the
/// registration that it has.
pub(crate) async fn go_to_another_relay(cx: Context) -> Result<()> {
    let registry = Registry::start(&cx, registry::Options::default()).await?;
    registry.environment(ENVIRONMENT).await?;
    let token = registry.credential(Role::Relay, None).await?;
    let start = async |name: &str| {
        let link = Link::bind().await?;
        let url = format!("ws://{}", link.address());
        let options = relay::Options {
            name: name.into(),
            ..relay::Options::new(registry.url(), &token, &url)
        };
        let relay = Relay::start(&cx, options).await?;
        link.lead_to(relay.address()?);
        Ok::<_, anyhow::Error>((relay, link, url))
    };
    let mut relays = vec![start("relay one").await?, start("relay two").await?];
    let executor_token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let options = executor::Options::new(&cx, registry.url(), ENVIRONMENT, executor_token)?;
    let mut executor = executor::start_ours(&cx, &options).await?;
    let access = Access {
        registry: registry.url().into(),
        environment: ENVIRONMENT.into(),
        token: registry.credential(Role::Harness, Some(ENVIRONMENT)).await?,
        ca_file: None,
        namespace: None,
    };
    let script = "echo ready; while read line; do echo got-$line; [ $line = end ] && exit 4; done";
    let mut program = Program::start(&cx, "harness", access.shell(&cx, script)?)?;
    program.stdout().contains("ready\n", wait::SOON).await?;

    let holder = relay_of_executor(&registry).await?;
    let dying = relays.iter().position(|(.., url)| *url == holder);
    let (mut relay, link, _) = relays.remove(dying.context("an unknown relay")?);
    drop(link);
    relay.program.kill().await?;

    talk(&mut program, "on").await?;
    let (.., living) = &relays[0];
    let holder = relay_of_executor(&registry).await?;
    ensure!(holder == *living, "{holder} holds the executor");
    program.write(b"end\n").await?;
    let finished = program.finish(wait::SOON).await?;
    ensure!(finished.code == 4, "exit code {}: {}", finished.code, finished.stderr);
    let announced = executor.stdout().text();
    ensure!(
        announced.matches("executor registered").count() == 1,
        "registered anew: {announced}"
    );
    ensure!(executor.is_running(), "the executor ended");
    Ok(())
}

/// The public URL of the relay that holds the executor.
async fn relay_of_executor(registry: &Registry) -> Result<String> {
    let shown = registry
        .manage(&["environment", "show", "--json", ENVIRONMENT])
        .await?
        .success()?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    match shown["presence"]["relay_url"].as_str() {
        Some(url) => Ok(url.to_owned()),
        None => bail!("the registry does not know where the executor is: {shown}"),
    }
}
