//! Our harness while links break. Nothing may be lost or repeated.

use anyhow::{Result, ensure};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program, wait};

use crate::agent::links::{COUNTER, RelayEnd};
use crate::check;

/// A link breaks while a command waits for input.
pub(crate) async fn idle(cx: Context, executor: End, party: Party) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let script = "echo ready; read line; echo got-$line; read line; echo got-$line";
    let mut program = Program::start(&cx, "harness", site.access().shell(&cx, script)?)?;
    program.stdout().contains("ready\n", wait::SOON).await?;
    program.write(b"one\n").await?;
    program.stdout().contains("got-one\n", wait::SOON).await?;
    let before = site.link.upgraded(Party::Harness);
    site.link.cut(party);
    // Input that comes while there is no connection must wait for the next one.
    program.write(b"two\n").await?;
    site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    let finished = program.finish(wait::SOON * 2).await?.success()?;
    ensure!(finished.text() == "ready\ngot-one\ngot-two\n", "{}", finished.text());
    Ok(())
}

/// A link breaks while a command writes.
pub(crate) async fn mid_command(cx: Context, executor: End, party: Party) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let mut program = start_counter(&cx, &site)?;
    site.far_file("started", wait::SOON).await?;
    let before = site.link.upgraded(Party::Harness);
    site.link.cut(party);
    site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    finish_counter(&site, &mut program).await
}

/// A relay ends while a command writes, and another one takes its place.
pub(crate) async fn relay_gone(cx: Context, executor: End, end: RelayEnd) -> Result<()> {
    let mut site = Site::start(&cx, executor, end.kind()).await?;
    let mut program = start_counter(&cx, &site)?;
    site.far_file("started", wait::SOON).await?;
    let before = site.link.upgraded(Party::Harness);
    end.happen(&mut site).await?;
    site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    finish_counter(&site, &mut program).await
}

fn start_counter(cx: &Context, site: &Site) -> Result<Program> {
    let script = format!("cd {}; {COUNTER}", site.workspace.display());
    Program::start(cx, "harness", site.access().shell(cx, &script)?)
}

async fn finish_counter(site: &Site, program: &mut Program) -> Result<()> {
    std::fs::write(site.content.join("go"), "")?;
    let finished = program.finish(wait::SOON * 2).await?;
    check::complete_lines(&finished.text())?;
    ensure!(finished.code == 7, "exit code {}: {}", finished.code, finished.stderr);
    Ok(())
}
