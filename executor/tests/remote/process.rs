//! The executor as a child process.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use crate::world::{ENVIRONMENT, World, within};

/// Started as this user when the test runs as root, so that the protection is not root's.
pub(crate) const NOBODY: u32 = 65534;

/// Time between two looks at a condition that nothing tells of.
pub(crate) const POLL: Duration = Duration::from_millis(5);

pub(crate) struct Executor {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: watch::Receiver<String>,
}

/// A command line without arguments, with an environment of its own.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_executor"));
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HARMLESS", "harmless-value")
        .env("EXECUTOR_EPHEMERAL_IDENTITY", "1")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A command line for an executor that registers at `url`.
pub(crate) fn command(url: &str) -> Command {
    let mut command = bare();
    command.args(["--remote", url, "--environment-id", ENVIRONMENT]);
    command
}

pub(crate) fn with_token(world: &World) -> Command {
    let mut command = command(&world.url());
    command.env("EXECUTOR_TOKEN", "the-token");
    command
}

impl Executor {
    pub(crate) fn start(mut command: Command) -> Self {
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut child = command.spawn().expect("the binary, executable for everybody");
        let stdout = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let (collected, stderr) = watch::channel(String::new());
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                collected.send_modify(|text| {
                    text.push_str(&line);
                    text.push('\n');
                });
            }
        });
        Self { child, stdout, stderr }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("running")
    }

    /// The most memory that the process has held so far, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|rest| rest.trim().strip_suffix("kB")).expect("VmHWM");
        kilobytes.trim().parse::<u64>().expect("a number") * 1024
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("stdin")
    }

    /// The next line on stdout; nothing at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        within(self.stdout.next_line()).await.expect("stdout")
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.borrow().clone()
    }

    /// Waits until stderr holds `text`.
    pub(crate) async fn says(&self, text: &str) {
        self.says_times(text, 1).await;
    }

    /// Waits until stderr holds `text` so many times.
    pub(crate) async fn says_times(&self, text: &str, times: usize) {
        let mut stderr = self.stderr.clone();
        let said = stderr.wait_for(|all| all.matches(text).count() >= times);
        let said = within(said).await.is_ok();
        assert!(said, "not {times} of {text:?} in:\n{}", self.stderr());
    }

    /// Where `--admin-listen` listens.
    pub(crate) async fn admin(&self) -> SocketAddr {
        self.says("serving health and metrics").await;
        let log = self.stderr();
        let line = log.lines().find(|line| line.contains("serving health and metrics"));
        let address = line.and_then(|line| line.split("address=").nth(1)).expect(&log);
        address.trim().parse().expect(&log)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().try_into().expect("pid")).expect("pid");
        kill_process(pid, signal).expect("signal");
    }

    /// Waits for the end; the exit code, and all of stderr.
    pub(crate) async fn end(mut self) -> (Option<i32>, String) {
        let status = within(self.child.wait()).await.expect("wait");
        // The reader ends with the pipe, which may outlive the process for a moment.
        // Nobody is left to write more: an error.
        let _ = within(self.stderr.wait_for(|_| false)).await;
        (status.code(), self.stderr())
    }
}
