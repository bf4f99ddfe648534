//! The relay against other forwarders, all in one run: see `relay/README.md` for the figures.
//!
//! Every forwarder runs in a process of its own, so that its CPU time and memory can be told from the load generator's.
//! Payloads are masked with random masks before the clock starts, and are neither looked at nor unmasked by the receivers.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "sizes and counts are chosen here and small"
)]
#![expect(
    clippy::unwrap_in_result,
    reason = "a panic of a load generator's thread ends the run"
)]

mod client;
mod forwarders;
mod iroh;
mod measure;
mod peers;
mod perf;
mod registry;
mod window;

use std::process::ExitCode;

use rendezvous_integration_tests::bench;

use peers::{Forwarder, Kind};

/// Turns that each forwarder gets with each load; the machine is faster at one time than at another.
const ROUNDS: usize = 5;

/// What one forwarder reached; `None` where a workload does not apply.
#[derive(Default)]
struct Row {
    name: String,
    bulk: measure::Rounds,
    small: measure::Rounds,
    trip: Option<(f64, f64)>,
    mixed: Option<measure::Mixed>,
    idle: Option<f64>,
    idle_tls: Option<f64>,
    accepts: Option<f64>,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    if let Some(role) = arguments.next() {
        // A forwarder, started by ourselves.
        return forwarders::serve(&role, arguments);
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    peers::raise_file_limit()?;
    let scale = bench::scale()?;
    let mut rows = Vec::new();
    for kind in [Kind::Copy, Kind::Haproxy, Kind::Naive, Kind::Iroh, Kind::Relay] {
        if !bench::wants(kind.name()) {
            continue;
        }
        if kind == Kind::Haproxy && !peers::has_haproxy() {
            println!("haproxy is not installed: left out");
            continue;
        }
        if kind == Kind::Iroh && iroh::binary().is_none() {
            println!("iroh-relay is not there: left out");
            continue;
        }
        let row = Row {
            name: kind.name().to_owned(),
            ..Row::default()
        };
        rows.push((Forwarder::start(kind, false)?, row));
    }
    if rows.is_empty() {
        return Ok(());
    }
    forward(&mut rows, scale)?;
    let rows = rows
        .into_iter()
        .map(|(forwarder, row)| {
            let kind = forwarder.kind;
            drop(forwarder);
            let row = connections(kind, row, scale)?;
            print(&row);
            Ok(row)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    println!(
        "\n| forwarder | 60 KiB Gbit/s | CPU s/GB | 1200 B k/s | CPU µs/frame | 200 B p50 µs | p99 µs | kB/idle | kB/idle TLS | connections/s |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    rows.iter().for_each(table);
    Ok(())
}

/// Whatever passes frames, all forwarders in turn.
fn forward(rows: &mut [(Forwarder, Row)], scale: f64) -> anyhow::Result<()> {
    let share = scale / ROUNDS as f64;
    for _ in 0..ROUNDS {
        for (forwarder, row) in &mut *rows {
            row.bulk
                .push(measure::throughput(forwarder, 60 * 1024, (5e9 * share) as u64)?);
        }
        for (forwarder, row) in &mut *rows {
            row.small
                .push(measure::throughput(forwarder, 1200, (1.25e9 * share) as u64)?);
        }
    }
    for (forwarder, row) in rows {
        row.trip = Some(measure::round_trips(forwarder, 200, (10_000.0 * scale) as usize)?);
        if forwarder.kind == Kind::Relay {
            row.mixed = Some(measure::mixed(forwarder, 64, (1e9 * scale) as u64)?);
        }
    }
    Ok(())
}

/// What connections cost, each time with a fresh forwarder.
fn connections(kind: Kind, mut row: Row, scale: f64) -> anyhow::Result<Row> {
    if kind != Kind::Copy && kind != Kind::Haproxy {
        row.accepts = Some(measure::accepts(
            &mut Forwarder::start(kind, false)?,
            (4000.0 * scale) as usize,
        )?);
        row.idle = Some(measure::idle(&mut Forwarder::start(kind, false)?, 2000)?);
    }
    if kind == Kind::Relay {
        row.idle_tls = Some(measure::idle(&mut Forwarder::start(kind, true)?, 1000)?);
    }
    Ok(row)
}

fn print(row: &Row) {
    println!("{}", row.name);
    println!("  60 KiB, one stream: {}", row.bulk);
    println!("  1200 B, one stream: {}", row.small);
    if let Some((p50, p99)) = row.trip {
        println!("  200 B there and back: p50 {p50:.0} us, p99 {p99:.0} us");
    }
    if let Some(mixed) = &row.mixed {
        println!("  64 streams, 90 % small: {mixed}");
    }
    if let Some(idle) = row.idle {
        println!("  idle executor connection: {idle:.1} kB");
    }
    if let Some(idle) = row.idle_tls {
        println!("  idle executor connection, TLS: {idle:.1} kB");
    }
    if let Some(accepts) = row.accepts {
        println!("  connections: {accepts:.0}/s");
    }
}

fn table(row: &Row) {
    let cell =
        |value: Option<f64>, digits: usize| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"));
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        row.name,
        cell(row.bulk.median(measure::Throughput::gbit), 1),
        cell(row.bulk.median(measure::Throughput::cpu_per_gb), 3),
        cell(row.small.median(|small| small.rate() / 1000.0), 0),
        cell(row.small.median(measure::Throughput::cpu_per_frame), 2),
        cell(row.trip.map(|trip| trip.0), 0),
        cell(row.trip.map(|trip| trip.1), 0),
        cell(row.idle, 1),
        cell(row.idle_tls, 1),
        cell(row.accepts, 0),
    );
}
