//! HTTP/1.1 over the connections of a [`Connector`].

use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rendezvous_wire::limits::MAX_REGISTRY_RESPONSE;
use tower_service::Service;
use url::Url;

use super::CallError;
use super::clear_text::Watched;
use crate::connector::{ConnectError, Connector, Socket, Target};

/// Connections that are kept for the next call.
const MAX_IDLE_CONNECTIONS: usize = 4;
/// How long they are kept: less than servers keep theirs, so that a call seldom meets a closed one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes calls; follows no redirect and sends none twice. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub(super) struct Http(Client<Dial, Full<Bytes>>);

impl Http {
    pub(super) fn new(connector: Connector) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(Dial(connector));
        Self(client)
    }

    /// Posts a body and waits for the begin of the answer.
    pub(super) async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, CallError> {
        let request = Request::post(url).body(Full::from(body));
        let mut request = request.map_err(|error| CallError::Malformed(error.to_string()))?;
        *request.headers_mut() = headers;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("*/*"));
        self.0.request(request).await.map_err(CallError::from_http)
    }
}

/// The whole body, at most [`MAX_REGISTRY_RESPONSE`] bytes.
pub(super) async fn read(mut body: Incoming) -> Result<Vec<u8>, CallError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| CallError::Interrupted(error.into()))?;
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        if bytes.len() + chunk.len() > MAX_REGISTRY_RESPONSE {
            return Err(CallError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Opens connections for the client's pool.
#[derive(Clone, Debug)]
struct Dial(Connector);

impl Service<Uri> for Dial {
    type Response = Conn;
    /// Shared, because the client gives its errors' sources by reference only.
    type Error = Arc<ConnectError>;
    type Future = Pin<Box<dyn Future<Output = Result<Conn, Arc<ConnectError>>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.0.clone();
        Box::pin(async move {
            // The caller's URL was checked, so that nothing is left to go wrong here.
            let url = uri.to_string().parse::<Url>().ok();
            let target = url.as_ref().and_then(Target::of).ok_or(ConnectError::Name)?;
            let socket = connector.connect(&target).await?;
            Ok(Conn(TokioIo::new(Watched::new(socket, !target.is_tls()))))
        })
    }
}

/// A socket, in the terms of the HTTP library.
struct Conn(TokioIo<Watched<Socket>>);

impl Connection for Conn {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Conn {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for Conn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }
}
