//! Our harness while parties come, go, or are not let in.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program, wait};

use super::{far_process, shell};
use crate::{check, late};

/// Exit code of a command whose executor can't be reached any more.
const UNAVAILABLE: i32 = 69;
/// Exit code for a refused credential.
const NOT_AUTHORIZED: i32 = 77;

/// The running command goes with its executor; the harness says so, and the next run works.
pub(crate) async fn executor_restarted(cx: Context, executor: End) -> Result<()> {
    let mut site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let script = format!("cd {}; touch runs; exec sleep 100", site.workspace.display());
    let mut program = Program::start(&cx, "harness", site.access().shell(&cx, &script)?)?;
    site.far_file("runs", wait::SOON).await?;
    site.kill_executor().await?;
    site.start_executor().await?;
    let finished = program.finish(wait::SOON * 4).await?;
    ensure!(
        finished.code == UNAVAILABLE,
        "exit code {}: {}",
        finished.code,
        finished.stderr
    );
    check::contains(&finished.stderr, "the command is gone: the executor was restarted")?;
    let next = shell(&cx, &site.access(), "echo again").await?.success()?;
    ensure!(next.text() == "again\n", "{}", next.text());
    Ok(())
}

/// Three harnesses use one executor at the same time; each command waits for the other two.
pub(crate) async fn three_harnesses(cx: Context, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let access = site.access();
    let script = |number: u8| {
        format!(
            "cd {}; touch here-{number}; until [ -e here-0 ] && [ -e here-1 ] && [ -e here-2 ]; do sleep 0.02; done; \
             echo met-{number}",
            site.workspace.display()
        )
    };
    let scripts = [script(0), script(1), script(2)];
    let runs = tokio::try_join!(
        shell(&cx, &access, &scripts[0]),
        shell(&cx, &access, &scripts[1]),
        shell(&cx, &access, &scripts[2])
    )?;
    for (number, finished) in [runs.0, runs.1, runs.2].into_iter().enumerate() {
        ensure!(
            finished.text() == format!("met-{number}\n"),
            "{}: {}",
            finished.text(),
            finished.stderr
        );
    }
    Ok(())
}

/// A harness with a made-up token runs nothing and says why.
pub(crate) async fn refused_token(cx: Context, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let access = Access {
        token: "made-up-token".into(),
        ..site.access()
    };
    let finished = shell(&cx, &access, "touch ran").await?;
    ensure!(
        finished.code == NOT_AUTHORIZED,
        "exit code {}: {}",
        finished.code,
        finished.stderr
    );
    ensure!(!finished.stderr.contains("made-up-token"), "the token was printed");
    ensure!(site.link.upgraded(Party::Harness) == 0, "the relay let the harness in");
    ensure!(!site.content.join("ran").exists(), "the command ran");
    Ok(())
}

/// The harness is there first; the executor comes while its one call for a way is held.
pub(crate) async fn executor_comes_late(cx: Context, executor: End) -> Result<()> {
    let mut site = Site::start_without_executor(&cx, executor, RelayKind::Embedded).await?;
    let access = Access {
        registry: format!("http://{}", site.link.address()),
        ..site.access()
    };
    for _ in 0..late::TRIES {
        let asked = site.link.connects();
        let mut program = Program::start(&cx, "harness", access.shell(&cx, "echo late")?)?;
        let is_in_time = late::executor(&mut site, asked).await?;
        let finished = program.finish(wait::SOON).await?.success()?;
        ensure!(finished.text() == "late\n", "{}", finished.text());
        if is_in_time {
            return late::held(&site, asked);
        }
        site.kill_executor().await?;
    }
    late::never_in_time()
}

/// A killed executor takes along what it started; the README says what may live on.
pub(crate) async fn executor_killed(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let folder = site.workspace.display();
    let mut harnesses = Vec::new();
    let mut processes = Vec::new();
    for tty in ["--tty", "--env=NO=TERMINAL"] {
        let script = format!("cd {folder}; echo $$ >part; mv part pid{tty}; exec sleep 1000");
        let command = site.access().command(&cx, ["run", tty, "--", "sh", "-c", &script])?;
        harnesses.push(Program::start(&cx, "harness", command)?);
        processes.push(far_process(&site, &format!("pid{tty}")).await?);
    }
    let executor = site.executor.as_ref().context("no executor")?;
    // Its process alone: the test's own programs are killed with their groups.
    executor.signal(Signal::SIGKILL)?;
    for process in &processes {
        process.gone().await?;
    }
    Ok(())
}
