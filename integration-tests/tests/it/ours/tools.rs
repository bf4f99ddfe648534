//! What `harness run` passes through: streams, exit codes, signals, terminals, input.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::{End, HOST_NAME, MARK};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program, wait};

use super::{far_process, harness, shell};
use crate::check;

pub(crate) async fn play(cx: Context, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    streams_and_exit_code(&site).await.context("streams and exit code")?;
    folder_and_environment(&site).await.context("folder and environment")?;
    big_and_binary_output(&site).await.context("big and binary output")?;
    binary_input(&site).await.context("binary input")?;
    no_terminal(&site).await.context("no terminal")?;
    terminal(&site).await.context("terminal")?;
    dialogue(&site).await.context("dialogue")?;
    signals(&site).await.context("signals")?;
    parallel(&site).await.context("parallel")?;
    site.near_is_untouched()
}

async fn streams_and_exit_code(site: &Site) -> Result<()> {
    let script = "echo out-$FAR_MARK; echo err-$((1+1)) >&2; hostname; exit 3";
    let finished = shell(&site.cx, &site.access(), script).await?;
    ensure!(finished.code == 3, "exit code {}: {}", finished.code, finished.stderr);
    ensure!(
        finished.text() == format!("out-{}\n{HOST_NAME}\n", MARK.1),
        "stdout: {}",
        finished.text()
    );
    check::once(&finished.stderr, "err-2\n")?;
    check::lacks(&finished.text(), "err-2")
}

async fn folder_and_environment(site: &Site) -> Result<()> {
    let arguments = [
        "run",
        "--cwd",
        "/usr/share",
        "--env",
        "SAID=yes",
        "--",
        "sh",
        "-c",
        "pwd; echo $SAID",
    ];
    let finished = harness(&site.cx, &site.access(), &arguments, b"").await?;
    ensure!(
        finished.text() == "/usr/share\nyes\n",
        "{}: {}",
        finished.text(),
        finished.stderr
    );
    Ok(())
}

async fn big_and_binary_output(site: &Site) -> Result<()> {
    let blob = site.content.join("blob");
    let script = format!(
        "head -c 2097152 /dev/urandom | tee {}",
        site.workspace.join("blob").display()
    );
    let finished = shell(&site.cx, &site.access(), &script).await?.success()?;
    ensure!(
        finished.stdout == std::fs::read(blob)?,
        "{} bytes, not the same",
        finished.stdout.len()
    );
    Ok(())
}

async fn binary_input(site: &Site) -> Result<()> {
    let input: Vec<u8> = (0..1_000_000_u32)
        .map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    let script = format!("head -c {} > {}", input.len(), site.workspace.join("input").display());
    let arguments = ["run", "--", "sh", "-c", &script];
    harness(&site.cx, &site.access(), &arguments, &input).await?.success()?;
    ensure!(
        std::fs::read(site.content.join("input"))? == input,
        "the input arrived changed"
    );
    Ok(())
}

async fn no_terminal(site: &Site) -> Result<()> {
    let finished = shell(
        &site.cx,
        &site.access(),
        "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo no-terminal",
    )
    .await?;
    ensure!(finished.text() == "no-terminal\n", "{}", finished.text());
    Ok(())
}

async fn terminal(site: &Site) -> Result<()> {
    let arguments = [
        "run",
        "--tty",
        "--",
        "sh",
        "-c",
        "stty size; [ -t 0 ] && [ -t 1 ] && echo terminal; exit 5",
    ];
    let finished = harness(&site.cx, &site.access(), &arguments, b"").await?;
    check::contains(&finished.text(), "24 80")?;
    check::contains(&finished.text(), "terminal\r\n")?;
    ensure!(finished.code == 5, "exit code {}", finished.code);
    Ok(())
}

/// Input that depends on output: nothing may wait in a buffer.
async fn dialogue(site: &Site) -> Result<()> {
    let script = "echo name; read name; echo hello-$name; read rest; echo bye-$rest";
    let mut program = Program::start(&site.cx, "dialogue", site.access().shell(&site.cx, script)?)?;
    program.stdout().contains("name\n", wait::SOON).await?;
    program.write(b"ada\n").await?;
    program.stdout().contains("hello-ada\n", wait::SOON).await?;
    program.write(b"now\n").await?;
    let finished = program.finish(wait::SOON).await?.success()?;
    ensure!(finished.text() == "name\nhello-ada\nbye-now\n", "{}", finished.text());
    Ok(())
}

async fn signals(site: &Site) -> Result<()> {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let name = format!("{signal}");
        let folder = site.workspace.display();
        // Only a kill ends what ignores the polite signals; an interrupt is the command's own affair.
        let ignored = if signal == Signal::SIGINT {
            ""
        } else {
            "trap '' HUP INT TERM;"
        };
        let script = format!("{ignored} cd {folder}; echo $$ >.{name}; mv .{name} {name}; exec sleep 100");
        let mut program = Program::start(&site.cx, &name, site.access().shell(&site.cx, &script)?)?;
        let process = far_process(site, &name).await?;
        program.signal(signal)?;
        let finished = program.finish(wait::SOON).await?;
        ensure!(
            finished.code == code,
            "{name}: exit code {}: {}",
            finished.code,
            finished.stderr
        );
        process.gone().await.with_context(|| name)?;
    }
    let killed = shell(&site.cx, &site.access(), "kill -KILL $$").await?;
    ensure!(killed.code == 137, "a killed command gives {}", killed.code);
    Ok(())
}

async fn parallel(site: &Site) -> Result<()> {
    let (cx, access) = (&site.cx, site.access());
    let folder = site.workspace.display();
    let one = format!("cd {folder}; touch one; until [ -e two ]; do sleep 0.02; done; echo met");
    let two = format!("cd {folder}; touch two; until [ -e one ]; do sleep 0.02; done; echo met");
    let (one, two) = tokio::try_join!(shell(cx, &access, &one), shell(cx, &access, &two))?;
    ensure!(
        one.text() == "met\n" && two.text() == "met\n",
        "{} {}",
        one.text(),
        two.text()
    );
    Ok(())
}
