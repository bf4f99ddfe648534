//! Our harness as a library, inside the test.

use anyhow::Result;
use rendezvous_harness::options::ClearText;
use rendezvous_harness::{Harness, Options};
use rendezvous_integration_tests::harness::Access;
use rendezvous_wire::secret::Secret;

/// Connects as the command line would, to a registry on loopback.
pub(crate) async fn connect(access: &Access) -> Result<Harness> {
    let options = Options::new(
        Some(&access.registry),
        Some(&access.environment),
        Some(Secret::new(access.token.clone())),
        ClearText::Loopback,
    )?;
    Ok(Harness::connect(options).await?)
}
