//! Whom an executor serves, whatever its registry says.

use std::fs;

use anyhow::{Result, ensure};
use rendezvous_channel::acceptor::MAX_COURTESY;
use rendezvous_integration_tests::{Context, Program, wait};

use super::{House, text};

/// What a harness prints of its key; the key is made when it is not there.
async fn fingerprint(house: &House, identity: &[&str]) -> Result<String> {
    let shown = house.harness(&[&["identity"], identity].concat()).await?;
    Ok(shown.success()?.text())
}

pub(super) async fn authorized(cx: Context) -> Result<()> {
    let mut house = House::open(&cx).await?;
    let (file, list) = (cx.folder().join("harness-identity"), cx.folder().join("authorized"));
    let identity = ["--identity-file", text(&file)?];
    let shown = fingerprint(&house, &identity).await?;
    let option = ["--authorized-harnesses", text(&list)?];
    let missing = Program::run(
        &cx,
        "executor",
        house.executor_command("executor", &option)?,
        b"",
        wait::SOON,
    )
    .await?;
    ensure!(
        missing.code == 64 && missing.stderr.contains("there is no file"),
        "{missing:?}"
    );

    fs::write(&list, format!("# who may come\n{} the agent\n", shown.trim()))?;
    let executor = house.executor(&option).await?;
    house.works(&identity).await?;
    let proven = house.harness_token.clone();
    // The registry admits this one as well; the executor does not.
    house
        .is_refused(&[], 77, &["--identity-file", "harness identity"])
        .await?;
    let log = executor.stderr();
    log.contains("its fingerprint is not in the file", wait::SOON).await?;

    // What the file says now counts. Nobody is locked out for having come too early, a few times.
    fs::write(&list, "# nobody\n")?;
    let remedy = format!(
        "add this line to the file of the executor's --authorized-harnesses: {}",
        shown.trim()
    );
    for _ in 1..MAX_COURTESY {
        house.is_refused(&identity, 77, &[&remedy]).await?;
    }
    fs::write(&list, &shown)?;
    house.works(&identity).await?;

    fs::write(&list, "4g7q-2mzt\n")?;
    house.use_another_credential().await?;
    house
        .is_refused(&[&identity[..], &["--connect-timeout", "1"]].concat(), 69, &[])
        .await?;
    log.contains("line 1", wait::SOON).await?;
    fs::write(&list, shown.to_uppercase())?;
    // Whoever failed lately is held back by the relay.
    house.harness_token = proven;
    house.works(&identity).await?;
    Ok(())
}

/// Whoever is taken out of the file is cut off.
pub(super) async fn revoked(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let (file, list) = (cx.folder().join("harness-identity"), cx.folder().join("authorized"));
    let identity = ["--identity-file", text(&file)?];
    let shown = fingerprint(&house, &identity).await?;
    fs::write(&list, &shown)?;
    let executor = house.executor(&["--authorized-harnesses", text(&list)?]).await?;
    let arguments = [&["run"], &identity[..], &["--", "sh", "-c", "echo begun; sleep 1000"]].concat();
    let mut running = Program::start(&cx, "running", house.access().command(&cx, arguments)?)?;
    running.line("begun", wait::SOON).await?;
    fs::write(&list, "")?;
    executor
        .stderr()
        .contains("harness is authorized no more", wait::SOON)
        .await?;
    let ended = running.finish(wait::SOON).await?;
    ensure!(ended.code == 77 && ended.stderr.contains(shown.trim()), "{ended:?}");
    fs::write(&list, &shown)?;
    house.works(&identity).await?;
    Ok(())
}
