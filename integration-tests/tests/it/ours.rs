//! Our harness with any executor.

pub(crate) mod bulk;
pub(crate) mod files;
pub(crate) mod life;
pub(crate) mod links;
pub(crate) mod tools;

use anyhow::Result;
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::{Context, Program, wait};

/// Runs a shell script at the executor to its end.
pub(crate) async fn shell(cx: &Context, access: &Access, script: &str) -> Result<Finished> {
    Program::run(cx, "harness", access.shell(cx, script)?, b"", wait::SOON * 4).await
}

/// Runs the harness with any arguments and input.
async fn harness(cx: &Context, access: &Access, arguments: &[&str], stdin: &[u8]) -> Result<Finished> {
    let command = access.command(cx, arguments)?;
    Program::run(cx, "harness", command, stdin, wait::SOON * 4).await
}
