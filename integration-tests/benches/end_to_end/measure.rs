//! The workloads, the same for every way to a command.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rendezvous_integration_tests::binaries;
use rendezvous_integration_tests::harness::Access;

use crate::connected;

/// Bytes per read and write of the commands and of ourselves.
const CHUNK: usize = 64 * 1024;

/// How a command is reached.
pub(crate) enum Way {
    /// Our harness.
    Harness(Access),
    /// `ssh` with these arguments before the command.
    Ssh { program: PathBuf, arguments: Vec<String> },
}

impl Way {
    /// A process that runs `command`, words without spaces, at the far end.
    fn command(&self, command: &[&str]) -> anyhow::Result<Command> {
        match self {
            Self::Harness(access) => {
                let mut harness = Command::new(binaries::ours("harness")?);
                harness
                    .args(["run", "--"])
                    .args(command)
                    .env("CODEX_EXEC_SERVER_NOISE_REGISTRY_URL", &access.registry)
                    .env("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", &access.environment)
                    .env("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", &access.token);
                Ok(harness)
            }
            Self::Ssh { program, arguments } => {
                let mut ssh = Command::new(program);
                ssh.args(arguments).args(command);
                Ok(ssh)
            }
        }
    }
}

/// Milliseconds.
pub(crate) struct Quantiles {
    p50: f64,
    p99: f64,
}

impl Quantiles {
    pub(crate) fn of(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
        Self {
            p50: at(0.5),
            p99: at(0.99),
        }
    }
}

/// Many bytes through one command.
struct Bulk {
    bytes: u64,
    time: Duration,
    /// CPU seconds of the client.
    cpu: f64,
}

impl Bulk {
    fn rate(&self) -> f64 {
        self.bytes as f64 * 1e-6 / self.time.as_secs_f64()
    }
}

impl fmt::Display for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_gb = self.cpu / (self.bytes as f64 * 1e-9);
        write!(f, "{:.0} MB/s, the client's CPU {per_gb:.2} s/GB", self.rate())
    }
}

/// What one way reached.
pub(crate) struct Row {
    name: String,
    output: Bulk,
    input: Bulk,
    connected: Option<Quantiles>,
    whole: Quantiles,
}

impl Row {
    pub(crate) const HEAD: &str = "| way | output MB/s | stdin MB/s | `true`, connected: p50 ms | p99 ms | \
        `true`, whole program: p50 ms | p99 ms |\n|---|--:|--:|--:|--:|--:|--:|";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected = match &self.connected {
            Some(times) => format!("{:.2} | {:.2}", times.p50, times.p99),
            None => "– | –".to_owned(),
        };
        write!(
            f,
            "| {} | {:.0} | {:.0} | {connected} | {:.1} | {:.1} |",
            self.name,
            self.output.rate(),
            self.input.rate(),
            self.whole.p50,
            self.whole.p99
        )
    }
}

/// All workloads over one way; 1 GiB each and hundreds of commands at scale 1.
pub(crate) fn all(name: &str, way: &Way, scale: f64) -> anyhow::Result<Row> {
    tokio::task::block_in_place(|| {
        println!("{name}");
        let bytes = ((1_u64 << 30) as f64 * scale) as u64 / CHUNK as u64 * CHUNK as u64;
        let output = output(way, bytes)?;
        println!("  output: {output}");
        let input = input(way, bytes)?;
        println!("  stdin: {input}");
        let connected = match way {
            Way::Harness(access) => Some(connected::measure(access, (300.0 * scale) as usize + 10)?),
            Way::Ssh { .. } => None,
        };
        if let Some(times) = &connected {
            println!(
                "  true in one session: p50 {:.2} ms, p99 {:.2} ms",
                times.p50, times.p99
            );
        }
        let whole = whole(way, (50.0 * scale) as usize + 5)?;
        println!(
            "  true, whole program: p50 {:.1} ms, p99 {:.1} ms",
            whole.p50, whole.p99
        );
        Ok(Row {
            name: name.to_owned(),
            output,
            input,
            connected,
            whole,
        })
    })
}

fn output(way: &Way, bytes: u64) -> anyhow::Result<Bulk> {
    let count = format!("count={}", bytes / CHUNK as u64);
    let size = format!("bs={CHUNK}");
    let mut command = way.command(&["dd", "if=/dev/zero", &size, &count, "status=none"])?;
    let cpu = children()?;
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut stdout = child.stdout.take().context("stdout")?;
    let mut buffer = vec![0; CHUNK];
    let mut received = 0;
    while let count @ 1.. = stdout.read(&mut buffer)? {
        received += count as u64;
    }
    let status = child.wait()?;
    let time = start.elapsed();
    ensure!(status.success(), "the command failed: {status}");
    ensure!(received == bytes, "{received} bytes arrived instead of {bytes}");
    let cpu = children()? - cpu;
    Ok(Bulk { bytes, time, cpu })
}

fn input(way: &Way, bytes: u64) -> anyhow::Result<Bulk> {
    let mut command = way.command(&["wc", "-c"])?;
    let cpu = children()?;
    let start = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("stdin")?;
    let block = vec![0; CHUNK];
    for _ in 0..bytes / CHUNK as u64 {
        stdin.write_all(&block)?;
    }
    drop(stdin);
    let mut told = String::new();
    child.stdout.take().context("stdout")?.read_to_string(&mut told)?;
    let status = child.wait()?;
    let time = start.elapsed();
    ensure!(status.success(), "the command failed: {status}");
    ensure!(
        told.trim() == bytes.to_string(),
        "{told:?} bytes arrived instead of {bytes}"
    );
    let cpu = children()? - cpu;
    Ok(Bulk { bytes, time, cpu })
}

/// `true` from the start of our program to its end.
fn whole(way: &Way, count: usize) -> anyhow::Result<Quantiles> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let mut command = way.command(&["true"])?;
        let start = Instant::now();
        let status = command.stdin(Stdio::null()).status()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(status.success(), "true failed: {status}");
    }
    Ok(Quantiles::of(times))
}

/// CPU seconds of the children that ended.
fn children() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let spent = usage.user_time() + usage.system_time();
    Ok(spent.num_microseconds() as f64 * 1e-6)
}

/// CPU seconds of a running process.
pub(crate) fn cpu(process: i32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(") ").context("stat")?.1.split(' ').collect();
    // utime and stime, in ticks of 10 ms.
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}
