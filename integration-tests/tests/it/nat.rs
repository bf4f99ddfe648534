//! The main job: an executor and a harness behind NAT, TLS everywhere, and a relay that learns nothing.

mod blind;
mod town;
mod work;

use anyhow::{Context as _, Result};
use rendezvous_integration_tests::Context;

use crate::runner::{Case, When};
use town::Town;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("nat::work_through_a_blind_relay", When::Always, behind_nat)]
}

async fn behind_nat(cx: Context) -> Result<()> {
    let town = Town::build(&cx).await?;
    let secrets = work::Secrets::new();
    town.no_port_is_open().await.context("before the work")?;
    work::exit_codes(&town, &secrets).await.context("exit codes")?;
    work::signals(&town).await.context("signals")?;
    work::terminal(&town, &secrets).await.context("terminal")?;
    work::interrupt(&town).await.context("Ctrl-C")?;
    work::bulk(&town, &secrets).await.context("bulk")?;
    town.no_port_is_open().await.context("after the work")?;
    blind::relay_saw_nothing(town, &secrets).await.context("blind relay")
}
