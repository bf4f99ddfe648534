//! Processes on an executor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use rendezvous_rpc::method::process::{
    self, EnvPolicy, Inherit, ProcessInfo, ProcessParams, ResizeParams, SendSignalParams, SignalParams, StartParams,
    WriteResult, WriteStatus,
};
use rendezvous_rpc::{Base64, Method as _, envelope};
use tokio::sync::{Mutex, oneshot};

use super::{CREDENTIALS, Events, Held, Process, ProcessSpec, Signal, Stdin};
use crate::client::Harness;
use crate::detached::Begin;
use crate::error::HarnessError;
use crate::network::ManagedNetwork;
use crate::session::delivery;
use crate::session::{Class, Command};
use crate::stdin;

#[derive(Debug)]
pub(super) struct RemoteProcess {
    harness: Harness,
    id: String,
    input: Input,
    /// One write at a time: executors may run calls side by side, and bytes must stay in order.
    writing: Mutex<()>,
    writes: AtomicU64,
    /// In front of the names of writes, where others have written before.
    prefix: String,
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

impl Drop for RemoteProcess {
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
        let process = RemoteProcess {
            harness: self.clone(),
            id,
            input,
            writing: Mutex::new(()),
            writes: AtomicU64::new(1),
            prefix: String::new(),
        };
        Ok(Process::new(Held::Remote(process), Events::Remote(events)))
    }

    /// Follows a process of a kept session, which another connection has started. Its events begin as `begin` says, and where
    /// the executor has dropped output they say so ([`crate::ProcessEvent::Dropped`]).
    ///
    /// # Errors
    ///
    /// When this client follows it already, or too many; otherwise as any call. That there is no such process comes with the
    /// first event.
    pub async fn attach(&self, process: &ProcessInfo, begin: Begin) -> Result<Process, HarnessError> {
        let id = process.process_id.clone();
        let (sender, events) = delivery::process(id.clone(), self.notices());
        let (reply, attached) = oneshot::channel();
        let command = Command::Attach {
            process: id.clone(),
            tail: match begin {
                Begin::Start => None,
                Begin::Tail(bytes) => Some(bytes),
            },
            events: sender,
            reply,
        };
        self.command(command).await?;
        attached.await.map_err(|_| HarnessError::Shutdown)??;
        let process = RemoteProcess {
            harness: self.clone(),
            id,
            input: if process.tty { Input::Terminal } else { Input::Pipe },
            writing: Mutex::new(()),
            writes: AtomicU64::new(1),
            prefix: format!("{}-", uuid::Uuid::new_v4()),
        };
        Ok(Process::new(Held::Remote(process), Events::Remote(events)))
    }

    /// Lists the processes of the session, oldest first; nothing when the executor has no call for that, as stock ones.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn processes(&self) -> Result<Option<Vec<ProcessInfo>>, HarnessError> {
        if !self.has_process_control() {
            return Ok(None);
        }
        let listed = self.call_as::<process::List>(&(), Class::Repeatable).await?;
        Ok(Some(listed.processes))
    }
}

impl RemoteProcess {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) async fn write(&self, bytes: &[u8]) -> Result<(), HarnessError> {
        match self.input {
            Input::None => Err(HarnessError::StdinClosed),
            Input::Terminal | Input::Pipe => self.write_raw(&[bytes]).await,
            Input::Framed if bytes.is_empty() => Ok(()),
            Input::Framed => self.write_raw(&[&stdin::header(bytes.len()), bytes]).await,
        }
    }

    pub(super) async fn close_stdin(&self) -> Result<(), HarnessError> {
        let result = match self.input {
            Input::None => Ok(()),
            Input::Terminal => self.write_raw(&[&[4]]).await,
            Input::Framed => self.write_raw(&[&stdin::header(0)]).await,
            Input::Pipe => {
                let _writing = self.writing.lock().await;
                let params = self.params();
                let harness = &self.harness;
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

    pub(super) async fn resize(&self, rows: u16, columns: u16) -> Result<bool, HarnessError> {
        if !self.harness.has_process_control() {
            return Ok(false);
        }
        let params = ResizeParams {
            process_id: self.id.clone(),
            rows,
            columns,
        };
        let harness = &self.harness;
        harness.call_as::<process::Resize>(&params, Class::Repeatable).await?;
        Ok(true)
    }

    pub(super) async fn interrupt(&self) -> Result<(), HarnessError> {
        let params = SignalParams {
            process_id: self.id.clone(),
            signal: process::Signal::Interrupt,
        };
        self.harness.call::<process::SignalProcess>(&params).await.map(drop)
    }

    pub(super) fn can_signal(&self, signal: Signal) -> bool {
        signal == Signal::INTERRUPT || self.harness.has_process_control()
    }

    pub(super) async fn signal(&self, signal: Signal) -> Result<bool, HarnessError> {
        if !self.can_signal(signal) {
            return Ok(false);
        }
        if signal == Signal::INTERRUPT {
            return self.interrupt().await.map(|()| true);
        }
        let params = SendSignalParams {
            process_id: self.id.clone(),
            signal: signal.name().to_owned(),
        };
        self.harness.call::<process::SendSignal>(&params).await?;
        Ok(true)
    }

    pub(super) async fn terminate(&self) -> Result<bool, HarnessError> {
        let params = self.params();
        let harness = &self.harness;
        let result = harness.call_as::<process::Terminate>(&params, Class::Cleanup).await?;
        Ok(result.running)
    }

    fn params(&self) -> ProcessParams {
        ProcessParams {
            process_id: self.id.clone(),
        }
    }

    async fn write_raw(&self, parts: &[&[u8]]) -> Result<(), HarnessError> {
        let _writing = self.writing.lock().await;
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let params = write_params(&self.id, &format!("{}{number}", self.prefix), parts);
        let method = process::Write::NAME;
        let result = self.harness.call_raw(method, params.into(), Class::Repeatable).await?;
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
fn write_params(process: &str, write: &str, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(len.div_ceil(3) * 4 + process.len() + 64);
    out.extend_from_slice(br#"{"processId":"#);
    // An executor may have told it. Text can always be written.
    let _ = serde_json::to_writer(&mut out, process);
    // Names of writes are ours, and need no escapes.
    out.extend_from_slice(br#","writeId":""#);
    out.extend_from_slice(write.as_bytes());
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
            let params: WriteParams = serde_json::from_slice(&write_params("h1-x", "7", parts)).unwrap();
            let expected = WriteParams {
                process_id: "h1-x".to_owned(),
                chunk: Base64::from(parts.concat()),
                write_id: "7".to_owned(),
            };
            assert_eq!(params, expected);
        }
    }
}
