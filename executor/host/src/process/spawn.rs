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

use super::{Spec, Stdio, Stream, pty, sys};

/// Forks that may wait for a slow exec before the next one waits for them.
const THREADS: usize = 4;

/// A program that has just been started.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) leader: Leader,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) outputs: Vec<(Stream, OwnedFd)>,
}

/// Starts a program.
pub(super) async fn spawn(spec: Spec) -> io::Result<Spawned> {
    let (reply, answer) = oneshot::channel();
    submit(Job::Launch(Box::new(spec), reply))?;
    answer
        .await
        .map_err(|_lost| io::Error::other("process spawner failed"))?
}

enum Job {
    Launch(Box<Spec>, oneshot::Sender<io::Result<Spawned>>),
    Reap(Pid),
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
            Ok(Job::Launch(spec, reply)) => drop(reply.send(launch(&spec))),
            Ok(Job::Reap(pid)) => drop(retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED))),
            Err(mpsc::RecvError) => return,
        }
    }
}

fn launch(spec: &Spec) -> io::Result<Spawned> {
    let (program, arguments) = spec
        .argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "argv must not be empty"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&spec.cwd)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)));
    if let Some(arg0) = &spec.arg0 {
        command.arg0(arg0);
    }
    match spec.stdio {
        Stdio::Pipes { stdin } => launch_with_pipes(command, stdin),
        Stdio::Terminal => launch_on_terminal(command),
    }
}

fn launch_with_pipes(mut command: Command, stdin: bool) -> io::Result<Spawned> {
    command
        .stdin(if stdin { StdStdio::piped() } else { StdStdio::null() })
        .stdout(StdStdio::piped())
        .stderr(StdStdio::piped());
    sys::install(&mut command, false);
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
        stdin: child.stdin.take().map(Into::into),
        outputs,
    })
}

fn launch_on_terminal(mut command: Command) -> io::Result<Spawned> {
    let (ours, theirs) = pty::open()?;
    command
        .stdin(theirs.try_clone()?)
        .stdout(theirs.try_clone()?)
        .stderr(theirs);
    sys::install(&mut command, true);
    let child = command.spawn()?;
    let leader = Leader::new(&child)?;
    Ok(Spawned {
        leader,
        stdin: Some(ours.try_clone()?),
        outputs: vec![(Stream::Pty, ours)],
    })
}

/// The program that was started: leader of its session and group.
///
/// Dropped before it is reaped, it kills the group and has the program reaped elsewhere.
#[derive(Debug)]
pub(super) struct Leader {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Leader {
    fn new(child: &std::process::Child) -> io::Result<Self> {
        let pid = Pid::from_child(child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self {
                pid,
                pidfd: Some(pidfd),
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
            let _stopped = submit(Job::Reap(self.pid));
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
