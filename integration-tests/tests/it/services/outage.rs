//! A registry that hangs or dies does not disturb what runs; a relay that stops says goodbye.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::peer::{self, Peer, made_up_key};
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::relay::{self, Relay};
use rendezvous_integration_tests::site::{ENVIRONMENT, RelayKind, Site};
use rendezvous_integration_tests::{Context, Program, wait};
use rendezvous_wire::reason::close;

use crate::ours::shell;

pub(crate) async fn registry(cx: Context) -> Result<()> {
    let mut site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    let script = "echo ready; while read line; do echo got-$line; [ $line = end ] && exit 4; done";
    let mut program = Program::start(&cx, "harness", site.access().shell(&cx, script)?)?;
    program.stdout().contains("ready\n", wait::SOON).await?;

    site.registry.program.signal(Signal::SIGSTOP)?;
    talk(&mut program, "hung").await.context("while the registry hangs")?;
    site.registry.program.signal(Signal::SIGCONT)?;

    let address = site.registry.address()?;
    site.registry.program.kill().await?;
    talk(&mut program, "dead").await.context("while the registry is dead")?;
    let refused = shell(&cx, &site.access(), "echo never").await?;
    ensure!(
        refused.code == 69,
        "exit code {} without a registry: {}",
        refused.code,
        refused.stderr
    );

    let options = registry::Options {
        name: "registry again".into(),
        listen: address.to_string(),
        ..registry::Options::default()
    };
    site.registry = Registry::start(&cx, options).await?;
    // The relay comes back to the registry by itself.
    let again = shell(&cx, &site.access(), "echo again").await?.success()?;
    ensure!(again.text() == "again\n", "{}", again.text());

    program.write(b"end\n").await?;
    let finished = program.finish(wait::SOON).await?;
    ensure!(finished.code == 4, "exit code {}: {}", finished.code, finished.stderr);
    ensure!(
        site.link.upgraded(Party::Executor) == 1,
        "the executor's connection did not last"
    );
    Ok(())
}

/// A word goes to the far `read` loop and comes back.
pub(super) async fn talk(program: &mut Program, word: &str) -> Result<()> {
    program.write(format!("{word}\n").as_bytes()).await?;
    program.stdout().contains(&format!("got-{word}\n"), wait::SOON).await
}

pub(crate) async fn drain(cx: Context) -> Result<()> {
    let registry = Registry::start(&cx, registry::Options::default()).await?;
    registry.environment(ENVIRONMENT).await?;
    let relay_token = registry.credential(Role::Relay, None).await?;
    let token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let options = relay::Options::new(registry.url(), &relay_token, "ws://127.0.0.1:1");
    let mut relay = Relay::start(&cx, options).await?;

    let registered = peer::register(registry.url(), ENVIRONMENT, &token, &made_up_key(1)).await?;
    let url = registered.url.expose().replace("ws://127.0.0.1:1", relay.url());
    let mut executor = Peer::open(&url).await?;
    relay.program.signal(Signal::SIGTERM)?;
    let end = executor.end(wait::SOON).await?;
    ensure!(end == peer::End::Close(close::GOING_AWAY), "{end:?}");
    let finished = relay.program.finish(wait::SOON).await?;
    ensure!(finished.code == 0, "exit code {}", finished.code);
    Ok(())
}
