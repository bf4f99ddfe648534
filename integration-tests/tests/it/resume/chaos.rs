//! Everything between the two ends breaks at random, again and again, while they work.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_channel::reliable::HARNESS_GRACE;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program};
use tokio::time::sleep;

use super::{ADMITTED, RESUMED};
use crate::library;
use crate::runner::{Case, When};

/// Numbers go to the executor and come back, as fast as they can; each is looked at.
const ECHO: &str = r#"
    { i=0; while [ ! -e stop ]; do seq $((i + 1)) $((i + 20000)); i=$((i + 20000)); done; } | "$@" |
    awk '$0 != NR { print "wrong: line", NR, "is", $0; exit 1 } NR % 20000 == 0 { print "at", NR; fflush() }
        END { print "lines", NR }'"#;
/// Time in which one fault may follow another before everybody has to be back: with the longest pause of an executor behind the
/// last of them it is less than streams wait.
const BARRAGE: Duration = Duration::from_secs(10);
/// Longest time that everything may stand still: an executor may wait half a minute before it dials again.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, when, seconds| {
        let duration = Duration::from_secs(seconds);
        let case = Case::new(format!("resume::chaos::{name}"), when, move |cx| chaos(cx, duration));
        case.within(duration + 5 * PATIENCE)
    };
    vec![case("short", When::Always, 60), case("long", When::Full, 30 * 60)]
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    /// From 0 to below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pause(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most))
    }
}

/// One thing that breaks, and is whole again at the end.
async fn fault(site: &mut Site, dice: &mut Dice) -> Result<&'static str> {
    let party = match dice.below(2) {
        0 => Party::Harness,
        _ => Party::Executor,
    };
    Ok(match dice.below(6) {
        0 => {
            site.link.cut(Party::Harness);
            "harness links cut"
        }
        1 => {
            site.link.cut(Party::Executor);
            "executor link cut"
        }
        2 => {
            site.link.hold(party, true);
            sleep(dice.pause(2000)).await;
            site.link.hold(party, false);
            "a link held up"
        }
        3 => {
            site.link.refuse(Party::Harness, true);
            site.link.cut(Party::Harness);
            sleep(dice.pause(2000)).await;
            site.link.refuse(Party::Harness, false);
            "harness links refused"
        }
        4 => {
            site.restart_relay().await?;
            "relay killed"
        }
        _ => {
            let relay = site.relay.as_ref().context("no relay")?;
            relay.program.signal(Signal::SIGSTOP)?;
            sleep(dice.pause(2000)).await;
            relay.program.signal(Signal::SIGCONT)?;
            "relay stopped"
        }
    })
}

async fn chaos(cx: Context, duration: Duration) -> Result<()> {
    let seed = getrandom::u64()? | 1;
    broken(cx, duration, seed)
        .await
        .with_context(|| format!("with the seed {seed}"))
}

#[expect(clippy::print_stdout, reason = "figures for people")]
async fn broken(cx: Context, duration: Duration, seed: u64) -> Result<()> {
    let mut site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    let access = site.access();
    let library = library::connect(&access).await?;
    let command = access.command(&cx, ["run", "--", "cat"])?;
    let echo = Program::start(&cx, "echo", command.under(["sh", "-c", ECHO, "sh"]))?;
    // What breaks are streams that stand; how a first connect fails is for others to show.
    echo.stdout().contains("at ", PATIENCE).await?;
    let mut dice = Dice(seed);
    let start = Instant::now();
    let (mut faults, mut calls, mut longest) = (0, 0, Duration::ZERO);
    while start.elapsed() < duration {
        let before = echo.stdout().text().lines().count();
        let barrage = Instant::now();
        for _ in 0..=dice.below(3) {
            if barrage.elapsed() > BARRAGE {
                break;
            }
            let what = fault(&mut site, &mut dice).await?;
            faults += 1;
            // Calls under way while it breaks do not fail.
            let asked = Instant::now();
            let answered = tokio::time::timeout(PATIENCE, library.status()).await;
            answered
                .with_context(|| format!("no answer behind: {what}"))?
                .with_context(|| format!("a call failed behind: {what}"))?;
            calls += 1;
            longest = longest.max(asked.elapsed());
        }
        let more = |text: &[u8]| (text.iter().filter(|byte| **byte == b'\n').count() > before).then_some(());
        let goes_on = echo.stdout().wait(PATIENCE, more).await;
        goes_on.with_context(|| format!("stands still behind {faults} faults: {}", echo.stderr().text()))?;
    }
    let told = finish(&cx, echo).await?;
    println!(
        "{faults} faults, {calls} calls, the longest {longest:?}, in {:?}",
        start.elapsed()
    );
    kept_their_streams(&site, &told)
}

/// Both harnesses have the streams they began with, unless they were away for longer than a stream waits; then one more,
/// and perhaps one that the next fault cut before it was of use.
fn kept_their_streams(site: &Site, told: &str) -> Result<()> {
    let waits = told.lines().filter_map(|line| line.split_once("reconnected after "));
    let waits = waits.filter_map(|(_, rest)| rest.trim_end_matches(" s").parse::<f64>().ok());
    let late = waits.filter(|seconds| *seconds >= HARNESS_GRACE.as_secs_f64()).count();
    let log = site.executor.as_ref().context("no executor")?.stderr().text();
    let (handshakes, resumes) = (log.matches(ADMITTED).count(), log.matches(RESUMED).count());
    ensure!(
        (2..=2 + 2 * late).contains(&handshakes) && resumes > 0,
        "{handshakes} handshakes, {resumes} resumes, {late} times beyond the grace\n{told}\n{log}"
    );
    Ok(())
}

/// Nothing was lost, repeated or out of order, to the last line; gives what the harness told of its connection.
async fn finish(cx: &Context, mut echo: Program) -> Result<String> {
    std::fs::write(cx.folder().join("stop"), "")?;
    let finished = echo.finish(PATIENCE).await?;
    let text = finished.text();
    ensure!(
        finished.code == 0 && !text.contains("wrong"),
        "{text}\n{}",
        finished.stderr
    );
    let lines = text.lines().find_map(|line| line.strip_prefix("lines "));
    let lines: u64 = lines.context("no last line")?.parse()?;
    ensure!(lines > 0 && lines.is_multiple_of(20_000), "{lines} lines came back");
    Ok(finished.stderr)
}
