//! `BENCH_PERF=1`: system calls and functions of a forwarder during a workload, by Linux's `perf`.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const CALLS: [&str; 5] = ["futex", "recvfrom", "writev", "sendto", "epoll_wait"];
/// Functions below this share are not shown.
const LEAST: &str = "1.0";

/// What watches one process.
pub(crate) struct Perf {
    counting: Child,
    sampling: Child,
    folder: TempDir,
}

impl Perf {
    /// Watches `process`, if that was asked for.
    pub(crate) fn start(process: u32) -> anyhow::Result<Option<Self>> {
        if std::env::var_os("BENCH_PERF").is_none() {
            return Ok(None);
        }
        let folder = TempDir::new()?;
        let process = process.to_string();
        let events = CALLS.map(|call| format!("syscalls:sys_enter_{call}")).join(",");
        let counting = Command::new("perf")
            .args(["stat", "-x", ",", "-p", &process, "-e", &events, "-o"])
            .arg(folder.path().join("calls"))
            .spawn()
            .context("perf (Debian: linux-perf)")?;
        let sampling = Command::new("perf")
            .args(["record", "-q", "-F", "999", "-p", &process, "-o"])
            .arg(folder.path().join("samples"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // Both say nothing when they have attached.
        std::thread::sleep(std::time::Duration::from_millis(500));
        Ok(Some(Self {
            counting,
            sampling,
            folder,
        }))
    }

    /// Prints what was seen while `frames` were forwarded.
    pub(crate) fn finish(mut self, frames: u64) -> anyhow::Result<()> {
        for child in [&mut self.counting, &mut self.sampling] {
            kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
            child.wait()?;
        }
        let calls = fs::read_to_string(self.path("calls"))?;
        for line in calls.lines() {
            let mut fields = line.split(',');
            if let (Some(Ok(count)), Some(name)) = (fields.next().map(str::parse::<f64>), fields.nth(1)) {
                let name = name.trim_start_matches("syscalls:sys_enter_");
                println!("    {name}: {:.4} calls per frame", count / frames as f64);
            }
        }
        let report = Command::new("perf")
            .args(["report", "--stdio", "--sort", "symbol", "--percent-limit", LEAST, "-i"])
            .arg(self.path("samples"))
            .stderr(Stdio::null())
            .output()?;
        let report = String::from_utf8_lossy(&report.stdout);
        let lines = report
            .lines()
            .filter(|line| line.contains('%') && !line.starts_with('#'));
        lines.for_each(|line| println!("    {}", line.trim().trim_end_matches([' ', '-'])));
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
