//! One reader of many stands still: the others go on as before, little memory is held for it, and it loses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rendezvous_harness::{Harness, ProcessEvent, ProcessSpec};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program, wait};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::site_saw;
use crate::library;
use crate::runner::{Case, When};

/// Streams beside the one whose reader stands still.
const OTHERS: usize = 63;
/// What a harness writes that stands still now and then: numbers, until it may end.
const NUMBERS: &str = "i=0; until [ -e go ]; do seq $((i + 1)) $((i + 2000)); i=$((i + 2000)); done";
/// Looks at each of them.
const CHECK: &str = r#""$@" | awk '$0 != NR { print "wrong: line", NR, "is", $0; exit 1 }
    NR % 2000 == 0 { print "at", NR; fflush() } END { print "lines", NR }'"#;
/// What the executor may hold above idle: the windows of all streams; for each 1 MiB of retained output and 1 MiB that waits to be
/// sent; and 64 MiB for everything else.
const EXECUTOR: u64 = (256 + 64 * 2 + 64) << 20;
/// What the relay may hold above idle: 4 MiB for the harness that does not read, and as much for each of those that are
/// slow at the same moment.
const RELAY: u64 = 64 << 20;
/// Least part of their throughput that the others keep. The figure that is printed lies about 1; other work on the
/// machine changes it by some tenths, and a stream that waits for another takes it to 0.
const LEAST: f64 = 0.5;

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, when, seconds, rounds| {
        let period = Duration::from_secs(seconds);
        Case::new(format!("resume::slow_reader::{name}"), when, move |cx| {
            play(cx, period, rounds)
        })
    };
    vec![case("short", When::Always, 3, 2), case("long", When::Full, 60, 2)]
}

/// A session whose program writes as fast as it is read.
struct Flood {
    taken: Arc<AtomicU64>,
    _task: AbortOnDropHandle<Result<()>>,
}

impl Flood {
    async fn start(site: &Site) -> Result<Self> {
        let harness = library::connect(&site.access()).await?;
        let taken = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(take(harness, Arc::clone(&taken)));
        Ok(Self {
            taken,
            _task: AbortOnDropHandle::new(task),
        })
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

async fn take(harness: Harness, taken: Arc<AtomicU64>) -> Result<()> {
    let mut process = harness.start(ProcessSpec::new(["yes"])).await?;
    while let Some(event) = process.next().await? {
        match event {
            ProcessEvent::Output { bytes, .. } => {
                taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            other => bail!("{other:?}"),
        }
    }
    Ok(())
}

/// What each flood moves in a while, per second.
async fn rates(floods: &[Flood], period: Duration) -> Vec<f64> {
    let before: Vec<u64> = floods.iter().map(Flood::taken).collect();
    let start = Instant::now();
    // It is measured for so long; nothing is waited for.
    sleep(period).await;
    let passed = start.elapsed().as_secs_f64();
    let moved = floods.iter().zip(before).map(|(flood, before)| flood.taken() - before);
    moved.map(|bytes| bytes as f64 / passed).collect()
}

/// Lines of progress that the reader of the numbers has printed.
fn progress(reader: &Program) -> usize {
    reader.stdout().text().lines().count()
}

async fn goes_on(reader: &Program) -> Result<()> {
    let before = progress(reader);
    let more = |text: &[u8]| (text.iter().filter(|byte| **byte == b'\n').count() > before).then_some(());
    let seen = reader.stdout().wait(wait::SOON, more).await;
    seen.with_context(|| format!("the numbers stand still: {}", reader.stderr().text()))
}

/// Stops the harness and whoever reads from it, or lets them go on.
fn signal(reader: &Program, signal: Signal) -> Result<()> {
    killpg(Pid::from_raw(reader.id()), signal).with_context(|| format!("{signal}"))
}

async fn play(cx: Context, period: Duration, rounds: usize) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    let executor = site.executor.as_ref().context("no executor")?;
    let relay = &site.relay.as_ref().context("no relay")?.program;
    let idle = (executor.resident()?, relay.resident()?);
    let mut floods = Vec::new();
    for _ in 0..OTHERS {
        floods.push(Flood::start(&site).await?);
    }
    let script = format!("cd {}; {NUMBERS}", site.workspace.display());
    let command = site.access().shell(&cx, &script)?;
    let mut reader = Program::start(&cx, "reader", command.under(["sh", "-c", CHECK, "sh"]))?;
    let all = "all streams move";
    wait::until_true(all, wait::SOON, || floods.iter().all(|flood| flood.taken() > 1 << 20)).await?;

    let (mut with, mut without) = (0.0, 0.0);
    for _ in 0..rounds {
        goes_on(&reader).await?;
        with += rates(&floods, period).await.iter().sum::<f64>();
        signal(&reader, Signal::SIGSTOP)?;
        let rates = rates(&floods, period).await;
        let still = rates.iter().filter(|rate| **rate == 0.0).count();
        ensure!(still == 0, "{still} other streams stand still, too");
        without += rates.iter().sum::<f64>();
        signal(&reader, Signal::SIGCONT)?;
    }
    goes_on(&reader).await?;
    let grown = (executor.peak()? - idle.0, relay.peak()? - idle.1);
    drop(floods);
    report(with / rounds as f64, without / rounds as f64, grown);
    std::fs::write(site.content.join("go"), "")?;
    let text = reader.finish(2 * wait::SOON).await?.success()?.text();
    ensure!(!text.contains("wrong") && text.contains("lines"), "{text}");
    site_saw(&site, OTHERS + 1, 0)?;
    ensure!(grown.0 <= EXECUTOR, "the executor grew by {} MiB", grown.0 >> 20);
    ensure!(grown.1 <= RELAY, "the relay grew by {} MiB", grown.1 >> 20);
    ensure!(without >= LEAST * with, "the others fell from {with} to {without} B/s");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "figures for whoever runs the case by hand")]
fn report(with: f64, without: f64, grown: (u64, u64)) {
    println!(
        "{OTHERS} streams move {:.1} MB/s beside a reader that reads, and {:.3} of it beside one that stands still; the executor grows \
         by {} MiB, the relay by {} MiB",
        with * 1e-6,
        without / with,
        grown.0 >> 20,
        grown.1 >> 20
    );
}
