//! An executor that comes while a harness's call for a way to it is held.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rendezvous_integration_tests::site::Site;
use rendezvous_integration_tests::wait;

/// How often a slow machine may be late.
pub(crate) const TRIES: usize = 5;
/// Less than the time that a call is held, by what a loaded machine may lose on the way.
const IN_TIME: Duration = Duration::from_millis(3500);

/// Starts the executor once a harness has asked for the way to it once more than `asked` times; says whether it was there
/// in time.
pub(crate) async fn executor(site: &mut Site, asked: usize) -> Result<bool> {
    wait::until_true("a harness's call", wait::SOON, || site.link.connects() > asked).await?;
    let called = Instant::now();
    site.start_executor().await?;
    Ok(called.elapsed() < IN_TIME)
}

/// The one call was enough: harnesses that are answered at once ask again, or give up.
pub(crate) fn held(site: &Site, asked: usize) -> Result<()> {
    let calls = site.link.connects() - asked;
    ensure!(calls == 1, "the harness asked {calls} times for the way");
    Ok(())
}

pub(crate) fn never_in_time() -> Result<()> {
    bail!("no executor was there within {IN_TIME:?} in {TRIES} tries")
}
