//! The stock harness on an exec-server that our forwarder makes remote.

use anyhow::Result;
use rendezvous_integration_tests::executor::{self, End};
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::{Context, Program};

use super::{links, tools};

/// An installation whose executor is the forwarder; and the exec-server behind it.
async fn start(cx: &Context, backend: End) -> Result<(Site, Program)> {
    let mut site = Site::start_without_executor(cx, End::Ours, RelayKind::Embedded).await?;
    let (listener, url) = executor::listen(cx, backend, &site.workspace, &site.content).await?;
    site.executor = Some(executor::forward(cx, &site.executor_options(), &url).await?);
    Ok((site, listener))
}

pub(crate) async fn tools(cx: Context, version: Version, backend: End) -> Result<()> {
    let (site, _listener) = start(&cx, backend).await?;
    tools::play_on(&site, version).await
}

/// A link breaks while a command writes: the session at the exec-server goes on.
pub(crate) async fn mid_command(cx: Context, version: Version, backend: End, party: Party) -> Result<()> {
    let (site, _listener) = start(&cx, backend).await?;
    links::mid_command_on(&site, version, party).await
}
