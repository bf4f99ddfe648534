//! Our harness with any executor.

pub(crate) mod bulk;
pub(crate) mod commands;
pub(crate) mod control;
pub(crate) mod files;
pub(crate) mod kept;
pub(crate) mod library;
pub(crate) mod life;
pub(crate) mod links;
pub(crate) mod tools;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::site::Site;
use rendezvous_integration_tests::{Context, Program, wait};

use crate::runner::{Case, When};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "services::killed_executor",
        When::Always,
        life::executor_killed,
    )]
}

/// Runs a shell script at the executor to its end.
pub(crate) async fn shell(cx: &Context, access: &Access, script: &str) -> Result<Finished> {
    Program::run(cx, "harness", access.shell(cx, script)?, b"", wait::SOON * 4).await
}

/// Runs the harness with any arguments and input.
async fn harness(cx: &Context, access: &Access, arguments: &[&str], stdin: &[u8]) -> Result<Finished> {
    let command = access.command(cx, arguments)?;
    Program::run(cx, "harness", command, stdin, wait::SOON * 4).await
}

/// A process on the executor's machine, which shares this machine's process numbers.
struct FarProcess(i32);

/// The process whose number the executor's file `name` holds, once it is there.
async fn far_process(site: &Site, name: &str) -> Result<FarProcess> {
    let path = site.content.join(name);
    let read = || std::fs::read_to_string(&path).ok()?.trim().parse().ok();
    let what = format!("a process number in {name}");
    let number = wait::until(&what, wait::SOON, || std::future::ready(read())).await?;
    let process = FarProcess(number);
    ensure!(process.is_there(), "process {} is not there", process.0);
    Ok(process)
}

impl FarProcess {
    fn is_there(&self) -> bool {
        std::path::Path::new(&format!("/proc/{}", self.0)).exists()
    }

    /// Waits until it has ended, and was reaped.
    async fn gone(&self) -> Result<()> {
        wait::until_true("the end of a process at the executor", wait::SOON, || !self.is_there()).await
    }
}
