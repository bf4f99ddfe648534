//! A running server and raw clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use rendezvous_service::listener::{Limits, Server};
use rendezvous_service::net::Peer;
use rendezvous_service::tls::ServerConfigLoader;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest time that any step of a test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) done: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start<H, F>(limits: Limits, tls: Option<Arc<ServerConfigLoader>>, handler: H) -> Self
    where
        H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let server = Server::bind(([127, 0, 0, 1], 0).into(), tls)
            .expect("bind")
            .with_limits(limits);
        let addr = server.local_addr();
        let stop = CancellationToken::new();
        let done = tokio::spawn(server.serve(handler, stop.clone()));
        Self { addr, stop, done }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.expect("connect")
    }

    /// One request on a connection of its own; the whole answer.
    pub(crate) async fn get(&self, path: &str) -> String {
        get(self.addr, path).await
    }

    pub(crate) async fn finish(self) {
        self.stop.cancel();
        within(self.done).await.expect("server");
    }
}

pub(crate) async fn get(addr: SocketAddr, path: &str) -> String {
    let mut client = TcpStream::connect(addr).await.expect("connect");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("write");
    rest(&mut client).await
}

pub(crate) async fn hello(request: Request<Incoming>, peer: Peer) -> Response<Full<Bytes>> {
    let body = format!("{} tls={}", request.uri().path(), peer.tls);
    Response::new(Full::new(body.into()))
}

/// Everything up to the end of the connection; a reset counts as an end.
pub(crate) async fn rest(client: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = within(client.read_to_end(&mut bytes)).await;
    String::from_utf8(bytes).expect("text")
}

/// Reads until `end` was seen.
pub(crate) async fn until(client: &mut (impl tokio::io::AsyncRead + Unpin), end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let byte = within(client.read_u8()).await;
        bytes.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&bytes))));
    }
    String::from_utf8(bytes).expect("text")
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}
