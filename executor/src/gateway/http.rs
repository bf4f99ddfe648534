//! The calls of an executor, made again at the registry, and its relay connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use rendezvous_service::listener::read_body;
use rendezvous_service::net;
use rendezvous_transport::dial::DialError;
use rendezvous_transport::direct;
use rendezvous_transport::link::{Dialect, Event, Link, LinkError};
use rendezvous_transport::registry::{CallError, Client, Options};
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::identity::{IDENTITY_HEADER, IdentityClaim};
use rendezvous_wire::json::{self, Bounds};
use rendezvous_wire::limits::MAX_REGISTRY_REQUEST;
use rendezvous_wire::registry::{
    Call, ErrorDetail, ErrorResponse, RegisterRequest, RegisterResponse, SECURITY_PROFILE, STREAM_ID_HEADER,
    ValidateRequest, ValidateResponse,
};
use rendezvous_wire::secret::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Upstream;
use super::places::Places;
use crate::relays;

/// Relay connections at once; more are answered with 503.
pub const MAX_CONNECTIONS: usize = 64;
/// Longest time for the body of a call, and between our 101 and the socket being ours.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time to reach a relay, all of them together: the executor, which waits for 10 s, is to see the answer.
const DIAL_TIME: Duration = Duration::from_secs(9);
/// How long the connections may take to end after the stop.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Where relay connections arrive.
const RELAY: &str = "/relay/";
const ACCOUNT_HEADER: &str = "chatgpt-account-id";

type Answer = Response<Full<Bytes>>;

#[derive(Debug)]
pub(super) struct Handler {
    upstream: Upstream,
    addr: SocketAddr,
    places: Places,
    room: Arc<Semaphore>,
    connections: TaskTracker,
    stop: CancellationToken,
}

impl Handler {
    pub(super) fn new(upstream: Upstream, addr: SocketAddr, stop: CancellationToken) -> Self {
        Self {
            upstream,
            addr,
            places: Places::default(),
            room: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            connections: TaskTracker::new(),
            stop,
        }
    }

    /// Waits for the end of all relay connections after the stop.
    pub(super) async fn finish(&self) {
        self.connections.close();
        let _ = timeout(LAST_WORDS, self.connections.wait()).await;
    }

    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        // Only browsers send it, and a page that a user visits has nothing to do here.
        if request.headers().contains_key(header::ORIGIN) {
            return status(StatusCode::FORBIDDEN);
        }
        let path = request.uri().path().to_owned();
        if let Some(name) = path.strip_prefix(RELAY) {
            return self.upgrade(name, request).await;
        }
        let Some((environment, call)) = call(&path) else {
            return status(StatusCode::NOT_FOUND);
        };
        if *request.method() != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let answered = match call {
            Call::Register => self.register(environment, request).await,
            Call::Validate => self.validate(environment, request).await,
            Call::Connect => Err(status(StatusCode::NOT_FOUND)),
        };
        answered.unwrap_or_else(|refusal| refusal)
    }

    async fn register(&self, environment: EnvironmentId, request: Request<Incoming>) -> Result<Answer, Answer> {
        let client = self.client(request.headers()).map_err(status)?;
        let malformed = || {
            explained(
                StatusCode::BAD_REQUEST,
                "invalid_request",
                "a malformed x-rendezvous-identity",
            )
        };
        let identity = identity(request.headers()).ok_or_else(malformed)?;
        let body: RegisterRequest = body(request).await?;
        let registered = client
            .register_as(&environment, &body.executor_public_key, &identity)
            .await;
        let mut registration = registered.map_err(|error| failed("register", &error))?;
        relays::leave_out_unusable(&mut registration, &self.upstream.dialer);
        let mut urls = vec![registration.url];
        urls.extend(registration.alternatives);
        let name = self.places.keep(urls);
        tracing::info!(%environment, registration = %registration.id, "executor registered");
        Ok(document(&RegisterResponse {
            environment_id: environment.into(),
            url: Secret::new(format!("ws://{}{RELAY}{name}", self.addr)),
            security_profile: SECURITY_PROFILE.to_owned(),
            executor_registration_id: registration.id.into(),
            // They are tried here.
            alternative_urls: Vec::new(),
        }))
    }

    async fn validate(&self, environment: EnvironmentId, request: Request<Incoming>) -> Result<Answer, Answer> {
        let client = self.client(request.headers()).map_err(status)?;
        // Early stock executors send none. The registry uses it to recognise a repeated call.
        let stream = request.headers().get(STREAM_ID_HEADER).and_then(|id| id.to_str().ok());
        let stream = stream.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let stream = StreamId::new(stream).map_err(|error| bad(&error))?;
        let body: ValidateRequest = body(request).await?;
        let registration = RegistrationId::new(&body.executor_registration_id).map_err(|error| bad(&error))?;
        let validated = client
            .validate(
                &environment,
                &registration,
                &body.harness_public_key,
                &body.harness_key_authorization,
                &stream,
            )
            .await;
        let valid = validated.map_err(|error| failed("validate", &error))?;
        Ok(document(&ValidateResponse { valid }))
    }

    /// A client with the executor's credential.
    fn client(&self, headers: &HeaderMap) -> Result<Client, StatusCode> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
        let bearer = bearer.ok_or(StatusCode::UNAUTHORIZED)?;
        let options = Options {
            url: self.upstream.registry.clone(),
            credential: Secret::new(bearer.trim()),
            account: text(ACCOUNT_HEADER).map(str::to_owned),
            connector: self.upstream.connector.clone(),
        };
        Client::new(&options).map_err(|_unusable_header| StatusCode::BAD_REQUEST)
    }

    /// Opens the relay connection before it agrees to the executor's, so that the executor sees the relay's answer.
    async fn upgrade(&self, name: &str, mut request: Request<Incoming>) -> Answer {
        let Some(urls) = self.places.find(name) else {
            return status(StatusCode::NOT_FOUND);
        };
        let Ok(answer) = direct::accept(&request) else {
            return status(StatusCode::BAD_REQUEST);
        };
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            tracing::warn!("refused: {MAX_CONNECTIONS} relay connections are open");
            return status(StatusCode::SERVICE_UNAVAILABLE);
        };
        let one = |url: Secret| {
            let dialer = self.upstream.dialer.clone();
            async move { dialer.dial(&url).await }
        };
        let relay = match dial(urls, one).await {
            Ok(relay) => relay,
            Err(error) => {
                tracing::warn!(error = %crate::remote::chain(&error), "cannot connect to the relay");
                if error.is_ticket_refused() {
                    self.places.forget(name);
                }
                return not_dialled(&error);
            }
        };
        let socket = hyper::upgrade::on(&mut request);
        self.connections.spawn(pass(socket, relay, self.stop.clone(), place));
        answer
    }
}

/// The first relay that takes the connection. Each has its share of what is left of [`DIAL_TIME`].
async fn dial<L, F>(urls: Vec<Secret>, one: impl Fn(Secret) -> F) -> Result<L, DialError>
where
    F: Future<Output = Result<L, DialError>>,
{
    let end = Instant::now() + DIAL_TIME;
    let mut last = DialError::Timeout;
    for (left, url) in (1..=urls.len()).rev().zip(urls) {
        let share = end.saturating_duration_since(Instant::now()) / u32::try_from(left).unwrap_or(u32::MAX);
        match timeout(share, one(url)).await.unwrap_or(Err(DialError::Timeout)) {
            // A spoiled ticket is spoiled everywhere.
            Err(error) if error.is_ticket_refused() => return Err(error),
            Err(error) => last = error,
            link => return link,
        }
    }
    Err(last)
}

/// What a path asks for. Harnesses have no need of a gateway.
fn call(path: &str) -> Option<(EnvironmentId, Call)> {
    let (environment, call) = path.strip_prefix("/cloud/environment/")?.split_once('/')?;
    let known = [Call::Register, Call::Validate];
    let call = known.into_iter().find(|known| known.as_str() == call)?;
    Some((EnvironmentId::new(environment).ok()?, call))
}

/// What an executor of ours says of its key, unless that is malformed; stock ones say nothing.
fn identity(headers: &HeaderMap) -> Option<IdentityClaim> {
    match headers.get(IDENTITY_HEADER) {
        Some(claim) => claim.to_str().ok()?.parse().ok(),
        None => Some(IdentityClaim::default()),
    }
}

async fn pass<S>(socket: OnUpgrade, mut relay: Link<S>, stop: CancellationToken, place: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Ok(Ok(upgraded)) = timeout(PATIENCE, socket).await else {
        return;
    };
    let Ok((socket, early)) = net::downcast(upgraded) else {
        return;
    };
    let mut executor = Link::server(socket, early, Dialect::Relay).await;
    tracing::info!("relay connection is up");
    let end = tokio::select! {
        end = pump(&mut executor, &mut relay) => match end {
            Ok(never) => match never {},
            Err(end) => end,
        },
        () = stop.cancelled() => LinkError::Closed { code: None, reason: "the gateway is stopping".to_owned() },
    };
    tracing::info!(reason = end.kind(), "relay connection ended");
    // Whatever ended one ends the other, with the code that it came with.
    let code = match &end {
        LinkError::Closed { code: Some(code), .. } => *code,
        end => end.close_code(),
    };
    tokio::join!(executor.close(code, ""), relay.close(code, ""));
    drop(place);
}

/// Passes frames both ways. Each side is read only while the other takes more.
async fn pump<A, B>(executor: &mut Link<A>, relay: &mut Link<B>) -> Result<Infallible, LinkError>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let (up, down) = (relay.has_room(), executor.has_room());
        tokio::select! {
            event = next(executor, up) => if let Event::Message(frame) = event? {
                relay.feed(frame)?;
            },
            event = next(relay, down) => if let Event::Message(frame) = event? {
                executor.feed(frame)?;
            },
        }
    }
}

/// The next frame, or only the upkeep of a link that must not be read.
async fn next<S: AsyncRead + AsyncWrite + Unpin>(link: &mut Link<S>, may_read: bool) -> Result<Event, LinkError> {
    if may_read {
        return link.next().await;
    }
    match link.idle().await? {}
}

async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Answer> {
    let read = read_body(request.into_body(), MAX_REGISTRY_REQUEST, PATIENCE).await;
    let bytes = read.map_err(|error| status(error.status()))?;
    json::decode(&bytes, Bounds::REGISTRY).map_err(|error| bad(&error))
}

/// The registry's own answer where there is one.
fn failed(call: &str, error: &CallError) -> Answer {
    tracing::warn!(call, error = %crate::remote::chain(error), "the registry does not do it");
    let code = match error {
        CallError::Timeout => StatusCode::GATEWAY_TIMEOUT,
        error => error.status().unwrap_or(StatusCode::BAD_GATEWAY),
    };
    let mut answer = explained(code, error.code().unwrap_or("bad_gateway"), &error.to_string());
    if let Some(delay) = error.retry_after() {
        answer.headers_mut().insert(header::RETRY_AFTER, delay.as_secs().into());
    }
    answer
}

fn not_dialled(error: &DialError) -> Answer {
    match error {
        DialError::Refused { status: code, .. } => {
            status(StatusCode::from_u16(*code).unwrap_or(StatusCode::BAD_GATEWAY))
        }
        // Stock executors dial again after it.
        _ => status(StatusCode::SERVICE_UNAVAILABLE),
    }
}

fn bad(error: &dyn std::error::Error) -> Answer {
    explained(StatusCode::BAD_REQUEST, "invalid_request", &error.to_string())
}

fn explained(code: StatusCode, name: &str, message: &str) -> Answer {
    let mut answer = document(&ErrorResponse {
        error: ErrorDetail {
            code: name.to_owned(),
            message: message.to_owned(),
        },
    });
    *answer.status_mut() = code;
    answer
}

fn document(value: &impl Serialize) -> Answer {
    let Ok(body) = serde_json::to_vec(value) else {
        return status(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let mut answer = Answer::new(Full::new(body.into()));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn status(code: StatusCode) -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = code;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(count: usize) -> Vec<Secret> {
        (0..count).map(|number| Secret::new(format!("ws://{number}"))).collect()
    }

    fn refused(status: u16) -> DialError {
        DialError::Refused {
            status,
            reason: None,
            retry_after: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_relay_leaves_time_for_the_others() {
        let start = Instant::now();
        let taken = dial(urls(3), |url| async move {
            match url.expose() {
                "ws://0" => std::future::pending().await,
                "ws://1" => Err(refused(503)),
                _ => {
                    // Much more than a third: what the second left is the third's.
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    Ok(())
                }
            }
        });
        taken.await.expect("the third");
        assert_eq!(start.elapsed(), DIAL_TIME / 3 + Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn all_relays_together_have_less_time_than_the_executor_waits() {
        for count in 1..=4 {
            let start = Instant::now();
            let error = dial(urls(count), |_| std::future::pending::<Result<(), _>>()).await;
            assert!(matches!(error, Err(DialError::Timeout)), "{error:?}");
            let took = start.elapsed();
            assert!(took <= DIAL_TIME + Duration::from_millis(10), "{took:?}");
            assert!(took < rendezvous_wire::limits::RELAY_CONNECT_TIMEOUT);
        }
    }

    #[tokio::test]
    async fn only_a_spoiled_ticket_ends_the_search() {
        let first = |error: fn() -> DialError| {
            dial(urls(2), move |url| async move {
                match url.expose() {
                    "ws://0" => Err(error()),
                    _ => Ok(()),
                }
            })
        };
        first(|| DialError::Handshake("odd".to_owned()))
            .await
            .expect("the second");
        assert!(first(|| refused(401)).await.expect_err("spoiled").is_ticket_refused());
    }
}
