//! The stock harness while parties come, go, or are not let in.

use anyhow::{Result, ensure};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::model::{Call, Model, Turn};
use rendezvous_integration_tests::site::{ENVIRONMENT, RelayKind, Site};
use rendezvous_integration_tests::stock::{self, Version, Way};
use rendezvous_integration_tests::{Context, wait};

use crate::{check, late};

/// A new executor takes the place of a dead one; the agent's later commands run there.
pub(crate) async fn executor_restarted(cx: Context, version: Version, executor: End) -> Result<()> {
    let mut site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let model = Model::play([
        Call::exec("echo one").into(),
        Turn::from(Call::exec("echo two")).gated(),
        Call::exec("echo three-$FAR_MARK").into(),
    ])
    .await?;
    let mut harness = site.stock_harness(version, "harness", &model)?;
    model.reached(1, wait::SOON).await?;
    site.kill_executor().await?;
    site.start_executor().await?;
    model.release(1);
    stock::finish(&mut harness).await?;
    check::once(&model.output(0, 0)?, "one")?;
    // The command that finds the old session gone may fail; the one after it has a new session.
    check::once(&model.output(2, 0)?, "three-only-the-executor-knows")?;
    site.near_is_untouched()
}

/// Three agents use one executor at the same time; each command waits for the other two.
pub(crate) async fn three_harnesses(cx: Context, version: Version, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let mut runs = Vec::new();
    for number in 0..3 {
        let command = format!(
            "touch here-{number}; until [ -e here-0 ] && [ -e here-1 ] && [ -e here-2 ]; do sleep 0.02; done; \
             echo met-{number}"
        );
        let model = Model::play([Call::exec(command).into()]).await?;
        let harness = site.stock_harness(version, &format!("harness-{number}"), &model)?;
        runs.push((model, harness));
    }
    for (number, (model, harness)) in runs.iter_mut().enumerate() {
        stock::finish(harness).await?;
        let output = model.output(0, 0)?;
        check::once(&output, &format!("met-{number}"))?;
        check::lacks(&output, &format!("met-{}", (number + 1) % 3))?;
    }
    site.near_is_untouched()
}

/// A harness with a made-up token runs nothing, neither far nor near.
pub(crate) async fn refused_token(cx: Context, version: Version, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let model = Model::play([Call::exec("touch ran").into()]).await?;
    let way = Way::Registry {
        url: site.registry.url(),
        environment: ENVIRONMENT,
        token: "made-up-token",
    };
    let mut harness = stock::harness(&cx, version, "harness", &way, &site.workspace, &model)?;
    let finished = harness.finish(stock::RUN_LIMIT).await?;
    ensure!(!site.content.join("ran").exists(), "the command ran at the executor");
    site.near_is_untouched()?;
    ensure!(site.link.upgraded(Party::Harness) == 0, "the relay let the harness in");
    let refusal = match model.output(0, 0) {
        Ok(output) => output,
        Err(_) => finished.stderr,
    };
    let texts = ["unsupported call", "No usable execution environment", "401"];
    ensure!(texts.iter().any(|text| refusal.contains(text)), "unexpected: {refusal}");
    Ok(())
}

/// The harness is there first; the executor comes while its one call for a way is held.
pub(crate) async fn executor_comes_late(cx: Context, version: Version, executor: End) -> Result<()> {
    let mut site = Site::start_without_executor(&cx, executor, RelayKind::Embedded).await?;
    let access = site.access();
    let url = format!("http://{}", site.link.address());
    let way = Way::Registry {
        url: &url,
        environment: ENVIRONMENT,
        token: &access.token,
    };
    for _ in 0..late::TRIES {
        let model = Model::play([Call::exec("echo late-$FAR_MARK").into()]).await?;
        let asked = site.link.connects();
        let mut harness = stock::harness(&cx, version, "harness", &way, &site.workspace, &model)?;
        let is_in_time = late::executor(&mut site, asked).await?;
        stock::finish(&mut harness).await?;
        check::once(&model.output(0, 0)?, "late-only-the-executor-knows")?;
        site.near_is_untouched()?;
        if is_in_time {
            return late::held(&site, asked);
        }
        site.kill_executor().await?;
    }
    late::never_in_time()
}
