//! A running program: its output, its end, and its certain death.

use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin};
use tokio::sync::watch;

use crate::{Command, Context};

/// A program started by a test. Dropping it kills its process group.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    process: Pid,
    stdin: Option<ChildStdin>,
    stdout: Output,
    stderr: Output,
}

/// How a program ended and what it wrote.
#[derive(Debug)]
pub struct Finished {
    /// The exit code, or 128 + the signal that killed it, as shells say.
    pub code: i32,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error, lossy.
    pub stderr: String,
}

impl Finished {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Fails unless the exit code is 0.
    ///
    /// # Errors
    ///
    /// The exit code is another one; the message holds standard error.
    pub fn success(self) -> Result<Self> {
        if self.code != 0 {
            bail!("exit code {}: {}", self.code, self.stderr);
        }
        Ok(self)
    }
}

impl Program {
    /// Starts a command; its output goes into the test's logs.
    ///
    /// # Errors
    ///
    /// The command could not be started.
    pub fn start(cx: &Context, name: &str, command: Command) -> Result<Self> {
        let mut child = command.build().spawn().with_context(|| format!("start {name}"))?;
        let stdout = Output::read(child.stdout.take().context("stdout")?);
        let stderr = Output::read(child.stderr.take().context("stderr")?);
        Self::new(cx, name, child, stdout, stderr)
    }

    /// Starts a command in the foreground of a terminal; what `screen` shows counts as its standard output.
    pub(crate) fn start_on(
        cx: &Context,
        name: &str,
        command: Command,
        terminal: &OwnedFd,
        screen: impl AsyncRead + Unpin + Send + 'static,
    ) -> Result<Self> {
        let child = command.build_on(terminal)?.spawn();
        let child = child.with_context(|| format!("start {name}"))?;
        Self::new(cx, name, child, Output::read(screen), Output::read(tokio::io::empty()))
    }

    fn new(cx: &Context, name: &str, mut child: Child, stdout: Output, stderr: Output) -> Result<Self> {
        let process = child.id().and_then(|id| i32::try_from(id).ok()).context("process id")?;
        cx.keep_log(format!("{name} stdout"), stdout.clone());
        cx.keep_log(format!("{name} stderr"), stderr.clone());
        Ok(Self {
            name: name.to_owned(),
            stdin: child.stdin.take(),
            process: Pid::from_raw(process),
            child,
            stdout,
            stderr,
        })
    }

    /// Runs a command to its end, with `stdin` as its input.
    ///
    /// # Errors
    ///
    /// The command could not be started, or did not end in time.
    pub async fn run(cx: &Context, name: &str, command: Command, stdin: &[u8], within: Duration) -> Result<Finished> {
        let mut program = Self::start(cx, name, command)?;
        let input = program.stdin.take();
        let feed = async {
            if let Some(mut input) = input {
                // A program may end without reading all of its input.
                let _ = input.write_all(stdin).await;
            }
        };
        let (finished, ()) = tokio::join!(program.finish(within), feed);
        finished
    }

    /// The id of its process, which is also the id of its process group.
    pub fn id(&self) -> i32 {
        self.process.as_raw()
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&self) -> &Output {
        &self.stdout
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> &Output {
        &self.stderr
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    ///
    /// The program closed its input, or [`Self::close_stdin`] did.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let stdin = self.stdin.as_mut().context("stdin is closed")?;
        stdin.write_all(bytes).await?;
        Ok(stdin.flush().await?)
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for a line of standard output that begins with `prefix`; gives the rest of that line.
    ///
    /// # Errors
    ///
    /// No such line within the time, or the program ended without it.
    pub async fn line(&mut self, prefix: &str, within: Duration) -> Result<String> {
        let stdout = self.stdout.clone();
        let found = stdout.wait(within, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            complete
                .lines()
                .find_map(|line| line.strip_prefix(prefix))
                .map(str::to_owned)
        });
        match found.await {
            Some(rest) => Ok(rest),
            None => bail!("{} did not print a line `{prefix}…` within {within:?}", self.name),
        }
    }

    /// Sends a signal to the program itself.
    ///
    /// # Errors
    ///
    /// The program is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.process, signal).with_context(|| format!("{signal} to {}", self.name))
    }

    /// Kills the whole process group and waits for the program's end.
    ///
    /// # Errors
    ///
    /// The program's end could not be waited for.
    pub async fn kill(&mut self) -> Result<()> {
        let _ = killpg(self.process, Signal::SIGKILL);
        self.child.wait().await?;
        Ok(())
    }

    /// Waits for the program's end and the end of its output.
    ///
    /// # Errors
    ///
    /// The program did not end within the time.
    pub async fn finish(&mut self, within: Duration) -> Result<Finished> {
        let ended = async {
            let status = self.child.wait().await?;
            self.stdout.ended().await;
            self.stderr.ended().await;
            anyhow::Ok(status)
        };
        let status = tokio::time::timeout(within, ended)
            .await
            .with_context(|| format!("{} did not end within {within:?}", self.name))??;
        Ok(Finished {
            code: code(status),
            stdout: self.stdout.bytes(),
            stderr: String::from_utf8_lossy(&self.stderr.bytes()).into_owned(),
        })
    }

    /// Whether the program has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Resident memory of its process now, in bytes.
    ///
    /// # Errors
    ///
    /// The program is gone.
    pub fn resident(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// Most resident memory that its process ever had, in bytes.
    ///
    /// # Errors
    ///
    /// The program is gone.
    pub fn peak(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, which: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process))?;
        let line = status.lines().find_map(|line| line.strip_prefix(which));
        let kilobytes = line
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .with_context(|| which.to_owned())?;
        Ok(kilobytes.trim().parse::<u64>()? * 1024)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = killpg(self.process, Signal::SIGKILL);
            // Leave no zombie behind: the kill is certain, so the wait is short.
            while matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(-1)
}

/// What a program wrote to one of its streams. Clones see the same bytes.
#[derive(Clone, Debug)]
pub struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    progress: watch::Receiver<()>,
}

impl Output {
    fn read(mut source: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, progress) = watch::channel(());
        let sink = Arc::clone(&bytes);
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(n @ 1..) = source.read(&mut buffer).await {
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                sink.extend_from_slice(&buffer[..n]);
                drop(sink);
                let _ = sender.send(());
            }
        });
        Self { bytes, progress }
    }

    /// A copy of everything so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything so far as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// Waits until `find` gives a value for everything written so far; nothing if the time or the stream ends first.
    pub async fn wait<T>(&self, within: Duration, find: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let mut progress = self.progress.clone();
        let search = async {
            loop {
                progress.borrow_and_update();
                let found = find(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner));
                if found.is_some() {
                    return found;
                }
                if progress.changed().await.is_err() {
                    return find(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner));
                }
            }
        };
        tokio::time::timeout(within, search).await.ok().flatten()
    }

    /// Waits until `text` was written.
    ///
    /// # Errors
    ///
    /// It was not written within the time.
    pub async fn contains(&self, text: &str, within: Duration) -> Result<()> {
        let found = self.wait(within, |bytes| {
            String::from_utf8_lossy(bytes).contains(text).then_some(())
        });
        found
            .await
            .with_context(|| format!("`{text}` was not written within {within:?}"))
    }

    async fn ended(&self) {
        let mut progress = self.progress.clone();
        while progress.changed().await.is_ok() {}
    }
}
