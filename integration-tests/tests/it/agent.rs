//! The stock harness with any executor, driven by a scripted model.

pub(crate) mod code;
pub(crate) mod forward;
pub(crate) mod life;
pub(crate) mod links;
pub(crate) mod network;
pub(crate) mod sandbox;
pub(crate) mod tools;

use anyhow::Result;
use rendezvous_integration_tests::model::{Model, Turn};
use rendezvous_integration_tests::site::Site;
use rendezvous_integration_tests::stock::{self, Version};

/// Plays a script from begin to end and checks that nothing touched the harness's machine.
async fn play(site: &Site, version: Version, script: impl IntoIterator<Item = Turn>) -> Result<Model> {
    let model = Model::play(script).await?;
    let mut harness = site.stock_harness(version, "harness", &model)?;
    stock::finish(&mut harness).await?;
    site.near_is_untouched()?;
    Ok(model)
}
