//! The HTTP side of the listener: one path to upgrade, one to ask whether it is ready.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use rendezvous_channel::budget::Budget;
use rendezvous_service::net::{self, Peer};
use rendezvous_transport::dial::DIRECT_USER_TIMEOUT;
use rendezvous_transport::stream::Backlog;
use rendezvous_transport::{direct, socket};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::auth::Auth;
use crate::server::{RECEIVED_MEMORY, Server, UNFINISHED_MEMORY};

/// WebSocket connections at once; more are answered with 503.
pub const MAX_CONNECTIONS: usize = 128;
/// Longest time between our 101 and the socket being ours.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the connections may take to end after the stop.
const LAST_WORDS: Duration = Duration::from_secs(5);

type Answer = Response<Full<Bytes>>;

/// Answers requests, and serves the connections that come of them.
#[derive(Debug)]
pub(super) struct Handler {
    server: Server,
    auth: Option<Auth>,
    room: Arc<Semaphore>,
    memory: Memory,
    connections: TaskTracker,
    stop: CancellationToken,
}

/// What clients may make us hold, all together.
#[derive(Clone, Debug)]
struct Memory {
    unfinished: Budget,
    whole: Backlog,
}

impl Handler {
    pub(super) fn new(server: Server, auth: Option<Auth>, stop: CancellationToken) -> Self {
        Self {
            server,
            auth,
            room: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            memory: Memory {
                unfinished: Budget::new(UNFINISHED_MEMORY),
                whole: Backlog::new(RECEIVED_MEMORY),
            },
            connections: TaskTracker::new(),
            stop,
        }
    }

    /// Waits for the end of all connections after the stop.
    pub(super) async fn finish(&self) {
        self.connections.close();
        if timeout(LAST_WORDS, self.connections.wait()).await.is_err() {
            tracing::warn!(open = self.connections.len(), "connections were cut by the shutdown");
        }
    }

    pub(super) fn answer(&self, request: Request<Incoming>, peer: Peer) -> Answer {
        // Only browsers send it, and a page that a user visits must not reach this machine.
        if request.headers().contains_key(header::ORIGIN) {
            tracing::debug!(peer = %peer.addr, "refused: a browser");
            return empty(StatusCode::FORBIDDEN);
        }
        match request.uri().path() {
            "/" | "/readyz" if !matches!(*request.method(), Method::GET | Method::HEAD) => {
                empty(StatusCode::METHOD_NOT_ALLOWED)
            }
            "/" => self.upgrade(request, peer),
            "/readyz" => empty(StatusCode::OK),
            _ => empty(StatusCode::NOT_FOUND),
        }
    }

    fn upgrade(&self, mut request: Request<Incoming>, peer: Peer) -> Answer {
        if let Some(auth) = &self.auth
            && let Err(reason) = auth.check(request.headers())
        {
            tracing::info!(peer = %peer.addr, %reason, "refused");
            return empty(StatusCode::UNAUTHORIZED);
        }
        let answer = match direct::accept(&request) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(peer = %peer.addr, %error, "refused");
                return empty(StatusCode::BAD_REQUEST);
            }
        };
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            tracing::warn!(peer = %peer.addr, "refused: {MAX_CONNECTIONS} connections are open");
            return busy();
        };
        let socket = hyper::upgrade::on(&mut request);
        let (server, memory, stop) = (self.server.clone(), self.memory.clone(), self.stop.clone());
        self.connections.spawn(async move {
            serve(socket, &server, &memory, stop, peer).await;
            drop(place);
        });
        answer
    }
}

async fn serve(socket: OnUpgrade, server: &Server, memory: &Memory, stop: CancellationToken, peer: Peer) {
    let Ok(Ok(upgraded)) = timeout(UPGRADE_TIMEOUT, socket).await else {
        tracing::debug!(peer = %peer.addr, "upgrade failed");
        return;
    };
    let (socket, early) = match net::downcast(upgraded) {
        Ok(parts) => parts,
        Err(upgraded) => {
            tracing::error!(?upgraded, "the HTTP server has an unknown kind of socket");
            return;
        }
    };
    tracing::info!(peer = %peer.addr, "connected");
    socket::prepare(socket.tcp(), DIRECT_USER_TIMEOUT);
    let stream = direct::serve(socket, early, &memory.unfinished, &memory.whole).await;
    let (sender, mut receiver) = stream.split();
    tokio::select! {
        () = server.serve_stream(sender, &mut receiver) => {}
        () = stop.cancelled() => {}
    }
    // With a close frame, behind what was sent before.
    receiver.close().await;
    tracing::info!(peer = %peer.addr, "disconnected");
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = status;
    answer
}

fn busy() -> Answer {
    let mut answer = empty(StatusCode::SERVICE_UNAVAILABLE);
    answer
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}
