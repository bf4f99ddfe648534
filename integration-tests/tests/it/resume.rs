//! Streams of our two ends that outlive their connections: no call fails, no byte is lost, and there is no second handshake.

mod attacks;
mod chaos;
mod slow_reader;
mod visible;

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::{self, End};
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program, wait};

use crate::check;
use crate::runner::{Case, When};

/// Writes numbered lines until the test lets it end, and marks each hundred of them.
pub(crate) const COUNTER: &str = "i=0; until [ -e go ]; do i=$((i+1)); echo line-$i; \
    [ $((i % 25)) != 0 ] || touch mark-$((i / 25)); sleep 0.02; done; echo last-$i; exit 7";
/// What an executor logs of each handshake, and of each resume.
const ADMITTED: &str = "harness admitted";
const RESUMED: &str = "its stream goes on where it was";

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, party) in [("harness", Party::Harness), ("executor", Party::Executor)] {
        let always = When::Always;
        cases.push(Case::new(format!("resume::idle::{name}"), always, move |cx| {
            idle(cx, party)
        }));
        cases.push(Case::new(format!("resume::mid_command::{name}"), always, move |cx| {
            mid_command(cx, party)
        }));
        cases.push(Case::new(format!("resume::forward::{name}"), always, move |cx| {
            forwarded(cx, party)
        }));
    }
    cases.push(Case::new("resume::relay_killed", When::Always, relay_killed));
    cases.push(Case::new("resume::relay_just_killed", When::Always, relay_just_killed));
    cases.push(Case::new("resume::relay_stopped", When::Always, relay_stopped));
    cases.push(Case::new(
        "resume::told_when_it_lasts",
        When::Always,
        told_when_it_lasts,
    ));
    cases.push(Case::new("resume::turned_off", When::Always, turned_off));
    cases.push(Case::new("resume::grace_over", When::Always, grace_over));
    cases.extend(attacks::cases());
    cases.extend(visible::cases());
    cases.extend(chaos::cases());
    cases.extend(slow_reader::cases());
    cases
}

/// Starts the counter, and waits until it is well under way.
pub(crate) async fn start_counter(cx: &Context, site: &Site, variables: &[(&str, &str)]) -> Result<Program> {
    let script = format!("cd {}; {COUNTER}", site.workspace.display());
    let mut command = site.access().shell(cx, &script)?;
    for (name, value) in variables {
        command = command.env(name, value);
    }
    let program = Program::start(cx, "harness", command)?;
    site.far_file("mark-1", wait::SOON).await?;
    Ok(program)
}

/// Lets the counter end; every line is there once.
pub(crate) async fn finish_counter(site: &Site, program: &mut Program) -> Result<Finished> {
    std::fs::write(site.content.join("go"), "")?;
    let finished = program.finish(wait::SOON * 2).await?;
    check::complete_lines(&finished.text())?;
    ensure!(finished.code == 7, "exit code {}: {}", finished.code, finished.stderr);
    Ok(finished)
}

/// What the executor logged: so many handshakes, and at least so many resumes.
fn executor_saw(executor: &Program, handshakes: usize, resumes: usize) -> Result<()> {
    let log = executor.stderr().text();
    let count = |what: &str| log.matches(what).count();
    ensure!(count(ADMITTED) == handshakes, "{} handshakes: {log}", count(ADMITTED));
    ensure!(count(RESUMED) >= resumes, "{} resumes: {log}", count(RESUMED));
    Ok(())
}

fn site_saw(site: &Site, handshakes: usize, resumes: usize) -> Result<()> {
    let executor = site.executor.as_ref();
    executor.map_or(Ok(()), |executor| executor_saw(executor, handshakes, resumes))
}

/// A link breaks while a command waits for input.
async fn idle(cx: Context, party: Party) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let script = "echo ready; read line; echo got-$line; read line; echo got-$line";
    let mut program = Program::start(&cx, "harness", site.access().shell(&cx, script)?)?;
    program.stdout().contains("ready\n", wait::SOON).await?;
    program.write(b"one\n").await?;
    program.stdout().contains("got-one\n", wait::SOON).await?;
    site.link.cut(party);
    // Input that comes while there is no connection waits for the next one.
    program.write(b"two\n").await?;
    let finished = program.finish(wait::SOON * 2).await?.success()?;
    ensure!(finished.text() == "ready\ngot-one\ngot-two\n", "{}", finished.text());
    site_saw(&site, 1, 1)
}

/// A link breaks three times while a command writes.
async fn mid_command(cx: Context, party: Party) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let mut program = start_counter(&cx, &site, &[]).await?;
    for _ in 0..3 {
        let before = site.link.upgraded(Party::Harness);
        site.link.cut(party);
        site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    }
    finish_counter(&site, &mut program).await?;
    site_saw(&site, 1, 1)
}

/// The channel ends at a forwarder; the exec-server behind it learns nothing of the broken link.
async fn forwarded(cx: Context, party: Party) -> Result<()> {
    let mut site = Site::start_without_executor(&cx, End::Ours, RelayKind::Embedded).await?;
    let (_listener, url) = executor::listen(&cx, End::Ours, &site.workspace, &site.content).await?;
    site.executor = Some(executor::forward(&cx, &site.executor_options(), &url).await?);
    let mut program = start_counter(&cx, &site, &[]).await?;
    let before = site.link.upgraded(Party::Harness);
    site.link.cut(party);
    site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    finish_counter(&site, &mut program).await?;
    site_saw(&site, 1, 1)
}

/// The relay dies while a command writes, and another one takes its place.
async fn relay_killed(cx: Context) -> Result<()> {
    let mut site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    let mut program = start_counter(&cx, &site, &[]).await?;
    let before = site.link.upgraded(Party::Harness);
    site.restart_relay().await?;
    site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    finish_counter(&site, &mut program).await?;
    site_saw(&site, 1, 1)
}

/// Whoever comes just after a relay died is sent to it by the registry for a moment, and gets through nevertheless.
async fn relay_just_killed(cx: Context) -> Result<()> {
    let mut site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    site.restart_relay().await?;
    let command = site.access().shell(&cx, "echo here")?;
    let finished = Program::run(&cx, "harness", command, b"", wait::SOON)
        .await?
        .success()?;
    ensure!(finished.text() == "here\n", "{}", finished.text());
    Ok(())
}

/// The relay stands still while a command writes, and goes on.
async fn relay_stopped(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    let mut program = start_counter(&cx, &site, &[]).await?;
    let relay = site.relay.as_ref().map(|relay| &relay.program);
    relay.map_or(Ok(()), |relay| relay.signal(Signal::SIGSTOP))?;
    // Four seconds of output that cannot leave.
    site.far_file("mark-8", wait::SOON).await?;
    relay.map_or(Ok(()), |relay| relay.signal(Signal::SIGCONT))?;
    finish_counter(&site, &mut program).await?;
    site_saw(&site, 1, 0)
}

/// A person learns of a connection that stays away, and that it is back.
async fn told_when_it_lasts(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let mut program = start_counter(&cx, &site, &[]).await?;
    site.link.refuse(Party::Harness, true);
    site.link.cut(Party::Harness);
    program
        .stderr()
        .contains("connection lost, reconnecting", wait::SOON)
        .await?;
    site.link.refuse(Party::Harness, false);
    program.stderr().contains("reconnected after", wait::SOON).await?;
    finish_counter(&site, &mut program).await?;
    site_saw(&site, 1, 1)
}

/// A harness that wants no reliable stream takes up its session with a new handshake.
async fn turned_off(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let mut program = start_counter(&cx, &site, &[("HARNESS_STREAM_GRACE", "0")]).await?;
    site.link.cut(Party::Harness);
    site.link.wait_upgraded(Party::Harness, 2, wait::SOON).await?;
    finish_counter(&site, &mut program).await?;
    site_saw(&site, 2, 0)
}

/// The connection stays away for longer than the stream waits: the session goes on with a new handshake.
async fn grace_over(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let variables = [("HARNESS_STREAM_GRACE", "0.5"), ("HARNESS_LOG", "debug")];
    let mut program = start_counter(&cx, &site, &variables).await?;
    site.link.refuse(Party::Harness, true);
    site.link.cut(Party::Harness);
    program.stderr().contains("was not resumed in time", wait::SOON).await?;
    site.link.refuse(Party::Harness, false);
    finish_counter(&site, &mut program).await?;
    // The first of the new ones finds the session held by the stream that still waits, which gives it up for the next.
    let log = site.executor.as_ref().map(|executor| executor.stderr().text());
    let handshakes = log.unwrap_or_default().matches(ADMITTED).count();
    ensure!(handshakes >= 2, "{handshakes} handshakes");
    Ok(())
}
