//! Commands from end to end: `harness` through our relay, to our executor and to the stock one, and `ssh` beside them.
//! See `relay/README.md` for the figures.
//!
//! Everything runs on loopback and in processes of its own. A command's bytes are counted at the far end of a pipe.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]
#![expect(clippy::cast_possible_truncation, reason = "sizes and counts are chosen here")]

mod connected;
mod measure;
mod ssh;

use std::process::ExitCode;

use anyhow::Context as _;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::installation::Installation;
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::{Context, bench};

use measure::{Row, Way};
use ssh::Server;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let result = match arguments.next().as_deref() {
        // A client, started by ourselves.
        Some(connected::ROLE) => connected::run(arguments.next().as_deref()),
        Some(role) => Err(anyhow::anyhow!("unknown role {role}")),
        None => run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(worker_threads = 1)]
async fn run() -> anyhow::Result<()> {
    let scale = bench::scale()?;
    let cx = Context::new()?;
    let result = rows(&cx, scale).await;
    if result.is_err() {
        eprint!("{}", cx.report());
    }
    let rows = result?;
    if rows.is_empty() {
        return Ok(());
    }
    println!("\n{}", Row::HEAD);
    rows.iter().for_each(|row| println!("{row}"));
    Ok(())
}

async fn rows(cx: &Context, scale: f64) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let ends = [("ours", End::Ours), ("stock", End::Stock(Version::V0_171))];
    let ends: Vec<_> = ends.into_iter().filter(|(name, _)| bench::wants(name)).collect();
    if !ends.is_empty() {
        let installation = Installation::start(cx).await?;
        for (name, end) in ends {
            if let End::Stock(version) = end
                && let Err(error) = version.binary()
            {
                println!("left out: {error:#}");
                continue;
            }
            let executor = installation.executor(cx, name, end).await?;
            let way = Way::Harness(installation.access(name));
            rows.push(measure::all(&format!("harness, executor {}", end.name()), &way, scale)?);
            println!(
                "  CPU seconds so far: executor {:.2}, relay {:.2}",
                measure::cpu(executor.id())?,
                measure::cpu(installation.relay.program.id())?
            );
        }
    }
    if bench::wants("ssh") {
        match Server::start(cx).await.context("sshd") {
            Ok(server) => {
                for (name, way) in server.ways(cx)? {
                    rows.push(measure::all(name, &way, scale)?);
                }
            }
            Err(error) => println!("left out: {error:#}"),
        }
    }
    Ok(rows)
}
