use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rendezvous_transport::direct;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::StreamLink;
use crate::endpoint::Program;
use crate::error::AttemptError;
use crate::options::{AUTH_TOKEN, PASSPHRASE};
use crate::session::driver::{Connector, Link};

/// How long a program may take to end once its stdin is closed, and again once it got SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of the program is waited for when its stdout has ended.
const PATIENCE: Duration = Duration::from_millis(500);
/// Most of its last words that are kept.
const MAX_WORDS: usize = 1024;

/// What is wrong with a program that carries messages. Its other faults are those of a connection.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why not.
        #[source]
        error: Arc<io::Error>,
    },
    /// The folder that it is to run in cannot be used.
    #[error("cannot start `{program}` in the folder {}", folder.display())]
    Folder {
        /// The program.
        program: String,
        /// The folder.
        folder: PathBuf,
        /// Why not.
        #[source]
        error: Arc<io::Error>,
    },
    /// It has ended.
    #[error("`{program}` has ended ({status}){}", tail(words))]
    Ended {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote to stderr.
        words: String,
    },
    /// Its stdout has ended, or no session could be opened over it; it is not started a second time.
    #[error("`{program}` carries no messages any more{}", tail(words))]
    Silent {
        /// The program.
        program: String,
        /// The end of what it wrote to stderr.
        words: String,
    },
}

fn tail(words: &str) -> String {
    if words.is_empty() {
        String::new()
    } else {
        format!(": {words}")
    }
}

/// Starts a program, once.
pub(crate) struct ProgramConnector {
    program: Program,
    fate: Option<Fate>,
}

impl ProgramConnector {
    pub(crate) fn new(program: Program) -> Self {
        Self { program, fate: None }
    }
}

impl Connector for ProgramConnector {
    type Link = ProgramLink;

    async fn connect(&mut self) -> Result<ProgramLink, AttemptError> {
        if let Some(fate) = &mut self.fate {
            return Err(fate.tell().await.into());
        }
        let (link, fate) = start(&self.program).map_err(|error| unstarted(&self.program, error))?;
        self.fate = Some(fate);
        Ok(link)
    }

    fn initialize_timeout(&self) -> Duration {
        self.program.initialize_timeout
    }
}

/// What becomes of a program.
#[derive(Clone)]
struct Fate {
    program: String,
    ended: watch::Receiver<Option<ExitStatus>>,
    words: Arc<Mutex<Vec<u8>>>,
}

impl Fate {
    /// What is known of it, after a little patience.
    async fn tell(&mut self) -> ProgramError {
        let ended = timeout(PATIENCE, self.ended.wait_for(Option::is_some)).await;
        let status = ended.ok().and_then(Result::ok).and_then(|status| *status);
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        let program = self.program.clone();
        match status {
            Some(status) => ProgramError::Ended { program, status, words },
            None => ProgramError::Silent { program, words },
        }
    }
}

/// The error of the system does not tell the program from its folder.
fn unstarted(program: &Program, error: io::Error) -> ProgramError {
    let error = Arc::new(error);
    let cwd = program.cwd.clone();
    let program = program.program.clone();
    match cwd.filter(|cwd| !cwd.is_dir()) {
        Some(folder) => ProgramError::Folder { program, folder, error },
        None => ProgramError::Start { program, error },
    }
}

fn start(program: &Program) -> io::Result<(ProgramLink, Fate)> {
    let mut command = Command::new(&program.program);
    command
        .args(&program.args)
        .env_remove(AUTH_TOKEN)
        .env_remove(PASSPHRASE)
        .envs(&program.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C on our terminal is ours to handle.
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("no pipes"));
    };
    let words = Arc::default();
    let heard = tokio::spawn(listen(stderr, Arc::clone(&words)));
    let unused = CancellationToken::new();
    let (end, ended) = watch::channel(None);
    let attended = attend(child, unused.clone());
    tokio::spawn(async move {
        let status = attended.await;
        // A descendant may hold it open.
        let _ = timeout(PATIENCE / 2, heard).await;
        end.send_replace(status);
    });
    let fate = Fate {
        program: program.program.clone(),
        ended,
        words,
    };
    let link = ProgramLink {
        stream: direct::over_lines(stdout, stdin).into(),
        fate: fate.clone(),
        _in_use: unused.drop_guard(),
    };
    Ok((link, fate))
}

/// Waits for a program's end, and brings it about once nobody uses it: its stdin is closed by then, which should be enough.
async fn attend(mut child: Child, unused: CancellationToken) -> Option<ExitStatus> {
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()))?;
    tokio::select! {
        status = child.wait() => return status.ok(),
        () = unused.cancelled() => {}
    }
    for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
        if let Some(signal) = signal {
            // It may have ended just now, and is not reaped before the next wait.
            let _ = kill_process_group(group, signal);
        }
        if let Ok(status) = timeout(GRACE, child.wait()).await {
            return status.ok();
        }
    }
    None
}

/// Logs what a program complains about, and keeps the end of it.
async fn listen(mut stderr: impl AsyncRead + Unpin, words: Arc<Mutex<Vec<u8>>>) {
    let mut piece = [0; MAX_WORDS];
    while let Ok(len @ 1..) = stderr.read(&mut piece).await {
        tracing::debug!(text = %String::from_utf8_lossy(&piece[..len]).trim_end(), "program's stderr");
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(&piece[..len]);
        let over = words.len().saturating_sub(MAX_WORDS);
        words.drain(..over);
    }
}

/// A program's stdin and stdout. Dropped, it ends the program.
pub(crate) struct ProgramLink {
    stream: StreamLink,
    fate: Fate,
    _in_use: DropGuard,
}

impl Link for ProgramLink {
    async fn exchange(&mut self, outbox: &mut VecDeque<Bytes>, take: bool) -> Result<Bytes, AttemptError> {
        match self.stream.exchange(outbox, take).await {
            Err(AttemptError::Stream(_)) => Err(self.fate.tell().await.into()),
            result => result,
        }
    }

    async fn close(mut self, outbox: VecDeque<Bytes>) {
        self.stream.close(outbox).await;
        // Whoever waits for the end of the session wants the program to be gone.
        let _ = self.fate.ended.wait_for(Option::is_some).await;
    }
}
