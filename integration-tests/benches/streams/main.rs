//! What reliable streams cost, and what they give: throughput with and without the extension, the time in which a stream comes
//! back behind a new relay beside the stock pair's, and what small calls wait for beside bulk.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]
#![expect(clippy::cast_possible_truncation, reason = "sizes and counts are chosen here")]

mod cost;
mod crowd;
mod restart;
mod uplink;

use std::process::ExitCode;

use anyhow::Result;
use rendezvous_integration_tests::bench;

fn main() -> ExitCode {
    match uplink::own_network().and_then(|()| run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn run() -> Result<()> {
    let scale = bench::scale()?;
    if bench::wants("stream-cost") {
        cost::print(scale).await?;
    }
    if bench::wants("stream-crowd") {
        crowd::print(scale).await?;
    }
    if bench::wants("stream-restart") {
        restart::print(scale).await?;
    }
    Ok(())
}
