//! The HTTP proxy: forwards plain requests and opens tunnels.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::decision::{Outcome, Protocol};
use super::gate::{Gate, Way, Wish};
use super::host::Target;
use super::idle::{IDLE_LIMIT, Idle, tunnel};
use super::presence::Presence;
use super::target::{self, Request};

/// Longest head of a request or of a response, in bytes.
pub const MAX_HEAD: usize = 64 * 1024;
/// Headers of one request or response.
pub const MAX_HEADERS: usize = 128;
/// Longest time for the head of the first request, and of each further one.
pub const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// Longest name of a method, in bytes.
pub const MAX_METHOD: usize = 32;

/// How long nothing may move between a program and the proxy, so that a program which takes nothing of its answer gives its
/// place up. Longer than for the server's side, whose silence is to be answered for.
const PROGRAM_LIMIT: Duration = IDLE_LIMIT.saturating_add(HEAD_LIMIT);

type Reply = Response<UnsyncBoxBody<Bytes, hyper::Error>>;

/// A tunnel that was agreed on, for when the answer has been sent.
type Agreed = Arc<Mutex<Option<(OnUpgrade, TcpStream)>>>;

/// Serves one connection of a program to its end.
pub(super) async fn serve(stream: TcpStream, client: SocketAddr, gate: Arc<Gate>) {
    serve_within(PROGRAM_LIMIT, stream, client, gate).await;
}

async fn serve_within(limit: Duration, stream: TcpStream, client: SocketAddr, gate: Arc<Gate>) {
    let agreed = Agreed::default();
    let Ok(presence) = Presence::of(&stream).map(Arc::new) else {
        return;
    };
    let shared = (gate, Arc::clone(&agreed), presence);
    let service = service_fn(move |request| {
        let (gate, agreed, presence) = shared.clone();
        async move {
            let answered = presence.during(answer(&gate, client, request, &agreed)).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|| plain(StatusCode::REQUEST_TIMEOUT, "nobody waits")))
        }
    });
    let served = server::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        // Some servers and programs look for names as they were written.
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(Idle::new(stream, limit)), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection to the proxy broke");
    }
    let agreed = agreed.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((near, far)) = agreed
        && let Ok(near) = near.await
    {
        tunnel(TokioIo::new(near), far).await;
    }
}

async fn answer(gate: &Gate, client: SocketAddr, request: http::Request<Incoming>, agreed: &Agreed) -> Reply {
    if request.method().as_str().len() > MAX_METHOD {
        return plain(StatusCode::BAD_REQUEST, "method too long");
    }
    let understood = target::read(request.method(), request.uri(), request.headers());
    let (protocol, target) = match understood {
        Ok(Request::Tunnel(target)) => (Protocol::Connect, target),
        Ok(Request::Forward(target)) => (Protocol::Http, target),
        Err(text) => return plain(StatusCode::BAD_REQUEST, text),
    };
    let wish = Wish {
        protocol,
        target,
        method: Some(request.method().as_str().to_owned()),
        has_body: !request.body().is_end_stream(),
        client,
    };
    let way = match gate.admit(&wish).await {
        Ok(way) => way,
        Err(outcome) if protocol == Protocol::Connect => return blocked_tunnel(&outcome),
        Err(outcome) => return blocked(&wish, &outcome),
    };
    let made = match protocol {
        Protocol::Connect => open(request, &way, agreed).await,
        _ => forward(request, &wish.target, &way).await,
    };
    made.unwrap_or_else(|error| {
        tracing::debug!(error = &*error, "server not reached");
        plain(StatusCode::BAD_GATEWAY, "upstream failure")
    })
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Connects before it answers, so that a program learns of a server that is not there.
async fn open(request: http::Request<Incoming>, way: &Way, agreed: &Agreed) -> Result<Reply, Failure> {
    let far = way.dial().await?;
    let near = hyper::upgrade::on(request);
    *agreed.lock().unwrap_or_else(PoisonError::into_inner) = Some((near, far));
    Ok(Response::new(text("")))
}

async fn forward(mut request: http::Request<Incoming>, target: &Target, way: &Way) -> Result<Reply, Failure> {
    let far = Idle::new(way.dial().await?, IDLE_LIMIT);
    let (mut sender, connection) = client::Builder::new()
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        // Some servers and programs look for names as they were written.
        .preserve_header_case(true)
        .handshake(TokioIo::new(far))
        .await?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to the server broke");
        }
    }));
    rewrite(&mut request, target)?;
    let (mut head, body) = sender.send_request(request).await?.into_parts();
    // Asked for by nobody, since it is not passed on.
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err("the server switches protocols".into());
    }
    head.version = Version::HTTP_11;
    target::remove_hop_by_hop(&mut head.headers);
    let body = Forwarded {
        body,
        _connection: connection,
    };
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

/// Makes a request to a proxy one to a server.
fn rewrite(request: &mut http::Request<Incoming>, target: &Target) -> Result<(), Failure> {
    target::remove_hop_by_hop(request.headers_mut());
    if !request.headers().contains_key(HOST) {
        let host = match request.uri().authority() {
            Some(authority) => authority.as_str().to_owned(),
            None => target.host.to_string(),
        };
        request.headers_mut().insert(HOST, HeaderValue::try_from(host)?);
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = match path {
        "" if *request.method() == Method::OPTIONS => Cow::Borrowed("*"),
        query if query.starts_with('?') => Cow::Owned(format!("/{query}")),
        path => Cow::Borrowed(path),
    };
    *request.uri_mut() = path.parse::<Uri>()?;
    *request.version_mut() = Version::HTTP_11;
    Ok(())
}

/// The body of a response, with the connection that it comes over.
struct Forwarded {
    body: Incoming,
    _connection: AbortOnDropHandle<()>,
}

impl Body for Forwarded {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn text(text: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, hyper::Error> {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

fn plain(status: StatusCode, reason: &'static str) -> Reply {
    let mut reply = Response::new(text(reason));
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    reply
}

fn blocked_tunnel(outcome: &Outcome) -> Reply {
    let mut reply = plain(StatusCode::FORBIDDEN, outcome.message());
    mark(&mut reply, outcome);
    reply
}

/// What stock proxies answer, which programs and people may read.
fn blocked(wish: &Wish, outcome: &Outcome) -> Reply {
    let body = serde_json::json!({
        "status": "blocked",
        "host": wish.target.host.to_string(),
        "reason": outcome.reason(),
        "decision": outcome.decision(),
        "source": outcome.source(),
        "protocol": "http",
        "port": wish.target.port,
        "message": outcome.message(),
    });
    let mut reply = Response::new(text(body.to_string()));
    *reply.status_mut() = StatusCode::FORBIDDEN;
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    mark(&mut reply, outcome);
    reply
}

fn mark(reply: &mut Reply, outcome: &Outcome) {
    reply
        .headers_mut()
        .insert("x-proxy-error", HeaderValue::from_static(outcome.header()));
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::super::decision::{Answer, Notice, Referee};
    use super::super::gate::{MAX_QUESTIONS, system_resolver};
    use super::super::rules::{Mode, Rules};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[derive(Debug)]
    struct Silent;

    impl Referee for Silent {
        fn ask(&self, _: Protocol, _: &Target) -> Option<Answer> {
            None
        }

        fn notice(&self, _: Notice) {}
    }

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// A server that sends without end, and a program that asks it and never reads.
    #[tokio::test]
    async fn a_program_that_takes_nothing_gives_its_place_up() {
        let (server, origin) = listener().await;
        let sending = tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
        });
        let (proxy, at) = listener().await;
        let mut program = TcpStream::connect(at).await.unwrap();
        let (near, client) = proxy.accept().await.unwrap();
        let mut rules = Rules::new(Mode::Full, true);
        rules.allow("127.0.0.1").unwrap();
        let gate = Gate {
            rules,
            referee: Arc::new(Silent),
            resolver: system_resolver(),
            questions: tokio::sync::Semaphore::new(MAX_QUESTIONS),
        };
        let request = format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\n\r\n");
        program.write_all(request.as_bytes()).await.unwrap();
        let limit = Duration::from_millis(300);
        let served = serve_within(limit, near, client, Arc::new(gate));
        timeout(PATIENCE, served).await.expect("an end");
        timeout(PATIENCE, sending)
            .await
            .expect("the server's connection ends, too")
            .unwrap();
        let mut answer = [0; 15];
        program.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
}
