//! Laptops that sleep, and what their connections do when they wake.

use anyhow::{Result, ensure};
use rendezvous_integration_tests::asleep::Sleeper;
use rendezvous_integration_tests::executor::{self, End};
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program, wait};

use crate::runner::{Case, When};

/// An hour: longer than any deadline of a connection.
const HOUR: u64 = 3600;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("asleep::both_ends_notice", When::Always, both_ends)]
}

/// The network has forgotten the connections of a machine that slept, and tells nobody. Its programs dial again long before
/// a pong would be missed, and the command that was running goes on.
async fn both_ends(cx: Context) -> Result<()> {
    let sleeper = Sleeper::new(&cx)?;
    let mut site = Site::start_without_executor(&cx, End::Ours, RelayKind::Embedded).await?;
    let command = executor::ours(&cx, &site.executor_options())?;
    let command = executor::machine(command, &site.workspace, &site.content);
    let mut program = Program::start(&cx, "executor", sleeper.under(command))?;
    program.line("executor registered ", wait::SOON).await?;
    site.executor = Some(program);
    let script = "echo ready; while read line; do echo got-$line; [ $line = end ] && exit 4; done";
    let command = sleeper.under(site.access().shell(&cx, script)?);
    let mut harness = Program::start(&cx, "harness", command)?;
    harness.stdout().contains("ready\n", wait::SOON).await?;

    let mut slept = 0;
    for party in [Party::Executor, Party::Harness] {
        let before = site.link.arrived(party);
        site.link.hold(party, true);
        slept += HOUR;
        sleeper.sleep(slept)?;
        // Without a sense of sleep a ping goes out after 30 s, and is waited for 60 s.
        wait::until_true(&format!("{party:?} dials again"), wait::SOON, || {
            site.link.arrived(party) > before
        })
        .await?;
        site.link.hold(party, false);
        let word = format!("{party:?}");
        harness.write(format!("{word}\n").as_bytes()).await?;
        harness.stdout().contains(&format!("got-{word}\n"), wait::SOON).await?;
    }
    harness.write(b"end\n").await?;
    let finished = harness.finish(wait::SOON).await?;
    ensure!(finished.code == 4, "exit code {}: {}", finished.code, finished.stderr);
    Ok(())
}
