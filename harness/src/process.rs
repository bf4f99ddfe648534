//! Processes on the executor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rendezvous_rpc::event::ProcessEvent;
pub use rendezvous_rpc::method::process::ShellSnapshot;
use rendezvous_rpc::method::process::{
    self, EnvPolicy, Inherit, ProcessParams, ResizeParams, Signal, SignalParams, StartParams, WriteResult, WriteStatus,
};
use rendezvous_rpc::{Base64, Method as _, PathUri, envelope};
use tokio::sync::{Mutex, oneshot};

use crate::client::Harness;
use crate::error::HarnessError;
use crate::network::ManagedNetwork;
use crate::session::delivery::{self, EventReceiver};
use crate::session::{Class, Command};
use crate::stdin;

/// Names that never reach a process from the executor's own environment: credentials of executors.
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
    events: EventReceiver,
}

/// What can be done to a process while its events are read elsewhere.
#[derive(Clone, Debug)]
pub struct ProcessControl {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    harness: Harness,
    id: String,
    input: Input,
    /// One write at a time: executors may run calls side by side, and bytes must stay in order.
    writing: Mutex<()>,
    writes: AtomicU64,
}

/// How input reaches the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    None,
    Terminal,
    /// The executor can end it.
    Pipe,
    /// A script can end it.
    Framed,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.harness.abandon(&self.id);
    }
}

impl Harness {
    /// Starts a process.
    ///
    /// # Errors
    ///
    /// When the executor refuses, too many processes are held, or the connection is lost meanwhile; then the process is
    /// killed should it have started.
    pub async fn start(&self, spec: ProcessSpec) -> Result<Process, HarnessError> {
        let id = format!("h{}-{}", self.next_number(), uuid::Uuid::new_v4());
        let input = match (spec.tty, spec.stdin) {
            (true, _) => Input::Terminal,
            (false, Stdin::Empty) => Input::None,
            (false, Stdin::Pipe) if self.has_process_control() => Input::Pipe,
            (false, Stdin::Pipe) => Input::Framed,
        };
        let argv = if input == Input::Framed {
            stdin::wrap(spec.argv)
        } else {
            spec.argv
        };
        let cwd = match spec.cwd {
            Some(cwd) => cwd,
            None => self.working_directory().await?,
        };
        let params = StartParams {
            process_id: id.clone(),
            argv,
            cwd,
            env_policy: Some(EnvPolicy {
                inherit: Inherit::All,
                ignore_default_excludes: true,
                exclude: CREDENTIALS.map(ToOwned::to_owned).to_vec(),
                set: BTreeMap::new(),
                include_only: Vec::new(),
            }),
            env: spec.env,
            tty: spec.tty,
            pipe_stdin: matches!(input, Input::Pipe | Input::Framed),
            arg0: None,
            sandbox: spec.network.as_ref().map(|_| ManagedNetwork::sandbox()),
            enforce_managed_network: spec.network.is_some(),
            managed_network: None,
            network_proxy: spec.network.as_ref().map(ManagedNetwork::launch),
            shell_snapshot: spec.shell_snapshot,
            metadata: None,
        };
        let (sender, events) = delivery::process(id.clone(), self.notices());
        let (reply, started) = oneshot::channel();
        let command = Command::Start {
            params: Box::new(params),
            network: spec.network,
            events: sender,
            reply,
        };
        self.command(command).await?;
        started.await.map_err(|_| HarnessError::Shutdown)??;
        let inner = Inner {
            harness: self.clone(),
            id,
            input,
            writing: Mutex::new(()),
            writes: AtomicU64::new(1),
        };
        let control = ProcessControl { inner: Arc::new(inner) };
        Ok(Process { control, events })
    }
}

impl Process {
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
        self.events.recv().await.transpose()
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
        while events.len() < limit {
            match self.events.try_recv() {
                Ok(Ok(event)) => events.push(event),
                Ok(Err(error)) => {
                    self.events.put_back(error);
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(events.len() - known)
    }
}

impl std::ops::Deref for Process {
    type Target = ProcessControl;

    fn deref(&self) -> &ProcessControl {
        &self.control
    }
}

impl ProcessControl {
    /// The id on the wire.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Writes to stdin, and returns when the executor has queued the bytes. Cut larger inputs into pieces of
    /// [`stdin::CHUNK`]. Repeated by itself after a lost connection, without writing twice.
    ///
    /// # Errors
    ///
    /// [`HarnessError::StdinClosed`] when there is no stdin, or no more; otherwise as any call.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), HarnessError> {
        match self.inner.input {
            Input::None => Err(HarnessError::StdinClosed),
            Input::Terminal | Input::Pipe => self.write_raw(&[bytes]).await,
            Input::Framed if bytes.is_empty() => Ok(()),
            Input::Framed => self.write_raw(&[&stdin::header(bytes.len()), bytes]).await,
        }
    }

    /// Ends stdin once everything written before has been passed on. On a terminal this is Ctrl-D.
    ///
    /// # Errors
    ///
    /// As any call; none when the process ended before.
    pub async fn close_stdin(&self) -> Result<(), HarnessError> {
        let result = match self.inner.input {
            Input::None => Ok(()),
            Input::Terminal => self.write_raw(&[&[4]]).await,
            Input::Framed => self.write_raw(&[&stdin::header(0)]).await,
            Input::Pipe => {
                let _writing = self.inner.writing.lock().await;
                let params = self.params();
                let harness = &self.inner.harness;
                harness
                    .call_as::<process::CloseStdin>(&params, Class::Repeatable)
                    .await
                    .map(drop)
            }
        };
        match result {
            Err(HarnessError::StdinClosed) => Ok(()),
            result => result,
        }
    }

    /// Gives the process's terminal another size, of which the process is told. False when the executor has no call for
    /// that, as stock ones.
    ///
    /// # Errors
    ///
    /// As any call; [`HarnessError::Refused`] when the process has no terminal.
    pub async fn resize(&self, rows: u16, columns: u16) -> Result<bool, HarnessError> {
        let harness = &self.inner.harness;
        if !harness.has_process_control() {
            return Ok(false);
        }
        let params = ResizeParams {
            process_id: self.inner.id.clone(),
            rows,
            columns,
        };
        harness.call_as::<process::Resize>(&params, Class::Repeatable).await?;
        Ok(true)
    }

    /// Sends SIGINT to the process group.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn interrupt(&self) -> Result<(), HarnessError> {
        let params = SignalParams {
            process_id: self.inner.id.clone(),
            signal: Signal::Interrupt,
        };
        self.inner
            .harness
            .call::<process::SignalProcess>(&params)
            .await
            .map(drop)
    }

    /// Kills the process group. True when it was running.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn terminate(&self) -> Result<bool, HarnessError> {
        let params = self.params();
        let harness = &self.inner.harness;
        let result = harness.call_as::<process::Terminate>(&params, Class::Cleanup).await?;
        Ok(result.running)
    }

    fn params(&self) -> ProcessParams {
        ProcessParams {
            process_id: self.inner.id.clone(),
        }
    }

    async fn write_raw(&self, parts: &[&[u8]]) -> Result<(), HarnessError> {
        let _writing = self.inner.writing.lock().await;
        let id = self.inner.writes.fetch_add(1, Ordering::Relaxed);
        let params = write_params(&self.inner.id, id, parts);
        let method = process::Write::NAME;
        let result = self
            .inner
            .harness
            .call_raw(method, params.into(), Class::Repeatable)
            .await?;
        let result: WriteResult = envelope::decode_result(&result).map_err(|error| HarnessError::Answer {
            method,
            reason: error.to_string(),
        })?;
        match result.status {
            WriteStatus::Accepted => Ok(()),
            WriteStatus::StdinClosed | WriteStatus::UnknownProcess => Err(HarnessError::StdinClosed),
            WriteStatus::Starting => Err(HarnessError::Answer {
                method,
                reason: "the process is still being started".to_owned(),
            }),
        }
    }
}

/// Parameters of `process/write`, the bytes straight into base64.
fn write_params(process: &str, write: u64, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(len.div_ceil(3) * 4 + process.len() + 64);
    // Process ids are ours, and need no escapes.
    out.extend_from_slice(br#"{"processId":""#);
    out.extend_from_slice(process.as_bytes());
    out.extend_from_slice(br#"","writeId":""#);
    out.extend_from_slice(write.to_string().as_bytes());
    out.extend_from_slice(br#"","chunk":""#);
    match parts {
        [one] => Base64::encode_into(one, &mut out),
        parts => Base64::encode_into(&parts.concat(), &mut out),
    }
    out.extend_from_slice(br#""}"#);
    out
}

#[cfg(test)]
mod tests {
    use rendezvous_rpc::method::process::WriteParams;

    use super::*;

    #[test]
    fn a_write_is_what_the_types_read() {
        for parts in [&[&b""[..]][..], &[b"\x00\xff\""], &[b"10\n", b"0123456789"]] {
            let params: WriteParams = serde_json::from_slice(&write_params("h1-x", 7, parts)).unwrap();
            let expected = WriteParams {
                process_id: "h1-x".to_owned(),
                chunk: Base64::from(parts.concat()),
                write_id: "7".to_owned(),
            };
            assert_eq!(params, expected);
        }
    }
}
