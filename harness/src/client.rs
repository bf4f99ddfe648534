//! The handle of a session: connects and makes typed calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rendezvous_rpc::envelope;
use rendezvous_rpc::method::environment::{self, EnvironmentInfo};
use rendezvous_rpc::method::initialize::{OUTPUT_WINDOW, PROCESS_CONTROL};
use rendezvous_rpc::method::session::DETACHED_SESSIONS;
use rendezvous_rpc::{Method, PathUri};
use rendezvous_wire::secret::Secret;
use serde_json::value::RawValue;
use tokio::sync::{OnceCell, mpsc, oneshot, watch};

use crate::connect::{ListenerConnector, ProgramConnector, RelayConnector};
use crate::endpoint::Endpoint;
use crate::error::HarnessError;
use crate::recovery::Policy;
use crate::session::core::listen::Listener;
use crate::session::core::{Core, Peer};
use crate::session::driver::{self, Connector, LinkState, Shared};
use crate::session::{Call, Class, Command, MAX_HELD, Notice};
use crate::trust::ExecutorKey;

/// What we call ourselves in `initialize`.
const CLIENT_NAME: &str = concat!("rendezvous-harness/", env!("CARGO_PKG_VERSION"));

/// A session with one executor. Clones share it; it ends when the last clone and the last process handle are gone, and the
/// executor then kills what still runs.
///
/// A lost connection is made again behind the scenes. Calls that are made meanwhile wait. A call that was running fails
/// with [`HarnessError::OutcomeUnknown`] when it must not be repeated. Replies and events arrive in one order: whoever makes calls
/// must keep taking the events of its processes, or both stop (see [`crate::process::Process`]).
#[derive(Clone, Debug)]
pub struct Harness {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    commands: mpsc::Sender<Command>,
    notices: mpsc::UnboundedSender<Notice>,
    state: watch::Receiver<LinkState>,
    connections: watch::Receiver<u64>,
    peer: Peer,
    /// Asked for when `initialize` did not tell it.
    info: OnceCell<EnvironmentInfo>,
    next: AtomicU64,
}

impl Harness {
    /// Connects and opens a session, through a relay ([`crate::Options`]) or in another of the ways that there are. Must be
    /// called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// When the options cannot be used, or the executor cannot be reached within the policy of the options.
    pub async fn connect(to: impl Into<Endpoint>) -> Result<Self, HarnessError> {
        Self::begin(to.into(), Core::new(CLIENT_NAME.to_owned())).await
    }

    /// Connects and takes up a kept session ([`Harness::retain`]); `take_over` takes it from another connection, which ends.
    /// Its processes go on when this one ends, too. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// As [`Harness::connect`]; one for which [`HarnessError::is_session_gone`] is true when there is no such session.
    pub async fn resume(to: impl Into<Endpoint>, session: &Secret, take_over: bool) -> Result<Self, HarnessError> {
        let core = Core::resuming(CLIENT_NAME.to_owned(), session.expose().to_owned(), take_over);
        Self::begin(to.into(), core).await
    }

    async fn begin(to: Endpoint, core: Core) -> Result<Self, HarnessError> {
        match to {
            Endpoint::Relay(options) => {
                let (first, lost) = (options.first, options.lost);
                Self::over(RelayConnector::new(*options)?, core, first, lost).await
            }
            Endpoint::Listener(listener) => {
                let (first, lost) = (listener.first(), listener.lost);
                Self::over(ListenerConnector::new(*listener)?, core, first, lost).await
            }
            Endpoint::Program(program) => {
                let policy = program.policy();
                Self::over(ProgramConnector::new(*program), core, policy, policy).await
            }
        }
    }

    pub(crate) async fn over<C: Connector>(
        connector: C,
        core: Core,
        first: Policy,
        lost: Policy,
    ) -> Result<Self, HarnessError> {
        let (commands, commands_end) = mpsc::channel(MAX_HELD);
        let (notices, notices_end) = mpsc::unbounded_channel();
        let (state_end, state) = watch::channel(LinkState::Connecting);
        let (connections_end, connections) = watch::channel(0);
        let (connected_end, connected) = oneshot::channel();
        let shared = Shared {
            commands: commands_end,
            notices: notices_end,
            state: state_end,
            connections: connections_end,
            connected: Some(connected_end),
        };
        tokio::spawn(driver::run(connector, core, shared, first, lost));
        let peer = connected.await.map_err(|_| HarnessError::Shutdown)??;
        Ok(Self {
            inner: Arc::new(Inner {
                commands,
                notices,
                state,
                connections,
                peer,
                info: OnceCell::new(),
                next: AtomicU64::new(1),
            }),
        })
    }

    /// How the connection is, now and whenever it changes.
    pub fn link_state(&self) -> watch::Receiver<LinkState> {
        self.inner.state.clone()
    }

    /// Changes with every connection that takes the place of a lost one, so that the executor has forgotten what it held for
    /// the connection alone.
    pub(crate) fn connections(&self) -> watch::Receiver<u64> {
        self.inner.connections.clone()
    }

    /// Describes the executor's machine.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn info(&self) -> Result<EnvironmentInfo, HarnessError> {
        if let Some(info) = &self.inner.peer.environment {
            return Ok(info.clone());
        }
        let asked = self.inner.info.get_or_try_init(|| self.call::<environment::Info>(&()));
        asked.await.cloned()
    }

    /// Asks the executor whether it works: one round trip through the whole way.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn status(&self) -> Result<(), HarnessError> {
        self.call_as::<environment::Status>(&(), Class::Repeatable)
            .await
            .map(drop)
    }

    /// The key of the executor, by which it is told from others; none on connections without a channel.
    pub fn executor_key(&self) -> Option<&ExecutorKey> {
        self.inner.peer.key.as_ref()
    }

    /// Whether the executor can end a process's stdin, resize its terminal, send it every signal, and list what runs.
    pub fn has_process_control(&self) -> bool {
        self.inner.peer.extensions.has(PROCESS_CONTROL, 1)
    }

    /// Whether the executor holds a process up, and drops nothing, while its reader is slow or the connection is lost.
    pub fn has_output_window(&self) -> bool {
        self.inner.peer.extensions.has(OUTPUT_WINDOW, 1)
    }

    /// Whether the executor can keep sessions without a connection, for longer than usual.
    pub fn has_detached_sessions(&self) -> bool {
        self.inner.peer.extensions.has(DETACHED_SESSIONS, 1)
    }

    /// The id of the session, by which [`Harness::resume`] takes it up: a secret.
    pub(crate) fn peer_session(&self) -> Option<&Secret> {
        self.inner.peer.session.as_ref()
    }

    /// The executor's working directory, or its root when it tells none.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn working_directory(&self) -> Result<PathUri, HarnessError> {
        match self.info().await?.cwd {
            Some(cwd) => Ok(cwd),
            None => Ok(PathUri::parse("file:///")?),
        }
    }

    pub(crate) async fn call<M: Method>(&self, params: &M::Params) -> Result<M::Result, HarnessError> {
        self.call_as::<M>(params, Class::Once).await
    }

    pub(crate) async fn call_as<M: Method>(&self, params: &M::Params, class: Class) -> Result<M::Result, HarnessError> {
        self.call_with::<M>(params, class, None).await
    }

    pub(crate) async fn call_with<M: Method>(
        &self,
        params: &M::Params,
        class: Class,
        listener: Option<Listener>,
    ) -> Result<M::Result, HarnessError> {
        let params = serde_json::to_vec(params).map_err(|error| HarnessError::Answer {
            method: M::NAME,
            reason: error.to_string(),
        })?;
        let result = self.call_and_listen(M::NAME, params.into(), class, listener).await?;
        envelope::decode_result(&result).map_err(|error| HarnessError::Answer {
            method: M::NAME,
            reason: error.to_string(),
        })
    }

    pub(crate) async fn call_raw(
        &self,
        method: &'static str,
        params: Bytes,
        class: Class,
    ) -> Result<Box<RawValue>, HarnessError> {
        self.call_and_listen(method, params, class, None).await
    }

    /// Makes a call whose news go to `listener` from the moment that it is sent.
    pub(crate) async fn call_and_listen(
        &self,
        method: &'static str,
        params: Bytes,
        class: Class,
        listener: Option<Listener>,
    ) -> Result<Box<RawValue>, HarnessError> {
        let (reply, result) = oneshot::channel();
        let call = Call {
            method,
            params,
            class,
            listener,
            reply,
        };
        self.command(Command::Call(call)).await?;
        result.await.map_err(|_| HarnessError::Shutdown)?
    }

    pub(crate) async fn command(&self, command: Command) -> Result<(), HarnessError> {
        self.inner
            .commands
            .send(command)
            .await
            .map_err(|_| HarnessError::Shutdown)
    }

    /// Tells the driver that nobody holds a process any more.
    pub(crate) fn abandon(&self, process: &str) {
        // The driver is gone only when everything has ended.
        let _ = self.inner.notices.send(Notice::Abandoned(process.to_owned()));
    }

    /// Where the reader of a process tells how far it has come.
    pub(crate) fn notices(&self) -> mpsc::UnboundedSender<Notice> {
        self.inner.notices.clone()
    }

    /// A number that this client has not used yet.
    pub(crate) fn next_number(&self) -> u64 {
        self.inner.next.fetch_add(1, Ordering::Relaxed)
    }
}
