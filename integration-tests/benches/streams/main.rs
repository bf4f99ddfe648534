//! What reliable streams cost, and what they give: throughput with and without the extension, the time in which a stream comes
//! back behind a new relay beside the stock pair's, and what small calls wait for beside bulk.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]
#![expect(clippy::cast_possible_truncation, reason = "sizes and counts are chosen here")]

mod cost;
mod crowd;
mod restart;

use std::process::ExitCode;

use anyhow::Result;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn wanted(name: &str) -> bool {
    match std::env::var("BENCH_ONLY") {
        Ok(only) => only.split(',').any(|wanted| wanted == name),
        Err(_) => true,
    }
}

#[tokio::main(worker_threads = 2)]
async fn run() -> Result<()> {
    let scale: f64 = std::env::var("BENCH_SCALE")
        .ok()
        .and_then(|scale| scale.parse().ok())
        .unwrap_or(1.0);
    if wanted("stream-cost") {
        cost::print(scale).await?;
    }
    if wanted("stream-crowd") {
        crowd::print(scale).await?;
    }
    if wanted("stream-restart") {
        restart::print(scale).await?;
    }
    Ok(())
}

/// The value below which this part of them lies.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}
