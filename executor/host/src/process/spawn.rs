//! Forking, on threads that live as long as the executor.
//!
//! Linux binds the parent-death signal to the *thread* that forked. On a thread of a pool that shrinks, children would
//! be terminated when that thread retires; so a few threads of our own do nothing but fork, and never end. They are
//! several because a child reports its failed exec, or its working directory on a file system that hangs, only then.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio as StdStdio};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, test_kill_process, waitid,
};
use tokio::sync::oneshot;

use super::summary::shown;
use super::table::StartError;
use super::{Spec, Stdio, Stream, pty, sys};
use crate::proxy::Listeners;
use crate::sandbox::{Confined, Held, Inner, Jail, Program, SandboxError};

/// Forks that may wait for a slow exec before the next one waits for them.
const THREADS: usize = 4;

/// A program that has just been started.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) leader: Leader,
    /// Its command line as it is shown.
    pub(super) argv: Vec<String>,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) outputs: Vec<(Stream, OwnedFd)>,
    /// Where its proxy is asked, when it was started with some.
    pub(super) listeners: Option<Listeners>,
    /// Whether a sandbox may be what makes it fail.
    pub(super) is_confined: bool,
}

/// Starts a program; `proxied` with listeners for a proxy inside of its sandbox.
pub(super) async fn spawn(spec: Spec, proxied: bool) -> Result<Spawned, StartError> {
    let (reply, answer) = oneshot::channel();
    submit(Job::Launch(Box::new(spec), proxied, reply))?;
    answer
        .await
        .unwrap_or_else(|_lost| Err(io::Error::other("process spawner failed").into()))
}

enum Job {
    Launch(Box<Spec>, bool, oneshot::Sender<Result<Spawned, StartError>>),
    Reap(Pid, Option<Held>),
    Release(Held),
}

fn submit(job: Job) -> io::Result<()> {
    static SPAWNER: OnceLock<io::Result<mpsc::Sender<Job>>> = OnceLock::new();
    match SPAWNER.get_or_init(start_threads) {
        Ok(jobs) => jobs
            .send(job)
            .map_err(|_closed| io::Error::other("process spawner stopped")),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

fn start_threads() -> io::Result<mpsc::Sender<Job>> {
    let (jobs, queue) = mpsc::channel::<Job>();
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..THREADS {
        let queue = Arc::clone(&queue);
        thread::Builder::new()
            .name("spawner".into())
            .stack_size(256 * 1024)
            .spawn(move || serve(&queue))?;
    }
    Ok(jobs)
}

fn serve(queue: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let Ok(job) = queue.lock().map(|queue| queue.recv()) else {
            return;
        };
        match job {
            // A caller that went away drops the program, which kills it.
            Ok(Job::Launch(spec, proxied, reply)) => drop(reply.send(launch(*spec, proxied))),
            Ok(Job::Reap(pid, held)) => {
                let _gone = retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED));
                if let Some(held) = held {
                    held.release();
                }
            }
            Ok(Job::Release(held)) => held.release(),
            Err(mpsc::RecvError) => return,
        }
    }
}

fn launch(spec: Spec, proxied: bool) -> Result<Spawned, StartError> {
    if spec.argv.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "argv must not be empty").into());
    }
    let (stdio, argv) = (spec.stdio, shown(&spec.argv));
    let spawned = match &spec.jail {
        None => start(native(&spec), stdio, sys::Setup::program)?,
        Some(jail) => launch_confined(&jail.clone(), spec, proxied)?,
    };
    Ok(Spawned { argv, ..spawned })
}

fn native(spec: &Spec) -> Command {
    let mut command = Command::new(&spec.argv[0]);
    command
        .args(&spec.argv[1..])
        .current_dir(&spec.cwd)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)));
    if let Some(arg0) = &spec.arg0 {
        command.arg0(arg0);
    }
    command
}

/// Starts a program in a sandbox, and waits until it runs: otherwise nobody could tell the sandbox's failures from its own.
fn launch_confined(jail: &Jail, spec: Spec, proxied: bool) -> Result<Spawned, StartError> {
    let stdio = spec.stdio;
    let program = Program {
        argv: spec.argv,
        arg0: spec.arg0,
        cwd: spec.cwd,
        env: spec.env,
    };
    if program.has_nul() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "nul byte found in provided data").into());
    }
    let inner = if proxied {
        Inner::ProxiedProgram(&program)
    } else {
        Inner::Program(&program)
    };
    let confined = jail.confine(&inner);
    let Confined { command, stage } = confined.map_err(|error| SandboxError::Prepare(error.to_string()))?;
    let mut spawned = start(command, stdio, |terminal| stage.setup(terminal))?;
    match stage.wait() {
        Ok(mut held) => {
            spawned.listeners = held.listeners.take();
            spawned.leader.held = Some(held);
            spawned.is_confined = true;
            Ok(spawned)
        }
        Err(failure) => {
            spawned.leader.signal(Signal::KILL);
            let error = failure.with_output(&last_words(&spawned.outputs))?;
            Err(error.into())
        }
    }
}

/// Most that is read of why a sandbox did not come up.
const MAX_LAST_WORDS: usize = 2048;

fn last_words(outputs: &[(Stream, OwnedFd)]) -> Vec<u8> {
    let mut words = Vec::new();
    for (_, fd) in outputs {
        let mut buffer = [0; MAX_LAST_WORDS];
        let read = rustix::io::ioctl_fionbio(fd, true).and_then(|()| rustix::io::read(fd, &mut buffer));
        words.extend_from_slice(&buffer[..read.unwrap_or(0)]);
    }
    words
}

fn start(command: Command, stdio: Stdio, setup: impl FnOnce(bool) -> sys::Setup) -> io::Result<Spawned> {
    let started = match stdio {
        Stdio::Pipes { stdin } => start_with_pipes(command, stdin, setup(false)),
        Stdio::Terminal => start_on_terminal(command, setup(true)),
    };
    started.map_err(explain)
}

/// Says whose files have run out: to a reader far away it looks like the command's affair.
fn explain(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE) => io::Error::other("the executor may have no more files open; its limit is to be raised"),
        Some(Errno::NFILE) => io::Error::other("the executor's machine may have no more files open"),
        _ => error,
    }
}

fn start_with_pipes(mut command: Command, stdin: bool, setup: sys::Setup) -> io::Result<Spawned> {
    command
        .stdin(if stdin { StdStdio::piped() } else { StdStdio::null() })
        .stdout(StdStdio::piped())
        .stderr(StdStdio::piped());
    sys::install(&mut command, setup);
    let mut child = command.spawn()?;
    let leader = Leader::new(&child)?;
    let outputs = child
        .stdout
        .take()
        .map(|stdout| (Stream::Stdout, stdout.into()))
        .into_iter()
        .chain(child.stderr.take().map(|stderr| (Stream::Stderr, stderr.into())))
        .collect();
    Ok(Spawned {
        leader,
        argv: Vec::new(),
        stdin: child.stdin.take().map(Into::into),
        outputs,
        listeners: None,
        is_confined: false,
    })
}

fn start_on_terminal(mut command: Command, setup: sys::Setup) -> io::Result<Spawned> {
    let (ours, theirs) = pty::open()?;
    command
        .stdin(theirs.try_clone()?)
        .stdout(theirs.try_clone()?)
        .stderr(theirs);
    sys::install(&mut command, setup);
    let child = command.spawn()?;
    let leader = Leader::new(&child)?;
    Ok(Spawned {
        leader,
        argv: Vec::new(),
        stdin: Some(ours.try_clone()?),
        outputs: vec![(Stream::Pty, ours)],
        listeners: None,
        is_confined: false,
    })
}

/// The program that was started: leader of its session and group.
///
/// Dropped before it is reaped, it kills the group and has the program reaped elsewhere.
#[derive(Debug)]
pub(super) struct Leader {
    pid: Pid,
    pidfd: Option<OwnedFd>,
    /// What its sandbox needs until the last process in it is dead.
    held: Option<Held>,
}

impl Leader {
    fn new(child: &std::process::Child) -> io::Result<Self> {
        let pid = Pid::from_child(child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self {
                pid,
                pidfd: Some(pidfd),
                held: None,
            }),
            Err(error) => {
                let _gone = kill_process_group(pid, Signal::KILL);
                let _reaped = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
                Err(error.into())
            }
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// A descriptor that becomes readable when the program ends.
    pub(super) fn watch(&self) -> io::Result<OwnedFd> {
        match &self.pidfd {
            Some(pidfd) => pidfd.try_clone(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn is_reaped(&self) -> bool {
        self.pidfd.is_none()
    }

    /// Reaps the program if it has ended.
    pub(super) fn try_reap(&mut self) -> Option<Ended> {
        let pidfd = self.pidfd.as_ref()?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = retry_on_intr(|| waitid(WaitId::PidFd(pidfd.as_fd()), options));
        let ended = match status {
            Ok(None) => return None,
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Ended::Code(code),
                (None, Some(signal)) => Ended::Signal(signal),
                (None, None) => Ended::Unknown,
            },
            Err(_) => Ended::Unknown,
        };
        self.pidfd = None;
        Some(ended)
    }

    /// What its sandbox needs until the last process in it is dead.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        self.held.take()
    }

    /// Signals the group, while the program holds its number.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.is_reaped() {
            let _gone = kill_process_group(self.pid, signal);
        }
    }

    /// Kills what is left of the group, also after the program was reaped.
    ///
    /// The kernel gives a number to no new process while a group bears it. So once the program is reaped, a living
    /// process of its number proves that the group is gone and the number belongs to somebody else.
    pub(super) fn kill_group(&self) {
        if !self.is_reaped() || test_kill_process(self.pid) == Err(Errno::SRCH) {
            let _gone = kill_process_group(self.pid, Signal::KILL);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.pidfd.take().is_some() {
            let _gone = kill_process_group(self.pid, Signal::KILL);
            let _stopped = submit(Job::Reap(self.pid, self.held.take()));
        } else if let Some(held) = self.held.take() {
            let _stopped = submit(Job::Release(held));
        }
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Somebody else reaped it.
    Unknown,
}
