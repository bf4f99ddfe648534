//! Our executor beside the stock one, each behind its own WebSocket listener, asked by the same client. See
//! `executor/README.md` for the figures.
//!
//! The servers take turns, and each figure is the median of the turns.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]

mod client;
mod measure;
mod socket;
mod table;

use std::process::ExitCode;

use rendezvous_integration_tests::exec_server::{ExecServer, Over};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::{Context, bench};

use measure::{Figures, Workload};

/// Turns of each server.
const TURNS: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let scale = bench::scale()?;
    if !bench::wants("exec-server") {
        return Ok(());
    }
    let cx = Context::new()?;
    let result = compare(&cx, &Workload::scaled(scale)).await;
    if result.is_err() {
        eprint!("{}", cx.report());
    }
    result
}

async fn compare(cx: &Context, workload: &Workload) -> anyhow::Result<()> {
    let mut servers = Vec::new();
    for end in [End::Ours, End::Stock(Version::V0_171)] {
        if let End::Stock(version) = end
            && let Err(error) = version.binary()
        {
            println!("left out: {error:#}");
            continue;
        }
        servers.push((ExecServer::start(cx, end, Over::WebSocket, &[]).await?, Vec::new()));
    }
    for turn in 1..=TURNS {
        for (server, turns) in &mut servers {
            let figures = measure::all(server, workload).await?;
            println!("turn {turn} of {TURNS}, {}: {figures}", server.end().name());
            turns.push(figures);
        }
    }
    let columns: Vec<(String, Figures)> = servers
        .iter()
        .map(|(server, turns)| (server.end().name(), Figures::median(turns)))
        .collect();
    print!("\n{}", table::render(&columns));
    Ok(())
}
