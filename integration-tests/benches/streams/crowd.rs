//! 128 streams of one executor: most of them ask small questions, and the others move as much as they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rendezvous_harness::options::ClearText;
use rendezvous_harness::{Harness, Options, ProcessEvent, ProcessSpec};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_wire::secret::Secret;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::quantile;

const SMALL: usize = 115;
const BULK: usize = 13;
/// Time between two questions of one stream.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for which all ask, idle and busy in turns, at scale 1.
const PERIOD: f64 = 5.0;
const TURNS: usize = 3;

async fn connect(site: &Site) -> Result<Harness> {
    let access = site.access();
    let token = Some(Secret::new(access.token.clone()));
    let (registry, environment) = (Some(&*access.registry), Some(&*access.environment));
    let options = Options::new(registry, environment, token, ClearText::Loopback)?;
    Ok(Harness::connect(options).await?)
}

pub(crate) async fn print(scale: f64) -> Result<()> {
    let cx = Context::new()?;
    let site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    let (mut small, mut bulk) = (Vec::new(), Vec::new());
    for number in 0..SMALL + BULK {
        let harness = connect(&site).await.with_context(|| format!("harness {number}"))?;
        let kind = if number < SMALL { &mut small } else { &mut bulk };
        kind.push(harness);
    }
    let period = Duration::from_secs_f64(PERIOD * scale);
    let (mut idle, mut busy, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    ask(&small, period / 4).await?;
    for _ in 0..TURNS {
        idle.extend(ask(&small, period).await?);
        let moved = Arc::new(AtomicU64::new(0));
        let floods: Vec<_> = bulk
            .iter()
            .map(|harness| AbortOnDropHandle::new(tokio::spawn(flood(harness.clone(), Arc::clone(&moved)))))
            .collect();
        ask(&small, period / 4).await?;
        let (start, before) = (Instant::now(), moved.load(Ordering::Relaxed));
        busy.extend(ask(&small, period).await?);
        rates.push((moved.load(Ordering::Relaxed) - before) as f64 * 1e-6 / start.elapsed().as_secs_f64());
        drop(floods);
        // What was on its way arrives.
        ask(&small, period / 4).await?;
    }
    println!("\n| {SMALL} small streams, {BULK} bulk | p50 ms | p99 ms | bulk MB/s |\n|---|--:|--:|--:|");
    let p99 = [&mut idle, &mut busy].map(|times| quantile(times, 0.99));
    println!("| idle | {:.2} | {:.2} | – |", quantile(&mut idle, 0.5), p99[0]);
    println!(
        "| beside bulk | {:.2} | {:.2} | {:.0} |",
        quantile(&mut busy, 0.5),
        p99[1],
        quantile(&mut rates, 0.5)
    );
    println!("p99 beside bulk / idle: {:.2}", p99[1] / p99[0]);
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

async fn flood(harness: Harness, moved: Arc<AtomicU64>) -> Result<()> {
    let mut process = harness.start(ProcessSpec::new(["cat", "/dev/zero"])).await?;
    while let Some(event) = process.next().await? {
        match event {
            ProcessEvent::Output { bytes, .. } => moved.fetch_add(bytes.len() as u64, Ordering::Relaxed),
            other => bail!("{other:?}"),
        };
    }
    Ok(())
}
