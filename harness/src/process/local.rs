//! Processes on this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use rendezvous_host::env::{self, Inherit, Policy};
use rendezvous_host::process::{
    Budget, Change, Event, Lookup, MAX_RETAINED_TOTAL, Outlet, Process as HostProcess, Processes, Signal, Spec,
    StartError, Stdio, Stream, WriteStatus,
};
use rendezvous_rpc::event::ProcessEvent;
use rendezvous_rpc::method::process::OutputStream;
use tokio::sync::mpsc;

use super::{CREDENTIALS, Events, Held, Process, ProcessSpec, Stdin};
use crate::backend::ExecBackend;
use crate::error::{HarnessError, LocalError};
use crate::session::MAX_PROCESSES;

/// Events of one process that wait to be taken; then the process itself waits.
const MAX_EVENTS: usize = 64;

/// What all processes of this machine share.
#[derive(Debug)]
pub(crate) struct LocalProcesses {
    budget: Arc<Budget>,
    started: AtomicU64,
}

impl Default for LocalProcesses {
    fn default() -> Self {
        Self {
            budget: Arc::new(Budget::new(MAX_PROCESSES, MAX_RETAINED_TOTAL)),
            started: AtomicU64::new(0),
        }
    }
}

#[async_trait]
impl ExecBackend for LocalProcesses {
    async fn start(&self, spec: ProcessSpec) -> Result<Process, HarnessError> {
        if spec.shell_snapshot.is_some() {
            return Err(LocalError::Unsupported("shell snapshots").into());
        }
        if spec.network.is_some() {
            return Err(LocalError::Unsupported("managed networks").into());
        }
        let cwd = match &spec.cwd {
            Some(cwd) => cwd.to_path()?,
            None => std::env::current_dir()
                .map_err(StartError::Spawn)
                .map_err(LocalError::from)?,
        };
        let stdio = if spec.tty {
            Stdio::Terminal
        } else {
            Stdio::Pipes {
                stdin: spec.stdin == Stdin::Pipe,
            }
        };
        let spec = Spec {
            argv: spec.argv.into_iter().map(OsString::from).collect(),
            arg0: None,
            cwd,
            env: environment(spec.env),
            stdio,
            jail: None,
        };
        // A table for each: it carries the events of one process, which waits alone for its reader, and kills it in the end.
        let outlet = Outlet::default();
        let (sender, receiver) = mpsc::channel(MAX_EVENTS);
        outlet.attach(sender);
        let table = Processes::new(outlet, Arc::clone(&self.budget));
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("l{number}");
        table.start(id.as_str(), spec).await.map_err(LocalError::from)?;
        let Lookup::Started(process) = table.get(&id) else {
            return Err(LocalError::from(StartError::Cancelled(id.into())).into());
        };
        let process = LocalProcess {
            process,
            writes: AtomicU64::new(1),
            _table: table,
        };
        let events = LocalEvents {
            events: receiver,
            is_over: false,
        };
        Ok(Process::new(Held::Local(process), Events::Local(events)))
    }
}

/// This machine's environment without credentials, with `overlay` over it.
fn environment(overlay: BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    let policy = Policy {
        inherit: Inherit::All,
        ignore_default_excludes: true,
        exclude: CREDENTIALS.map(ToOwned::to_owned).to_vec(),
        set: BTreeMap::new(),
        include_only: Vec::new(),
    };
    let overlay = overlay.into_iter().map(|(name, value)| (name.into(), value.into()));
    env::compose(std::env::vars_os(), Some(&policy), overlay)
}

#[derive(Debug)]
pub(super) struct LocalProcess {
    process: HostProcess,
    writes: AtomicU64,
    /// Dropped, it kills the process.
    _table: Processes,
}

impl LocalProcess {
    pub(super) fn id(&self) -> &str {
        self.process.id()
    }

    pub(super) async fn write(&self, bytes: &[u8]) -> Result<(), HarnessError> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let written = self
            .process
            .write(&number.to_string(), Bytes::copy_from_slice(bytes))
            .await;
        match written {
            Ok(WriteStatus::Accepted) => Ok(()),
            // It was terminated.
            Ok(WriteStatus::StdinClosed) | Err(_) => Err(HarnessError::StdinClosed),
        }
    }

    pub(super) fn close_stdin(&self) {
        self.process.close_stdin();
    }

    pub(super) fn resize(&self, rows: u16, columns: u16) -> Result<(), HarnessError> {
        if self.process.resize(rows, columns) {
            Ok(())
        } else {
            Err(LocalError::NoTerminal.into())
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub(super) fn terminate(&self) -> bool {
        self.process.terminate()
    }
}

#[derive(Debug)]
pub(super) struct LocalEvents {
    events: mpsc::Receiver<Event>,
    is_over: bool,
}

impl LocalEvents {
    pub(super) async fn recv(&mut self) -> Option<ProcessEvent> {
        if self.is_over {
            return None;
        }
        let event = self.events.recv().await;
        self.took(event)
    }

    pub(super) fn try_recv(&mut self) -> Option<ProcessEvent> {
        if self.is_over {
            return None;
        }
        let event = self.events.try_recv().ok()?;
        self.took(Some(event))
    }

    fn took(&mut self, event: Option<Event>) -> Option<ProcessEvent> {
        let event = event.map(|event| match event.change {
            Change::Output(chunk) => ProcessEvent::Output {
                stream: match chunk.stream {
                    Stream::Stdout => OutputStream::Stdout,
                    Stream::Stderr => OutputStream::Stderr,
                    Stream::Pty => OutputStream::Pty,
                },
                bytes: chunk.data,
            },
            Change::Exited { code, denied, .. } => ProcessEvent::Exited {
                code,
                sandbox_denied: Some(denied),
            },
            Change::Closed { .. } => ProcessEvent::Closed,
        });
        self.is_over = matches!(event, None | Some(ProcessEvent::Closed));
        event
    }
}
