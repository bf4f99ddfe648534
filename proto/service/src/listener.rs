//! The HTTP/1.1 server of every daemon.
//!
//! A handler is a clonable function from a request to a response. It may upgrade the connection: it keeps
//! `hyper::upgrade::on(&mut request)`, answers 101, and takes the socket with [`crate::net::downcast`]. From then on the
//! connection is the handler's: it no longer counts against [`Limits::max_connections`], and shutdown does not touch it.

mod places;

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::places::{Place, Places};
use crate::net::{Impatient, Peer, Stream};
use crate::tls::ServerConfigLoader;

/// Connections that are told 503 at once when [`Limits::max_connections`] are busy; more are closed without a word.
pub const MAX_REFUSALS: usize = 64;
/// Longest time that a refusal may take.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections that the kernel may hold before they are accepted.
const BACKLOG: u32 = 4096;
/// Pause after a failed accept, which mostly means that file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection that was let in, but was not asked anything yet, goes on waiting for its request when the server
/// stops. Some peers take a request that breaks off for more than an outage.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a [`Server`] bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections that speak HTTP at once, TLS handshakes included, upgraded ones not. When there are more, the one leaves
    /// that has waited longest for a request.
    pub max_connections: usize,
    /// Longest time for a request's head, and for an idle connection to wait for its next request.
    pub header_timeout: Duration,
    /// Longest time that a peer may take nothing of an answer that waits for it.
    pub write_timeout: Duration,
    /// Largest head of a request, in bytes; more is answered with 431. At least 8 KiB.
    pub max_header: usize,
    /// Longest time for a TLS handshake.
    pub tls_timeout: Duration,
    /// How long requests in flight may go on after the shutdown.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            header_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            max_header: 16 * 1024,
            tls_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(10),
        }
    }
}

/// The address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr}")]
pub struct BindError {
    /// The address.
    pub addr: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// A bound listener.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
    tls: Option<Arc<ServerConfigLoader>>,
    limits: Limits,
}

impl Server {
    /// Binds `addr`, port 0 for any free one. With `tls` only TLS is spoken. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// When the address is taken or not ours.
    pub fn bind(addr: SocketAddr, tls: Option<Arc<ServerConfigLoader>>) -> Result<Self, BindError> {
        let bind = || {
            let socket = match addr {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            socket.set_reuseaddr(true)?;
            socket.bind(addr)?;
            let listener = socket.listen(BACKLOG)?;
            let addr = listener.local_addr()?;
            Ok((listener, addr))
        };
        let (listener, bound) = bind().map_err(|source| BindError { addr, source })?;
        Ok(Self {
            listener,
            addr: bound,
            tls,
            limits: Limits::default(),
        })
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The bound address, with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Whether TLS is spoken.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves until `shutdown` is cancelled and the requests in flight are answered, or [`Limits::grace`] is over. Who has
    /// connected by then and asks within a second is answered too.
    /// Upgraded connections are the handler's to end, by the same token.
    pub async fn serve<H, F, B>(self, handler: H, shutdown: CancellationToken)
    where
        H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let tasks = TaskTracker::new();
        let kill = CancellationToken::new();
        let places = Places::new(self.limits.max_connections);
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        if let Some(tls) = &self.tls {
            tasks.spawn(tls.clone().watch(shutdown.clone()));
        }
        let http = Arc::new(http(&self.limits));
        let let_in = |tcp: TcpStream, addr: SocketAddr| {
            let admission = match places.take() {
                Some(place) => Admission::Serve(place),
                None => match refusals.clone().try_acquire_owned() {
                    Ok(slot) => Admission::Refuse(slot),
                    Err(_) => return,
                },
            };
            let connection = Connection {
                http: http.clone(),
                tls: self.tls.as_ref().map(|tls| TlsAcceptor::from(tls.config())),
                tls_timeout: self.limits.tls_timeout,
                write_timeout: self.limits.write_timeout,
                handler: handler.clone(),
                shutdown: shutdown.clone(),
            };
            let kill = kill.clone();
            tasks.spawn(async move {
                tokio::select! {
                    () = kill.cancelled() => {}
                    () = connection.run(tcp, addr, admission) => {}
                }
            });
        };
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((tcp, addr)) => let_in(tcp, addr),
                Err(error) => accept_failed(&error).await,
            }
        }
        // To close the listener resets whom the kernel has let in already.
        if let Ok(listener) = self.listener.into_std() {
            // New ones may come as fast as they are let in.
            for _ in 0..BACKLOG {
                match listener.accept() {
                    Ok((tcp, addr)) => {
                        let tcp = tcp.set_nonblocking(true).and_then(|()| TcpStream::from_std(tcp));
                        if let Ok(tcp) = tcp {
                            let_in(tcp, addr);
                        }
                    }
                    Err(error) if is_passing(&error) => {}
                    Err(_) => break,
                }
            }
        }
        tasks.close();
        if timeout(self.limits.grace, tasks.wait()).await.is_err() {
            tracing::warn!(open = tasks.len(), "requests were cut by the shutdown");
            kill.cancel();
            tasks.wait().await;
        }
    }
}

fn http(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(limits.max_header)
        // Room for the largest head; bodies go through it piece by piece.
        .max_buf_size(limits.max_header.saturating_mul(2).max(8192));
    http
}

async fn accept_failed(error: &io::Error) {
    if !is_passing(error) {
        tracing::warn!(%error, "cannot accept connections");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

/// Whether it says nothing of the next connection: a peer gave up before it was accepted.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

enum Admission {
    Serve(Place),
    Refuse(OwnedSemaphorePermit),
}

/// What the task of one connection needs.
struct Connection<H> {
    http: Arc<http1::Builder>,
    tls: Option<TlsAcceptor>,
    tls_timeout: Duration,
    write_timeout: Duration,
    handler: H,
    shutdown: CancellationToken,
}

impl<H, F, B> Connection<H>
where
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    async fn run(self, tcp: TcpStream, addr: SocketAddr, admission: Admission) {
        match admission {
            Admission::Serve(place) => {
                let serve = async {
                    let Some((stream, peer)) = self.open(tcp, addr).await else {
                        return;
                    };
                    let answer = |request| {
                        place.work();
                        let answer = (self.handler)(request, peer);
                        async {
                            let answer = answer.await;
                            place.rest();
                            answer
                        }
                    };
                    self.drive(stream, answer).await;
                };
                tokio::select! {
                    () = serve => {}
                    () = place.evicted() => tracing::debug!(%addr, "closed: others need the place"),
                }
            }
            Admission::Refuse(slot) => {
                tracing::debug!(%addr, "refused: too many connections");
                let refuse = async {
                    if let Some((stream, _)) = self.open(tcp, addr).await {
                        self.drive(stream, |_| std::future::ready(too_many())).await;
                    }
                };
                // Whoever does not take the refusal in time goes without.
                let _ = timeout(REFUSAL_TIMEOUT, refuse).await;
                drop(slot);
            }
        }
    }

    async fn open(&self, tcp: TcpStream, addr: SocketAddr) -> Option<(Stream, Peer)> {
        // Fails only for a socket that is dead already.
        let _ = tcp.set_nodelay(true);
        let tls = self.tls.is_some();
        let stream = match &self.tls {
            None => Stream::Plain(tcp),
            Some(acceptor) => match timeout(self.tls_timeout, acceptor.accept(tcp)).await {
                Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                Ok(Err(error)) => {
                    tracing::debug!(%addr, %error, "TLS handshake failed");
                    return None;
                }
                Err(_) => {
                    tracing::debug!(%addr, "TLS handshake timed out");
                    return None;
                }
            },
        };
        Some((stream, Peer { addr, tls }))
    }

    async fn drive<S, R, C>(&self, stream: Stream, serve: S)
    where
        S: Fn(Request<Incoming>) -> R,
        R: Future<Output = Response<C>>,
        C: Body + Send + 'static,
        C::Data: Send,
        C::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let asked = Notify::new();
        let service = service_fn(|request| {
            asked.notify_one();
            let response = serve(request);
            async move { Ok::<_, Infallible>(response.await) }
        });
        let mut connection = pin!(
            self.http
                .serve_connection(TokioIo::new(Impatient::new(stream, self.write_timeout)), service)
                .with_upgrades()
        );
        let stop = async {
            self.shutdown.cancelled().await;
            // Ready at once if anything was asked before.
            let _ = timeout(FAREWELL, asked.notified()).await;
        };
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = stop => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            tracing::debug!(%error, "connection ended");
        }
    }
}

fn too_many() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"too many connections\n")));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}

/// Why a request's body was not taken; the peer is at fault.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BodyError {
    /// Longer than the limit: 413.
    #[error("the request body is larger than {0} bytes")]
    TooLarge(usize),
    /// Not complete in time: 408.
    #[error("the request body did not arrive in time")]
    Timeout,
    /// The connection broke, or the body is malformed.
    #[error("the request body is incomplete")]
    Incomplete,
}

impl BodyError {
    /// The status to answer with.
    pub fn status(self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Incomplete => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads a whole request body of at most `limit` bytes within `time`.
///
/// # Errors
///
/// See [`BodyError`]; after any of them the connection should be closed.
pub async fn read_body<B>(body: B, limit: usize, time: Duration) -> Result<Bytes, BodyError>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLarge(limit));
    }
    match timeout(time, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(BodyError::TooLarge(limit)),
        Ok(Err(_)) => Err(BodyError::Incomplete),
        Err(_) => Err(BodyError::Timeout),
    }
}
