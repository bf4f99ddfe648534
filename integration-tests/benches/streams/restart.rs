//! The relay dies while a command writes, and another one takes its place: how long until its output goes on, with our two ends
//! and with the stock ones.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rendezvous_integration_tests::bench::quantile;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::model::{Call, Model};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::tap::{Sender, Tap};
use rendezvous_integration_tests::{Context, Program, wait};
use rendezvous_wire::frame::{Body, Frame};

/// Writes without end, a little at a time.
const WRITER: &str = "touch started; while [ ! -e go ]; do echo line; sleep 0.01; done";
/// Restarts of each pair at scale 1.
const RESTARTS: f64 = 11.0;
/// A stock executor waits for up to half a minute before it dials again.
const LONGEST: Duration = Duration::from_secs(90);

pub(crate) async fn print(scale: f64) -> Result<()> {
    let rounds = (RESTARTS * scale).ceil() as usize;
    let stock = End::Stock(Version::V0_171);
    let mut ends = vec![(End::Ours, Vec::new())];
    match Version::V0_171.binary() {
        Ok(_) => ends.push((stock, Vec::new())),
        Err(error) => println!("left out: {error:#}"),
    }
    for _ in 0..rounds {
        for (end, times) in &mut ends {
            let cx = Context::new()?;
            let time = restart(&cx, *end).await;
            times.push(time.with_context(|| cx.report())?.as_secs_f64());
        }
    }
    println!("\n| pair | restarts | first byte: median s | least s | most s |\n|---|--:|--:|--:|--:|");
    for (end, mut times) in ends {
        println!(
            "| {} | {} | {:.2} | {:.2} | {:.2} |",
            end.name(),
            times.len(),
            quantile(&mut times, 0.5),
            quantile(&mut times, 0.0),
            quantile(&mut times, 1.0)
        );
    }
    Ok(())
}

/// From the moment that the new relay listens to the first record of the executor behind it. Of the stock executor that is its answer to
/// `initialize`, of ours it is output.
async fn restart(cx: &Context, end: End) -> Result<Duration> {
    let mut site = Site::start_without_executor(cx, end, RelayKind::StandAlone).await?;
    let tap = Tap::listen(site.relay.as_ref().context("no relay")?.address()?).await?;
    site.link.lead_to(tap.address());
    site.start_executor().await?;
    let model = Model::play([Call::exec(WRITER).into()]).await?;
    let _harness = match end {
        End::Ours => {
            let script = format!("cd {}; {WRITER}", site.workspace.display());
            Program::start(cx, "harness", site.access().shell(cx, &script)?)?
        }
        End::Stock(version) => site.stock_harness(version, "harness", &model)?,
    };
    site.far_file("started", wait::SOON).await?;
    let (mut old, before) = (site.relay.take().context("no relay")?, tap.frames().len());
    tap.wait("output", wait::SOON, |frames| {
        (frames.len() > before + 20).then_some(())
    })
    .await?;
    old.program.kill().await?;
    let known = tap.frames().len();
    site.start_relay().await?;
    let start = Instant::now();
    tap.lead_to(site.relay.as_ref().context("no relay")?.address()?);
    site.link.lead_to(tap.address());
    tap.wait("a record", LONGEST, |frames| {
        let new = frames.get(known..).unwrap_or_default();
        new.iter().find(|(sender, frame)| {
            *sender == Sender::Executor
                && Frame::decode(frame.clone()).is_ok_and(|frame| matches!(frame.body, Body::Data { .. }))
        })?;
        Some(())
    })
    .await?;
    Ok(start.elapsed())
}
