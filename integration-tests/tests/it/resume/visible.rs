//! What can be seen of the extension from outside: nothing of it where a stock peer is at one end.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::model::{Call, Model};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::{self, Version};
use rendezvous_integration_tests::tap::{Sender, Tap};
use rendezvous_integration_tests::{Context, wait};
use rendezvous_wire::frame::{Body, Frame};

use crate::ours;
use crate::runner::{Case, When};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("resume::visible::ours", When::Always, ours_with_ours)];
    for version in Version::ALL {
        let name = |ends: &str| format!("resume::visible::{ends}::{}", End::Stock(version).name());
        cases.push(Case::new(name("stock_harness"), When::Always, move |cx| {
            stock_harness(cx, version)
        }));
        cases.push(Case::new(name("stock_executor"), When::Always, move |cx| {
            stock_executor(cx, version)
        }));
    }
    cases
}

async fn tapped(cx: &Context, executor: End) -> Result<(Site, Tap)> {
    let mut site = Site::start_without_executor(cx, executor, RelayKind::StandAlone).await?;
    let honest = site.relay.as_ref().context("no relay")?.address()?;
    let tap = Tap::listen(honest).await?;
    site.link.lead_to(tap.address());
    site.start_executor().await?;
    Ok((site, tap))
}

/// Whether a frame is one that stock peers do not send. Frames are encoded in one way only.
fn is_extended(frame: &Frame) -> bool {
    frame.ack != 0 || frame.ack_bits != 0 || matches!(frame.body, Body::Ack | Body::Reattach { .. })
}

/// How many frames of this end are extended, and how many there are.
fn extended(frames: &[(Sender, Bytes)], of: Sender) -> Result<(usize, usize)> {
    let mut counts = (0, 0);
    for (sender, bytes) in frames {
        if *sender == of {
            let frame = Frame::decode(bytes.clone())?;
            counts.0 += usize::from(is_extended(&frame));
            counts.1 += 1;
            ensure!(
                is_extended(&frame) || frame.clone().to_bytes() == *bytes,
                "a frame carries what is unknown: {frame:?}"
            );
        }
    }
    Ok(counts)
}

fn nothing_extended(tap: &Tap, of: Sender) -> Result<()> {
    let (extended, all) = extended(&tap.frames(), of)?;
    ensure!(
        extended == 0 && all > 3,
        "{extended} of {all} frames of {of:?} are extended"
    );
    Ok(())
}

async fn stock_harness(cx: Context, version: Version) -> Result<()> {
    let (site, tap) = tapped(&cx, End::Ours).await?;
    let model = Model::play([Call::exec("seq 20000; echo done-$FAR_MARK").into()]).await?;
    let mut harness = site.stock_harness(version, "harness", &model)?;
    stock::finish(&mut harness).await?;
    crate::check::once(&model.output(0, 0)?, "done-only-the-executor-knows")?;
    nothing_extended(&tap, Sender::Executor)
}

async fn stock_executor(cx: Context, version: Version) -> Result<()> {
    let (site, tap) = tapped(&cx, End::Stock(version)).await?;
    let finished = ours::shell(&cx, &site.access(), "seq 20000").await?.success()?;
    ensure!(finished.text().lines().count() == 20_000);
    nothing_extended(&tap, Sender::Harness)
}

/// The same look finds it between our two ends.
async fn ours_with_ours(cx: Context) -> Result<()> {
    let (site, tap) = tapped(&cx, End::Ours).await?;
    let finished = ours::shell(&cx, &site.access(), "seq 20000").await?.success()?;
    ensure!(finished.text().lines().count() == 20_000);
    for end in [Sender::Harness, Sender::Executor] {
        let found = tap
            .wait("an acknowledgement", wait::SOON, |frames| {
                extended(frames, end).ok().filter(|(extended, _)| *extended > 0)
            })
            .await;
        found.with_context(|| format!("of {end:?}"))?;
    }
    Ok(())
}
