//! The stock harness while links break. Nothing may be lost or repeated.

use anyhow::Result;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::model::{Call, Model};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::{self, Version};
use rendezvous_integration_tests::{Context, wait};

use crate::check;

/// Writes numbered lines until the test lets it end, then says how many. It is well under way before it says so: a call
/// that starts a process is not repeated when its answer is lost.
pub(crate) const COUNTER: &str = "i=0; until [ -e go ]; do i=$((i+1)); echo line-$i; \
    [ $i != 25 ] || touch started; sleep 0.02; done; echo last-$i; exit 7";

/// A link breaks between two commands.
pub(crate) async fn idle(cx: Context, version: Version, executor: End, party: Party) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let model = Model::play([
        Call::exec("echo kept > file; echo one").into(),
        rendezvous_integration_tests::model::Turn::from(Call::exec("cat file; echo two-$FAR_MARK")).gated(),
    ])
    .await?;
    let mut harness = site.stock_harness(version, "harness", &model)?;
    model.reached(1, wait::SOON).await?;
    let before = site.link.upgraded(Party::Harness);
    site.link.cut(party);
    site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    model.release(1);
    stock::finish(&mut harness).await?;
    check::once(&model.output(0, 0)?, "one")?;
    let second = model.output(1, 0)?;
    check::once(&second, "kept")?;
    check::once(&second, "two-only-the-executor-knows")?;
    site.near_is_untouched()
}

/// A link breaks while a command writes.
pub(crate) async fn mid_command(cx: Context, version: Version, executor: End, party: Party) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    mid_command_on(&site, version, party).await
}

/// The same on an installation that runs already.
pub(crate) async fn mid_command_on(site: &Site, version: Version, party: Party) -> Result<()> {
    let model = Model::play([Call::exec(COUNTER).into()]).await?;
    let mut harness = site.stock_harness(version, "harness", &model)?;
    site.far_file("started", wait::SOON).await?;
    let before = site.link.upgraded(Party::Harness);
    site.link.cut(party);
    site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    std::fs::write(site.content.join("go"), "")?;
    stock::finish(&mut harness).await?;
    finished_whole(&model)?;
    site.near_is_untouched()
}

/// How a relay ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayEnd {
    /// Its process dies.
    Killed,
    /// It is asked to stop, with its successor there already.
    Drained,
    /// The registry that it is a part of is asked to stop, and started again.
    DrainedWithRegistry,
}

impl RelayEnd {
    pub(crate) fn kind(self) -> RelayKind {
        match self {
            Self::Killed | Self::Drained => RelayKind::StandAlone,
            Self::DrainedWithRegistry => RelayKind::Embedded,
        }
    }

    pub(crate) async fn happen(self, site: &mut Site) -> Result<()> {
        match self {
            Self::Killed => site.restart_relay().await,
            Self::Drained => site.drain_relay().await,
            Self::DrainedWithRegistry => site.restart_registry().await,
        }
    }
}

/// A relay ends while a command writes, and another one takes its place.
pub(crate) async fn relay_gone(cx: Context, version: Version, executor: End, end: RelayEnd) -> Result<()> {
    let mut site = Site::start(&cx, executor, end.kind()).await?;
    let model = Model::play([Call::exec(COUNTER).into()]).await?;
    let mut harness = site.stock_harness(version, "harness", &model)?;
    site.far_file("started", wait::SOON).await?;
    let before = site.link.upgraded(Party::Harness);
    match end {
        // A stock harness takes a connection that is refused for the end of its session: it rests while nobody listens.
        RelayEnd::DrainedWithRegistry => site.restart_registry_unseen(&harness).await?,
        _ => end.happen(&mut site).await?,
    }
    site.link.wait_upgraded(Party::Harness, before + 1, wait::SOON).await?;
    std::fs::write(site.content.join("go"), "")?;
    stock::finish(&mut harness).await?;
    finished_whole(&model)?;
    site.near_is_untouched()
}

fn finished_whole(model: &Model) -> Result<()> {
    let output = model.output(0, 0)?;
    check::complete_lines(&output)?;
    check::contains(&output, "exited with code 7")
}
