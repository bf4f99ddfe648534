//! What our harness passes on to a command beside its input: signals, sizes. A stock executor can do less, and it is said.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::terminal::Terminal;
use rendezvous_integration_tests::{Context, Program, wait};

use super::far_process;
use crate::check;

pub(crate) async fn play(cx: Context, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    requests_to_end(&site).await.context("requests to end")?;
    deaf_command(&site).await.context("a deaf command")?;
    requests_of_users(&site).await.context("requests of users")?;
    stop_and_go(&site).await.context("stop and go")?;
    hung_up_terminal(&site).await.context("hung up terminal")?;
    if executor != End::Ours {
        fixed_size(&site).await.context("fixed size")?;
    }
    Ok(())
}

/// A command hears why it has to end, and may say goodbye.
async fn requests_to_end(site: &Site) -> Result<()> {
    for (signal, name, code) in [(Signal::SIGTERM, "TERM", 143), (Signal::SIGHUP, "HUP", 129)] {
        // The shell would tell that its child was ended, too.
        let script = format!("exec 2>/dev/null; trap 'echo bye; exit 0' {name}; echo up; while :; do sleep 0.02; done");
        let mut program = Program::start(&site.cx, "ended", site.access().shell(&site.cx, &script)?)?;
        program.stdout().contains("up\n", wait::SOON).await?;
        program.signal(signal)?;
        let finished = program.finish(wait::SOON).await?;
        ensure!(
            finished.code == code,
            "exit code {}: {}",
            finished.code,
            finished.stderr
        );
        if site.end == End::Ours {
            ensure!(finished.text() == "up\nbye\n", "{signal}: {}", finished.text());
            ensure!(finished.stderr.is_empty(), "{signal}: {}", finished.stderr);
        } else {
            ensure!(finished.text() == "up\n", "{signal}: {}", finished.text());
            let note = format!("this executor cannot pass SIG{name} on; killing the command");
            check::contains(&finished.stderr, &note)?;
            ensure!(finished.stderr.lines().count() == 1, "{}", finished.stderr);
        }
    }
    Ok(())
}

/// A command that does not hear is killed after a while, and at once when it is asked twice.
async fn deaf_command(site: &Site) -> Result<()> {
    for times in [1, 2] {
        let pid = format!("deaf-{times}");
        let script = format!(
            "trap '' TERM; cd {}; echo $$ >{pid}.part; mv {pid}.part {pid}; echo up; while :; do sleep 0.02; done",
            site.workspace.display()
        );
        let mut program = Program::start(&site.cx, "deaf", site.access().shell(&site.cx, &script)?)?;
        program.stdout().contains("up\n", wait::SOON).await?;
        let process = far_process(site, &pid).await?;
        for _ in 0..times {
            // The second one may come when all is over.
            let _ = program.signal(Signal::SIGTERM);
        }
        let finished = program.finish(wait::SOON).await?;
        ensure!(finished.code == 143, "exit code {}: {}", finished.code, finished.stderr);
        process.gone().await?;
    }
    Ok(())
}

/// Signals that mean what the command wants them to.
async fn requests_of_users(site: &Site) -> Result<()> {
    let script = "trap 'echo one' USR1; trap 'echo two' USR2; trap 'echo quit; exit 6' QUIT; echo up; \
                  while :; do sleep 0.02; done";
    let mut program = Program::start(&site.cx, "users", site.access().shell(&site.cx, script)?)?;
    program.stdout().contains("up\n", wait::SOON).await?;
    for (signal, word) in [(Signal::SIGUSR1, "one\n"), (Signal::SIGUSR2, "two\n")] {
        program.signal(signal)?;
        if site.end == End::Ours {
            program.stdout().contains(word, wait::SOON).await?;
        } else {
            let note = format!("this executor cannot pass {signal} on");
            program.stderr().contains(&note, wait::SOON).await?;
        }
    }
    program.signal(Signal::SIGQUIT)?;
    let finished = program.finish(wait::SOON).await?;
    let (code, text) = match site.end {
        End::Ours => (6, "up\none\ntwo\nquit\n"),
        End::Stock(_) => (131, "up\n"),
    };
    ensure!(
        finished.code == code,
        "exit code {}: {}",
        finished.code,
        finished.stderr
    );
    ensure!(finished.text() == text, "{}", finished.text());
    Ok(())
}

/// Ctrl-Z stops the harness, and with it the command where that is possible.
async fn stop_and_go(site: &Site) -> Result<()> {
    let script = format!(
        "cd {}; echo $$ >stopped.part; mv stopped.part stopped; echo up; read line; echo got-$line",
        site.workspace.display()
    );
    let mut program = Program::start(&site.cx, "stop", site.access().shell(&site.cx, &script)?)?;
    program.stdout().contains("up\n", wait::SOON).await?;
    let process = far_process(site, "stopped").await?;
    program.signal(Signal::SIGTSTP)?;
    let id = program.id();
    wait::until_true("the harness's stop", wait::SOON, || state(id) == Some('T')).await?;
    let expected = if site.end == End::Ours { 'T' } else { 'S' };
    ensure!(
        state(process.0) == Some(expected),
        "the command is {:?}",
        state(process.0)
    );
    program.signal(Signal::SIGCONT)?;
    wait::until_true("the command goes on", wait::SOON, || state(process.0) == Some('S')).await?;
    program.write(b"on\n").await?;
    let finished = program.finish(wait::SOON).await?.success()?;
    ensure!(finished.text() == "up\ngot-on\n", "{}", finished.text());
    Ok(())
}

/// The letter for a process's state: stopped, sleeping, ….
fn state(process: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// A command on a terminal hears that its user's is gone, and can still tidy up.
async fn hung_up_terminal(site: &Site) -> Result<()> {
    let script = format!(
        "cd {}; trap 'touch tidied; exit' HUP; echo tr''apped; while :; do sleep 0.02; done",
        site.workspace.display()
    );
    let command = site
        .access()
        .command(&site.cx, ["run", "--tty", "--", "sh", "-c", &script])?;
    let terminal = Terminal::start(&site.cx, "hung up", command)?;
    terminal.screen().contains("trapped", wait::SOON).await?;
    terminal.program.signal(Signal::SIGTERM)?;
    let finished = terminal.finish(wait::SOON).await?;
    ensure!(finished.code == 143, "exit code {}: {}", finished.code, finished.text());
    let is_tidied = site.content.join("tidied").exists();
    ensure!(is_tidied == (site.end == End::Ours), "tidied: {is_tidied}");
    Ok(())
}

/// The size of a terminal at a stock executor is what it is.
async fn fixed_size(site: &Site) -> Result<()> {
    let command = site.access().command(&site.cx, ["shell"])?;
    let mut terminal = Terminal::start(&site.cx, "fixed size", command)?;
    terminal.raw().await?;
    terminal.resize(30, 100)?;
    let note = "this executor cannot change the size of the command's terminal, which stays 80x24";
    terminal.screen().contains(note, wait::SOON).await?;
    terminal.press("exit\r").await?;
    terminal.finish(wait::SOON).await?;
    Ok(())
}
