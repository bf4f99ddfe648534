//! Processes on an executor, or on this machine.

mod local;
mod remote;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use rendezvous_host::process::{Signal, UnknownSignal};
use rendezvous_rpc::PathUri;
use rendezvous_rpc::event::ProcessEvent;
pub use rendezvous_rpc::method::process::{ProcessInfo, ProcessState, ShellSnapshot};

pub(crate) use self::local::LocalProcesses;
use self::local::{LocalEvents, LocalProcess};
use self::remote::RemoteProcess;
use crate::error::HarnessError;
use crate::network::ManagedNetwork;
use crate::session::delivery::EventReceiver;

/// Names that never reach a process from the environment of an executor or of this machine: credentials.
const CREDENTIALS: [&str; 4] = [
    "CODEX_API_KEY",
    "EXECUTOR_TOKEN",
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
    "CODEX_PERMISSION_PROFILE",
];

/// What a process gets as its stdin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: it is at its end from the start.
    #[default]
    Empty,
    /// A pipe that [`ProcessControl::write`] fills and [`ProcessControl::close_stdin`] ends.
    ///
    /// Stock executors have no call that ends it. There the process runs below a small POSIX shell script that passes its
    /// input on and ends it when told to: `sh` and a `dd` that knows `iflag=fullblock` (GNU, BusyBox) must exist there.
    Pipe,
}

/// A process to start.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// Program and arguments; no shell looks at them.
    pub argv: Vec<String>,
    /// Working directory; none: the executor's.
    pub cwd: Option<PathUri>,
    /// Variables over the executor's own environment.
    pub env: BTreeMap<String, String>,
    /// Whether the process gets a terminal, 24 rows of 80 columns until [`ProcessControl::resize`]. Its stdin is open then, whatever `stdin` says.
    pub tty: bool,
    /// Its stdin.
    pub stdin: Stdin,
    /// For a command `SHELL -lc TEXT`: begin with what the shell's start-up files left when they ran for an earlier command of
    /// the same scope. Needs the capability `shellSnapshotV2`.
    pub shell_snapshot: Option<ShellSnapshot>,
    /// What it may reach; none: whatever the executor's machine can.
    pub network: Option<ManagedNetwork>,
}

impl ProcessSpec {
    /// A program with its arguments, without terminal and input.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            env: BTreeMap::new(),
            tty: false,
            stdin: Stdin::Empty,
            shell_snapshot: None,
            network: None,
        }
    }
}

/// A process and its events. When this and every [`ProcessControl`] are dropped, the process is killed.
///
/// Events wait here up to a bound. When it is reached, the whole session reads nothing more until some are taken: the
/// process itself is held up in the end, and nothing is dropped. So take events while you await calls.
#[derive(Debug)]
pub struct Process {
    control: ProcessControl,
    events: Events,
}

/// What can be done to a process while its events are read elsewhere.
#[derive(Clone, Debug)]
pub struct ProcessControl {
    held: Arc<Held>,
}

#[derive(Debug)]
enum Held {
    Remote(RemoteProcess),
    Local(LocalProcess),
}

#[derive(Debug)]
enum Events {
    Remote(EventReceiver),
    Local(LocalEvents),
}

impl Process {
    fn new(held: Held, events: Events) -> Self {
        let control = ProcessControl { held: Arc::new(held) };
        Self { control, events }
    }

    /// A handle for another task.
    pub fn control(&self) -> ProcessControl {
        self.control.clone()
    }

    /// The next event, in order; none after the close or an error.
    ///
    /// # Errors
    ///
    /// When the events cannot be followed any more: the session is lost, or output was dropped by the executor.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, HarnessError> {
        match &mut self.events {
            Events::Remote(events) => events.recv().await.transpose(),
            Events::Local(events) => Ok(events.recv().await),
        }
    }

    /// Adds what is here to `events`, up to `limit` in all, and waits only when nothing is; says how many it added. None
    /// means the end. May be dropped without losing an event.
    ///
    /// # Errors
    ///
    /// As [`Process::next`]; events that came before the error are given first.
    pub async fn next_batch(&mut self, events: &mut Vec<ProcessEvent>, limit: usize) -> Result<usize, HarnessError> {
        let known = events.len();
        let Some(first) = self.next().await? else {
            return Ok(0);
        };
        events.push(first);
        while events.len() < limit
            && let Some(event) = self.events.try_recv()
        {
            events.push(event);
        }
        Ok(events.len() - known)
    }
}

impl Events {
    /// An event that is here already. An error is kept for the next [`Process::next`].
    fn try_recv(&mut self) -> Option<ProcessEvent> {
        match self {
            Self::Remote(events) => match events.try_recv() {
                Ok(Ok(event)) => Some(event),
                Ok(Err(error)) => {
                    events.put_back(error);
                    None
                }
                Err(_) => None,
            },
            Self::Local(events) => events.try_recv(),
        }
    }
}

impl std::ops::Deref for Process {
    type Target = ProcessControl;

    fn deref(&self) -> &ProcessControl {
        &self.control
    }
}

impl ProcessControl {
    /// The id on the wire; on this machine, its place among the processes that were started.
    pub fn id(&self) -> &str {
        match &*self.held {
            Held::Remote(process) => process.id(),
            Held::Local(process) => process.id(),
        }
    }

    /// Writes to stdin, and returns when the bytes are queued where the process runs. Cut larger inputs into pieces of
    /// [`crate::stdin::CHUNK`]. Repeated by itself after a lost connection, without writing twice.
    ///
    /// # Errors
    ///
    /// [`HarnessError::StdinClosed`] when there is no stdin, or no more; otherwise as any call.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), HarnessError> {
        match &*self.held {
            Held::Remote(process) => process.write(bytes).await,
            Held::Local(process) => process.write(bytes).await,
        }
    }

    /// Ends stdin once everything written before has been passed on. On a terminal this is Ctrl-D.
    ///
    /// # Errors
    ///
    /// As any call; none when the process ended before.
    pub async fn close_stdin(&self) -> Result<(), HarnessError> {
        match &*self.held {
            Held::Remote(process) => process.close_stdin().await,
            Held::Local(process) => {
                process.close_stdin();
                Ok(())
            }
        }
    }

    /// Gives the process's terminal another size, of which the process is told. False when the executor has no call for
    /// that, as stock ones.
    ///
    /// # Errors
    ///
    /// As any call; one for which [`HarnessError::is_refused`] is true when the process has no terminal.
    pub async fn resize(&self, rows: u16, columns: u16) -> Result<bool, HarnessError> {
        match &*self.held {
            Held::Remote(process) => process.resize(rows, columns).await,
            Held::Local(process) => process.resize(rows, columns).map(|()| true),
        }
    }

    /// Sends SIGINT to the process group.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn interrupt(&self) -> Result<(), HarnessError> {
        match &*self.held {
            Held::Remote(process) => process.interrupt().await,
            Held::Local(process) => {
                process.signal(Signal::INTERRUPT);
                Ok(())
            }
        }
    }

    /// Whether [`ProcessControl::signal`] can send this signal.
    pub fn can_signal(&self, signal: Signal) -> bool {
        match &*self.held {
            Held::Remote(process) => process.can_signal(signal),
            Held::Local(_) => true,
        }
    }

    /// Signals the process group, unless the program has ended. False when the executor has no call for this signal, as stock
    /// ones for all but SIGINT.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn signal(&self, signal: Signal) -> Result<bool, HarnessError> {
        match &*self.held {
            Held::Remote(process) => process.signal(signal).await,
            Held::Local(process) => {
                process.signal(signal);
                Ok(true)
            }
        }
    }

    /// Kills the process group. True when it was running.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn terminate(&self) -> Result<bool, HarnessError> {
        match &*self.held {
            Held::Remote(process) => process.terminate().await,
            Held::Local(process) => Ok(process.terminate()),
        }
    }
}
