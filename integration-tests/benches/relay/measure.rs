//! The workloads.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rendezvous_integration_tests::bench::quantile;
use rendezvous_wire::ticket::Role;

use crate::client::{connect, data, masked, read_frame};
use crate::peers::{Forwarder, Kind, Opening};
use crate::perf::Perf;
use crate::window::Window;

/// Bytes that are prepared before the clock starts and written again and again.
const BLOCK: usize = 1 << 20;
/// Frames under way at most; `iroh-relay` drops what is beyond 512 for one receiver.
const WINDOW: usize = 128;

/// One stream, one direction.
pub(crate) struct Throughput {
    payload: u64,
    frames: u64,
    time: Duration,
    cpu: f64,
}

impl Throughput {
    pub(crate) fn gbit(&self) -> f64 {
        self.payload as f64 * 8e-9 / self.time.as_secs_f64()
    }

    pub(crate) fn rate(&self) -> f64 {
        self.frames as f64 / self.time.as_secs_f64()
    }

    pub(crate) fn cpu_per_gb(&self) -> f64 {
        self.cpu / (self.payload as f64 * 1e-9)
    }

    pub(crate) fn cpu_per_frame(&self) -> f64 {
        self.cpu * 1e6 / self.frames as f64
    }
}

impl fmt::Display for Throughput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} Gbit/s, {:.0} frames/s, {:.3} CPU s/GB, {:.2} CPU us/frame",
            self.gbit(),
            self.rate(),
            self.cpu_per_gb(),
            self.cpu_per_frame()
        )
    }
}

/// The same load, several times, with other forwarders' turns between.
#[derive(Default)]
pub(crate) struct Rounds(Vec<Throughput>);

impl Rounds {
    pub(crate) fn push(&mut self, round: Throughput) {
        self.0.push(round);
    }

    /// The median round by `figure`, if there was one.
    pub(crate) fn median(&self, figure: impl Fn(&Throughput) -> f64) -> Option<f64> {
        let mut figures: Vec<f64> = self.0.iter().map(figure).collect();
        (!figures.is_empty()).then(|| quantile(&mut figures, 0.5))
    }
}

impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|round| write!(f, "\n    {round}"))
    }
}

/// How many bytes a masked frame loses on its way through a WebSocket forwarder.
fn lost(kind: Kind) -> usize {
    match kind {
        Kind::Copy | Kind::Haproxy => 0,
        Kind::Naive | Kind::Iroh | Kind::Relay => 4,
    }
}

/// Frames of `size` bytes from harness to executor, `total` bytes in all.
pub(crate) fn throughput(forwarder: &mut Forwarder, size: usize, total: u64) -> anyhow::Result<Throughput> {
    let mut pair = forwarder.pair()?;
    let payload = pair.to_executor.message(size);
    let per_block = (BLOCK / size).clamp(1, WINDOW / 2);
    let block: Vec<u8> = (0..per_block).flat_map(|seed| masked(&payload, seed as u32)).collect();
    let blocks = total.div_ceil((per_block * size) as u64).max(1);
    let frames = blocks * per_block as u64;
    let arriving = (block.len() - per_block * lost(forwarder.kind)) as u64;
    let window = Arc::new(Window::new((WINDOW / per_block) as u64 * arriving));
    let perf = Perf::start(forwarder.process())?;
    let cpu = forwarder.cpu()?;
    let start = Instant::now();
    let mut harness = pair.harness;
    let credit = window.clone();
    let sending = thread::spawn(move || -> anyhow::Result<TcpStream> {
        for _ in 0..blocks {
            credit.take(arriving);
            harness.write_all(&block)?;
        }
        Ok(harness)
    });
    receive(&mut pair.executor, arriving * blocks, sending.thread(), &window)?;
    let time = start.elapsed();
    let cpu = forwarder.cpu()? - cpu;
    sending.join().expect("the sender")?;
    if let Some(perf) = perf {
        perf.finish(frames)?;
    }
    Ok(Throughput {
        payload: frames * size as u64,
        frames,
        time,
        cpu,
    })
}

fn receive(stream: &mut TcpStream, expected: u64, sender: &Thread, window: &Window) -> anyhow::Result<()> {
    let mut buffer = vec![0; 512 * 1024];
    let mut received = 0;
    while received < expected {
        let count = stream.read(&mut buffer)?;
        ensure!(count > 0, "the connection ended after {received} of {expected} bytes");
        received += count as u64;
        window.give(count as u64, sender);
    }
    // A ping may come between.
    ensure!(received <= expected + 64, "{received} bytes instead of {expected}");
    Ok(())
}

/// Round trips of one frame of `size` bytes: p50 and p99 in microseconds.
pub(crate) fn round_trips(forwarder: &mut Forwarder, size: usize, count: usize) -> anyhow::Result<(f64, f64)> {
    let pair = forwarder.pair()?;
    let message = masked(&pair.to_executor.message(size), 5);
    let echo = masked(&pair.to_harness.message(size), 6);
    let (mut harness, mut executor) = (pair.harness, pair.executor);
    let echoing = thread::spawn(move || -> anyhow::Result<()> {
        for _ in 0..count {
            read_frame(&mut executor)?;
            executor.write_all(&echo)?;
        }
        Ok(())
    });
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        harness.write_all(&message)?;
        read_frame(&mut harness)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    echoing.join().expect("the echo")?;
    Ok((quantile(&mut times, 0.5), quantile(&mut times, 0.99)))
}

/// Many streams at once.
pub(crate) struct Mixed {
    all: Throughput,
    /// Jain's index over the streams' rates: 1 when all are equal.
    fairness: f64,
    p50: f64,
    p99: f64,
}

impl fmt::Display for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, fairness {:.3}, 200 B there and back beside it p50 {:.0} us, p99 {:.0} us",
            self.all, self.fairness, self.p50, self.p99
        )
    }
}

/// `streams` harnesses send nine frames of 200 bytes for each of 60 KiB to one executor; beside them, one more stream
/// measures round trips.
pub(crate) fn mixed(forwarder: &mut Forwarder, streams: usize, total: u64) -> anyhow::Result<Mixed> {
    let (executor, mut harnesses) = forwarder.pairs(streams + 1)?;
    let (probe_id, mut probe) = harnesses.pop().context("a stream")?;
    let probe_frame = data(&probe_id, 200);
    let probe_message = masked(&probe_frame, 5);
    let stop = Arc::new(AtomicUsize::new(0));
    let cpu = forwarder.cpu()?;
    let start = Instant::now();
    for (id, harness) in &harnesses {
        let (small, large) = (data(id, 200), data(id, 60 * 1024));
        let mut block = Vec::new();
        for round in 0..8 {
            (0..9).for_each(|seed| block.extend(masked(&small, seed + round)));
            block.extend(masked(&large, round));
        }
        let mut harness = harness.try_clone()?;
        let stop = stop.clone();
        thread::spawn(move || while stop.load(Ordering::Relaxed) == 0 && harness.write_all(&block).is_ok() {});
    }
    let (told, trips) = std::sync::mpsc::channel();
    let probing = {
        let (message, stop) = (probe_message.clone(), stop.clone());
        thread::spawn(move || {
            while stop.load(Ordering::Relaxed) == 0 {
                let start = Instant::now();
                if probe.write_all(&message).is_err() || read_frame(&mut probe).is_err() {
                    break;
                }
                let _ = told.send(start.elapsed().as_secs_f64() * 1e6);
                thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let mut reader = std::io::BufReader::with_capacity(512 * 1024, executor.try_clone()?);
    let mut writer = executor;
    let mut per_stream = std::collections::HashMap::<Vec<u8>, u64>::new();
    let (mut bytes, mut frames) = (0, 0);
    while bytes < total {
        let frame = read_frame(&mut reader)?;
        // version, then the stream's id of 36 bytes.
        let id = frame.get(4..40).context("a frame with an id")?;
        if id == probe_id.as_bytes() {
            writer.write_all(&probe_message)?;
            continue;
        }
        bytes += frame.len() as u64;
        frames += 1;
        *per_stream.entry(id.to_vec()).or_default() += frame.len() as u64;
    }
    let time = start.elapsed();
    let cpu = forwarder.cpu()? - cpu;
    stop.store(1, Ordering::Relaxed);
    let mut times: Vec<f64> = trips.try_iter().collect();
    ensure!(!times.is_empty(), "the probe never came back");
    let _ = writer.shutdown(std::net::Shutdown::Both);
    let _ = probing.join();
    let rates: Vec<f64> = per_stream.values().map(|bytes| *bytes as f64).collect();
    let (sum, squares) = (
        rates.iter().sum::<f64>(),
        rates.iter().map(|rate| rate * rate).sum::<f64>(),
    );
    Ok(Mixed {
        all: Throughput {
            payload: bytes,
            frames,
            time,
            cpu,
        },
        fairness: sum * sum / (streams as f64 * squares),
        p50: quantile(&mut times, 0.5),
        p99: quantile(&mut times, 0.99),
    })
}

/// Resident kB per idle executor connection.
pub(crate) fn idle(forwarder: &mut Forwarder, count: usize) -> anyhow::Result<f64> {
    // What is needed once is there before the first measure.
    let warm: Vec<_> = (0..50)
        .map(|i| {
            let opening = forwarder.opening(Role::Executor, &format!("warm{i}"))?;
            forwarder.idle(&opening)
        })
        .collect::<anyhow::Result<_>>()?;
    let before = forwarder.memory()?;
    let sockets: Vec<_> = (0..count)
        .map(|i| {
            let opening = forwarder.opening(Role::Executor, &format!("idle{i}"))?;
            forwarder.idle(&opening)
        })
        .collect::<anyhow::Result<_>>()?;
    thread::sleep(Duration::from_secs(1));
    let after = forwarder.memory()?;
    drop((warm, sockets));
    Ok((after - before) / count as f64)
}

/// Executor connections per second, 32 at a time, tickets and keys made beforehand.
pub(crate) fn accepts(forwarder: &mut Forwarder, count: usize) -> anyhow::Result<f64> {
    let openings: Vec<Opening> = (0..count)
        .map(|i| forwarder.opening(Role::Executor, &format!("accept{i}")))
        .collect::<anyhow::Result<_>>()?;
    let address = forwarder.address();
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..32)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    while let Some(opening) = openings.get(next.fetch_add(1, Ordering::Relaxed)) {
                        drop(opening.over(connect(address)?)?);
                    }
                    Ok(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker"))
    })?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
