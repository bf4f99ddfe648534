//! The JSON-RPC server: sessions of processes, and files, over streams of messages.
//!
//! One [`Server`] serves any number of streams. A stream is one JSON-RPC connection; it opens a session or takes up one
//! that lost its stream. The contract stands in `proto/README.md`, "JSON-RPC".

mod connection;
mod dispatch;
mod inbox;
mod push;
mod stream;

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_host::files::Files;
use rendezvous_host::http::Http;
use rendezvous_host::process::Budget;
use rendezvous_host::proxy::Slots;
use rendezvous_host::sandbox::Sandbox;
use rendezvous_host::snapshot::SnapshotBudget;
use rendezvous_rpc::RpcError;
use rendezvous_rpc::method::environment::EnvironmentInfo;
use rendezvous_rpc::method::identity::IdentityStatement;
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::limits::{MAX_MESSAGE, MESSAGE_PREFIX_LEN, SESSION_RETENTION};
use rustls_pki_types::CertificateDer;
use tokio::sync::OnceCell;

pub(crate) use self::connection::Connection;
pub(crate) use self::push::stream_name;
use crate::methods::{environment, http};
use crate::session::Sessions;
pub use crate::session::{DetachedSessions, MAX_SESSIONS, MAX_SESSIONS_PER_HARNESS};

/// Memory that unfinished messages and early records of all streams may occupy together: four of the longest messages, of
/// which one harness may have two.
pub const UNFINISHED_MEMORY: usize = 4 * (MAX_MESSAGE + MESSAGE_PREFIX_LEN);
/// Memory that whole messages of all streams may occupy together until their answers are sent. One message more may be
/// beyond it for each connection.
pub const RECEIVED_MEMORY: usize = 256 * 1024 * 1024;
/// Memory that the windows of all reliable streams may occupy together: what harnesses may have sent ahead, and what is kept
/// until they have it.
pub const WINDOW_MEMORY: usize = 256 * 1024 * 1024;
/// Most calls of one stream that may be answered at once.
pub const MAX_CONCURRENT_REQUESTS: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Sends whole messages to the client.
pub trait Sink: Send + Sync + 'static {
    /// Sends one message, waiting for room. Returns whether the stream could take it; after it could not, the stream is
    /// over.
    fn send(&self, message: Bytes) -> impl Future<Output = bool> + Send;

    /// Ready once the stream is over. What its client asked before is worth an answer no more, though some of it may still
    /// be there to be received. Never ready unless it is implemented.
    fn over(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Called when the client has sent a valid `initialize`, before the answer: it may send large messages from now on.
    fn initialized(&self) {}

    /// Whether the stream can outlive its connection, so that [`Sink::settle`] has to say whether both ends want it.
    fn is_undecided(&self) -> bool {
        false
    }

    /// Called before the answer of `initialize`, with whether it names the extension.
    fn settle(&self, _agreed: bool) {}

    /// Since when the client has been away, if it may come back to this stream, or could have until the stream ended.
    fn suspended_since(&self) -> Option<Instant> {
        None
    }
}

/// Receives whole messages from the client.
pub trait Source: Send {
    /// The next message; nothing once no more will come. What came before is answered unless [`Sink::over`] is ready by
    /// then. Must be cancel-safe.
    fn recv(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// What a server may use, and how long it keeps what nobody is attached to.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a session outlives the connection of its last stream, and the stream itself if that ends later. Zero kills
    /// its processes with the stream.
    pub session_retention: Duration,
    /// Sessions at once, detached ones included.
    pub max_sessions: usize,
    /// Of them, those that one harness key may have opened.
    pub max_sessions_per_harness: usize,
    /// What sessions may be kept for longer than `session_retention`; none: no session.
    pub detached: Option<DetachedSessions>,
    /// Bounds the processes of all sessions together.
    pub budget: Arc<Budget>,
    /// Makes the sandboxes that requests ask for.
    pub sandbox: Sandbox,
    /// Calls of one stream that are answered at once; one means in the order of their arrival.
    pub concurrent_requests: NonZeroUsize,
    /// Bounds the shell snapshots of all sessions together.
    pub snapshots: SnapshotBudget,
    /// Bounds the connections through the proxies of processes, of each session and of all.
    pub proxy_slots: Slots,
    /// Certificate authorities that `http/request` trusts beside the machine's own.
    pub authorities: Arc<[CertificateDer<'static>]>,
    /// What harnesses whose channel ends here are told of the executor's key, if they ask.
    pub identity: Option<IdentityStatement>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            session_retention: SESSION_RETENTION,
            max_sessions: MAX_SESSIONS,
            max_sessions_per_harness: MAX_SESSIONS_PER_HARNESS,
            detached: None,
            budget: Arc::default(),
            sandbox: Sandbox::default(),
            concurrent_requests: NonZeroUsize::MIN,
            snapshots: SnapshotBudget::default(),
            proxy_slots: Slots::default(),
            authorities: Arc::default(),
            identity: None,
        }
    }
}

/// Serves JSON-RPC over streams. Clones share all sessions.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) files: Files,
    pub(crate) sandbox: Sandbox,
    pub(crate) info: EnvironmentInfo,
    http: OnceCell<Http>,
    authorities: Arc<[CertificateDer<'static>]>,
}

impl Shared {
    pub(crate) async fn http(&self) -> Result<&Http, RpcError> {
        http::client(&self.http, &self.authorities).await
    }
}

impl Server {
    /// A server without sessions. Looks at this machine once, for `environment/info`.
    pub fn new(config: Config) -> Self {
        Self {
            shared: Arc::new(Shared {
                files: Files::default(),
                sandbox: config.sandbox.clone(),
                authorities: Arc::clone(&config.authorities),
                sessions: Arc::new(Sessions::new(config)),
                info: environment::describe(),
                http: OnceCell::new(),
            }),
        }
    }

    /// Serves one stream until it is over or breaks the protocol. Its session is detached then.
    ///
    /// Must run inside a tokio runtime with IO and time.
    pub async fn serve_stream(&self, sink: impl Sink, source: impl Source) {
        dispatch::serve(Arc::clone(&self.shared), None, sink, source).await;
    }

    /// Serves one stream of the harness with this key, as [`Self::serve_stream`] does.
    pub async fn serve_harness(&self, harness: KeyDigest, sink: impl Sink, source: impl Source) {
        dispatch::serve(Arc::clone(&self.shared), Some(harness), sink, source).await;
    }

    /// Kills the processes of all sessions, which end; new ones are refused.
    pub fn shut(&self) {
        self.shared.sessions.shut();
    }

    /// Sessions that exist now, detached ones included.
    pub fn sessions(&self) -> usize {
        self.shared.sessions.len()
    }
}
