//! 128 streams of one executor: most of them ask small questions, and the others move as much as they can. The latter are
//! processes of their own, as harnesses are.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rendezvous_harness::options::ClearText;
use rendezvous_harness::{Harness, Options};
use rendezvous_integration_tests::bench::quantile;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::installation::Installation;
use rendezvous_integration_tests::{Context, Program};
use rendezvous_wire::secret::Secret;
use tokio::time::sleep;

use crate::uplink;

const SMALL: usize = 115;
const BULK: usize = 13;
/// Time between two questions of one stream.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for which all ask, idle and busy in turns, at scale 1.
const PERIOD: f64 = 5.0;
/// What limits the bulk: the executor's way to its relay, or what two cores can do for all of them.
const UPLINKS: [Option<&str>; 3] = [Some("100mbit"), Some("400mbit"), None];

async fn connect(access: &Access) -> Result<Harness> {
    let token = Some(Secret::new(access.token.clone()));
    let (registry, environment) = (Some(&*access.registry), Some(&*access.environment));
    let options = Options::new(registry, environment, token, ClearText::Loopback)?;
    Ok(Harness::connect(options).await?)
}

pub(crate) async fn print(scale: f64) -> Result<()> {
    println!("\n| {SMALL} small streams, {BULK} bulk | | p50 ms | p99 ms | bulk MB/s |\n|---|---|--:|--:|--:|");
    for uplink in UPLINKS {
        crowd(scale, uplink).await?;
    }
    Ok(())
}

async fn crowd(scale: f64, uplink: Option<&str>) -> Result<()> {
    let cx = Context::new()?;
    uplink::packets(uplink.is_some())?;
    let installation = Installation::start(&cx).await?;
    let executor = installation.executor(&cx, "ours", End::Ours).await?;
    if let Some(rate) = uplink {
        uplink::narrow(executor.id(), installation.relay.address()?, rate)?;
    }
    let access = installation.access("ours");
    let mut small = Vec::new();
    for number in 0..SMALL {
        small.push(connect(&access).await.with_context(|| format!("harness {number}"))?);
    }
    let period = Duration::from_secs_f64(PERIOD * scale);
    ask(&small, period / 10).await?;
    let mut idle = ask(&small, period).await?;
    let floods = (0..BULK).map(|number| flood(&cx, &access, number));
    let floods = floods.collect::<Result<Vec<_>>>()?;
    ask(&small, period / 5).await?;
    let (start, before) = (Instant::now(), moved(&floods)?);
    let mut busy = ask(&small, period).await?;
    let rate = (moved(&floods)? - before) as f64 * 1e-6 / start.elapsed().as_secs_f64();
    let p99 = [&mut idle, &mut busy].map(|times| quantile(times, 0.99));
    let name = uplink.unwrap_or("not limited");
    println!(
        "| uplink {name} | idle | {:.2} | {:.2} | – |",
        quantile(&mut idle, 0.5),
        p99[0]
    );
    println!(
        "| | beside bulk | {:.2} | {:.2} = {:.1} × | {:.0} |",
        quantile(&mut busy, 0.5),
        p99[1],
        p99[1] / p99[0],
        rate
    );
    Ok(())
}

/// Milliseconds of every question in a while.
async fn ask(streams: &[Harness], period: Duration) -> Result<Vec<f64>> {
    let until = Instant::now() + period;
    let asking = streams.iter().enumerate().map(|(number, harness)| {
        let harness = harness.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            sleep(PAUSE * number as u32 / SMALL as u32).await;
            while Instant::now() < until {
                let start = Instant::now();
                harness.status().await?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
                sleep(PAUSE).await;
            }
            anyhow::Ok(times)
        })
    });
    let mut all = Vec::new();
    for times in futures_util::future::join_all(asking).await {
        all.extend(times??);
    }
    Ok(all)
}

/// Starts a harness that takes output without end.
fn flood(cx: &Context, access: &Access, number: usize) -> Result<Program> {
    let command = access.command(cx, ["run", "--", "cat", "/dev/zero"])?;
    let discard = ["sh", "-c", "exec \"$@\" >/dev/null", "flood"];
    Program::start(cx, &format!("flood-{number}"), command.under(discard))
}

/// Bytes that all of them have written so far.
fn moved(floods: &[Program]) -> Result<u64> {
    floods.iter().map(written).sum()
}

fn written(program: &Program) -> Result<u64> {
    let io = std::fs::read_to_string(format!("/proc/{}/io", program.id()))?;
    let count = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    Ok(count.context("no wchar")?.parse()?)
}
