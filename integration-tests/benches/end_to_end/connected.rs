//! `true` again and again in one session of the harness library, from the call that starts it to the event that closes it.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rendezvous_harness::{Harness, Options, ProcessEvent, ProcessSpec};
use rendezvous_integration_tests::harness::Access;

use crate::measure::Quantiles;

pub(crate) const ROLE: &str = "connected-client";
/// Rounds before the clock counts.
const WARM: usize = 20;

/// What the child does: the environment says where to connect, as for any harness.
#[tokio::main]
pub(crate) async fn run(count: Option<&str>) -> anyhow::Result<()> {
    let count: usize = count.context("a count")?.parse()?;
    let harness = Harness::connect(Options::from_env()?).await?;
    let mut times = Vec::with_capacity(count);
    for round in 0..WARM + count {
        let start = Instant::now();
        let mut process = harness.start(ProcessSpec::new(["true"])).await?;
        let mut code = None;
        while let Some(event) = process.next().await? {
            match event {
                ProcessEvent::Exited { code: exit, .. } => code = Some(exit),
                ProcessEvent::Dropped { .. } => anyhow::bail!("output was dropped"),
                ProcessEvent::Closed => break,
                ProcessEvent::Output { .. } => {}
            }
        }
        let time = start.elapsed();
        ensure!(code == Some(0), "true ended with {code:?}");
        if round >= WARM {
            times.push(time.as_secs_f64() * 1e3);
        }
    }
    println!("{}", serde_json::to_string(&times)?);
    Ok(())
}

/// Starts the child and gives milliseconds.
pub(crate) fn measure(access: &Access, count: usize) -> anyhow::Result<Quantiles> {
    let output = Command::new(std::env::current_exe()?)
        .arg(ROLE)
        .arg(count.to_string())
        .env("CODEX_EXEC_SERVER_NOISE_REGISTRY_URL", &access.registry)
        .env("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", &access.environment)
        .env("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", &access.token)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the client failed: {}", output.status);
    Ok(Quantiles::of(serde_json::from_slice(&output.stdout)?))
}
