//! What a session decides: messages and commands in, messages and events out. No IO, no clock.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use rendezvous_rpc::call_table::CallTable;
use rendezvous_rpc::envelope::{self, Message, RequestId};
use rendezvous_rpc::event::ProcessEvent;
use rendezvous_rpc::method::environment::EnvironmentInfo;
use rendezvous_rpc::method::fs::{MissingChanged, MissingChangedParams};
use rendezvous_rpc::method::http::BodyDelta;
use rendezvous_rpc::method::initialize::Extensions;
use rendezvous_rpc::method::network::PolicyDecision;
use rendezvous_rpc::method::process::{self, OutputFrame, ProcessParams, StartParams};
use rendezvous_rpc::method::session::Retain;
use rendezvous_rpc::{Method, Notification, RpcError};
use rendezvous_wire::secret::Secret;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::delivery::EventSender;
use super::{Call, Class, Command, MAX_HELD, MAX_PROCESSES, Notice};
use crate::error::{AttemptError, HarnessError};
use crate::network::ManagedNetwork;
use crate::trust::ExecutorKey;

mod attach;
mod follow;
pub(crate) mod listen;
mod moving;
mod opening;
pub(crate) mod questions;
mod slot;
mod window;

use listen::Listeners;
use questions::Question;
use slot::Slot;

/// What a reply completes.
#[derive(Debug)]
enum Pending {
    Initialize,
    Call(Call),
    Start {
        process: String,
        reply: oneshot::Sender<Result<(), HarnessError>>,
    },
    Read {
        process: String,
    },
    /// Nobody waits for it, but it has to be done.
    Terminate {
        process: String,
    },
}

/// Where the session stands.
#[derive(Debug)]
enum Phase {
    /// No connection, or `initialize` is not answered yet.
    Waiting,
    Ready,
    /// It will never be ready again.
    Dead(HarnessError),
}

/// What the executor told in `initialize`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// A bearer secret.
    pub(crate) session: Option<Secret>,
    pub(crate) environment: Option<EnvironmentInfo>,
    pub(crate) extensions: Extensions,
    /// The key at the other end of the channel, if there is one, once it was judged.
    pub(crate) key: Option<ExecutorKey>,
}

/// The session.
#[derive(Debug)]
pub(crate) struct Core {
    client_name: String,
    phase: Phase,
    session: Option<String>,
    /// Whether to take it from another connection, the first time.
    takes_over: bool,
    /// Whether the executor keeps it: then processes go on without us.
    is_kept: bool,
    peer: Peer,
    calls: CallTable<Pending>,
    processes: HashMap<String, Slot>,
    outbox: VecDeque<Bytes>,
    /// Calls that wait for the session to be ready.
    held: VecDeque<Command>,
    /// Files that the executor holds open for this connection.
    open_files: usize,
    /// Processes that must be terminated once it is, and once there is room for a call.
    to_terminate: Vec<String>,
    /// A process whose reader has no room; nothing more may be read before it has.
    blocked: Option<String>,
    listeners: Listeners,
    /// What the executor asks and nobody has begun to decide.
    questions: Vec<Question>,
    /// Those, and those that are being decided.
    open_questions: usize,
}

impl Core {
    pub(crate) fn new(client_name: String) -> Self {
        Self {
            client_name,
            phase: Phase::Waiting,
            session: None,
            takes_over: false,
            is_kept: false,
            peer: Peer::default(),
            calls: CallTable::default(),
            processes: HashMap::new(),
            outbox: VecDeque::new(),
            held: VecDeque::new(),
            open_files: 0,
            to_terminate: Vec::new(),
            blocked: None,
            listeners: Listeners::default(),
            questions: Vec::new(),
            open_questions: 0,
        }
    }

    /// Begins with a kept session that there is already.
    pub(crate) fn resuming(client_name: String, session: String, takes_over: bool) -> Self {
        Self {
            session: Some(session),
            takes_over,
            is_kept: true,
            ..Self::new(client_name)
        }
    }

    /// Messages to send.
    pub(crate) fn outbox(&mut self) -> &mut VecDeque<Bytes> {
        &mut self.outbox
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn peer_mut(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// Whether another command may be given now.
    pub(crate) fn takes_commands(&self) -> bool {
        self.held.len() < MAX_HELD
    }

    /// The connection is gone: calls that may be repeated wait, the others fail, processes stay.
    pub(crate) fn link_down(&mut self) {
        self.outbox.clear();
        // The executor takes the end of the connection for a denial.
        self.questions.clear();
        self.open_questions = 0;
        if self.is_ready() {
            self.phase = Phase::Waiting;
        }
        let mut repeat: Vec<(i64, Command)> = Vec::new();
        for (id, pending) in std::mem::take(&mut self.calls).take_all() {
            match pending {
                Pending::Call(call) if call.class == Class::Repeatable => repeat.push((id, Command::Call(call))),
                Pending::Call(call) => {
                    let _ = call.reply.send(Err(HarnessError::OutcomeUnknown(call.method)));
                }
                Pending::Start { process, reply } => {
                    let _ = reply.send(Err(HarnessError::OutcomeUnknown(process::Start::NAME)));
                    self.processes.remove(&process);
                    self.to_terminate.push(process);
                }
                Pending::Terminate { process } => self.to_terminate.push(process),
                Pending::Initialize | Pending::Read { .. } => {}
            }
        }
        repeat.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
        for (_, command) in repeat {
            self.held.push_front(command);
        }
        for slot in self.processes.values_mut() {
            slot.reading = false;
        }
        self.listeners.link_down();
    }

    /// The session ends for good: everything fails with `error`.
    pub(crate) fn fail(&mut self, error: &HarnessError) {
        self.phase = Phase::Dead(error.clone());
        self.outbox.clear();
        for (_, pending) in std::mem::take(&mut self.calls).take_all() {
            match pending {
                Pending::Call(call) => drop(call.reply.send(Err(error.clone()))),
                Pending::Start { reply, .. } => drop(reply.send(Err(error.clone()))),
                Pending::Initialize | Pending::Read { .. } | Pending::Terminate { .. } => {}
            }
        }
        for command in std::mem::take(&mut self.held) {
            self.command(command);
        }
        for (_, slot) in self.processes.drain() {
            slot.events.fail(error.clone());
        }
        self.blocked = None;
        self.listeners.link_down();
    }

    /// Takes what a handle asks for.
    pub(crate) fn command(&mut self, command: Command) {
        match (&self.phase, command) {
            (Phase::Dead(error), Command::Call(call)) => drop(call.reply.send(Err(error.clone()))),
            (Phase::Dead(error), Command::Start { reply, .. } | Command::Attach { reply, .. }) => {
                let _ = reply.send(Err(error.clone()));
            }
            (Phase::Waiting, command) => self.held.push_back(command),
            (Phase::Ready, Command::Call(call)) => self.send_call(call),
            (
                Phase::Ready,
                Command::Start {
                    params,
                    network,
                    events,
                    reply,
                },
            ) => self.start(&params, network, events, reply),
            (
                Phase::Ready,
                Command::Attach {
                    process,
                    tail,
                    events,
                    reply,
                },
            ) => self.attach(&process, tail, events, reply),
        }
    }

    /// Takes what a reader's end tells.
    pub(crate) fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Abandoned(process) => self.abandon(process),
            Notice::Consumed(process) => self.consumed(&process),
        }
    }

    /// Nobody holds the process any more.
    fn abandon(&mut self, process: String) {
        if self.blocked.as_ref() == Some(&process) {
            self.blocked = None;
        }
        if self.processes.remove(&process).is_some() && !self.is_kept {
            self.terminate(process);
        }
    }

    /// Takes a message of the executor.
    ///
    /// # Errors
    ///
    /// When no executor may say that, so that the connection must go; or when `initialize` was refused.
    pub(crate) fn message(&mut self, bytes: &[u8]) -> Result<(), AttemptError> {
        if let Some(frame) = OutputFrame::parse(bytes)
            && let Some((seq, event)) = frame.decode()
        {
            self.event(frame.process_id, seq, event);
            return Ok(());
        }
        match Message::decode(bytes).map_err(violation)? {
            Message::Response(response) => self.reply(&response.id, Ok(response.result)),
            Message::Error(error) => self.reply(&error.id, Err(error.error)),
            Message::Notification(news) => self.news(&news.method, news.params.as_deref()),
            Message::Request(request) => {
                self.called(request);
                Ok(())
            }
        }
    }

    /// What the driver must wait for before it may read on.
    pub(crate) fn blocked(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let slot = self.blocked.as_ref().and_then(|process| self.processes.get(process));
        let (process, body) = (slot.map(Slot::room), self.listeners.blocked());
        let is_blocked = process.is_some() || body.is_some();
        // One message fills one of them, so that the other is none.
        is_blocked.then_some(async move {
            if let Some(room) = process {
                room.await;
            }
            if let Some(room) = body {
                room.await;
            }
        })
    }

    /// There may be room again.
    pub(crate) fn unblock(&mut self) {
        if let Some(process) = self.blocked.take() {
            self.advance(&process);
        }
        self.listeners.unblock();
    }

    fn send_call(&mut self, mut call: Call) {
        if let Some(listener) = call.listener.take()
            && let Err(error) = self.listeners.add(listener)
        {
            let _ = call.reply.send(Err(error));
            return;
        }
        let (class, method, params) = (call.class, call.method, call.params.clone());
        self.call_raw(class, method, &params, Pending::Call(call));
    }

    fn start(
        &mut self,
        params: &StartParams,
        network: Option<ManagedNetwork>,
        events: EventSender,
        reply: oneshot::Sender<Result<(), HarnessError>>,
    ) {
        if self.processes.len() >= MAX_PROCESSES {
            let _ = reply.send(Err(HarnessError::TooManyProcesses(MAX_PROCESSES)));
            return;
        }
        let process = params.process_id.clone();
        let mut slot = Slot::new(events);
        slot.network = network;
        slot.is_paged = self.is_kept;
        self.processes.insert(process.clone(), slot);
        self.call(
            Class::Once,
            process::Start::NAME,
            params,
            Pending::Start { process, reply },
        );
    }

    fn call(&mut self, class: Class, method: &'static str, params: &impl Serialize, pending: Pending) {
        // Every type of the contract can be written; if one could not, null gets a refusal that names the method.
        let params = serde_json::to_vec(params).unwrap_or_else(|_| b"null".to_vec());
        self.call_raw(class, method, &params, pending);
    }

    fn call_raw(&mut self, class: Class, method: &'static str, params: &[u8], pending: Pending) {
        match self.calls.begin(class.lane(), pending) {
            Ok(id) => {
                let mut message = Vec::with_capacity(params.len() + method.len() + 64);
                message.extend_from_slice(br#"{"id":"#);
                message.extend_from_slice(id.to_string().as_bytes());
                message.extend_from_slice(br#","method":""#);
                message.extend_from_slice(method.as_bytes());
                message.extend_from_slice(br#"","params":"#);
                message.extend_from_slice(params);
                message.push(b'}');
                self.outbox.push_back(message.into());
            }
            Err((error, Pending::Call(call))) => drop(call.reply.send(Err(error.into()))),
            Err((error, Pending::Start { process, reply })) => {
                self.processes.remove(&process);
                let _ = reply.send(Err(error.into()));
            }
            Err((_, Pending::Read { process })) => {
                // Read again as soon as another event arrives.
                if let Some(slot) = self.processes.get_mut(&process) {
                    slot.reading = false;
                }
            }
            Err((_, Pending::Terminate { process })) => self.to_terminate.push(process),
            Err((_, Pending::Initialize)) => {}
        }
    }

    fn terminate(&mut self, process: String) {
        if self.is_ready() {
            let params = ProcessParams {
                process_id: process.clone(),
            };
            let pending = Pending::Terminate { process };
            self.call(Class::Cleanup, process::Terminate::NAME, &params, pending);
        } else {
            self.to_terminate.push(process);
        }
    }

    fn reply(&mut self, id: &RequestId, result: Result<Box<RawValue>, RpcError>) -> Result<(), AttemptError> {
        match (self.calls.finish(id), result) {
            (None | Some(Pending::Terminate { .. }), _) => {}
            (Some(Pending::Initialize), result) => return self.initialized(result),
            (Some(Pending::Call(call)), result) => {
                self.count_open_files(call.method, result.is_ok());
                self.is_kept |= call.method == Retain::NAME && result.is_ok();
                let _ = call.reply.send(result.map_err(HarnessError::Refused));
            }
            (Some(Pending::Start { process, reply }), Ok(_)) => {
                if reply.send(Ok(())).is_err() {
                    self.abandon(process);
                }
            }
            (Some(Pending::Start { process, reply }), Err(error)) => {
                self.processes.remove(&process);
                let _ = reply.send(Err(HarnessError::Refused(error)));
            }
            (Some(Pending::Read { process }), Ok(result)) => match envelope::decode_result(&result) {
                Ok(page) => self.page(&process, page),
                Err(error) => return Err(violation(format_args!("process/read: {error}"))),
            },
            (Some(Pending::Read { process }), Err(error)) => self.lose(&process, HarnessError::ProcessLost(error)),
        }
        // There is room for one more call.
        if self.is_ready()
            && let Some(process) = self.to_terminate.pop()
        {
            self.terminate(process);
        }
        Ok(())
    }

    fn news(&mut self, method: &str, params: Option<&str>) -> Result<(), AttemptError> {
        if method == process::Output::NAME {
            let news: process::OutputParams = envelope::decode_params(params).map_err(violation)?;
            let event = ProcessEvent::Output {
                stream: news.stream,
                bytes: news.chunk.0,
            };
            self.event(&news.process_id, news.seq, event);
        } else if method == process::Exited::NAME {
            let news: process::ExitedParams = envelope::decode_params(params).map_err(violation)?;
            let event = ProcessEvent::Exited {
                code: news.exit_code,
                sandbox_denied: news.sandbox_denied,
            };
            self.event(&news.process_id, news.seq, event);
        } else if method == process::Closed::NAME {
            let news: process::ClosedParams = envelope::decode_params(params).map_err(violation)?;
            self.event(&news.process_id, news.seq, ProcessEvent::Closed);
        } else if method == BodyDelta::NAME {
            self.listeners
                .delta(envelope::decode_params(params).map_err(violation)?);
        } else if method == MissingChanged::NAME {
            let news: MissingChangedParams = envelope::decode_params(params).map_err(violation)?;
            self.listeners.changed(news.watch_id);
        } else if method == PolicyDecision::NAME
            && let Ok(decision) = envelope::decode_params(params)
        {
            // For people: one that cannot be read is no reason to end the connection.
            self.decided(decision);
        }
        Ok(())
    }
}

fn violation(reason: impl std::fmt::Display) -> AttemptError {
    AttemptError::Violation(reason.to_string())
}

#[cfg(test)]
mod tests;
