//! A registry whose executors dial a WebSocket of its own, and serve on it what clients of that registry ask. Every request of
//! an executor must be signed (SigV4).
//!
//! A client connects at [`Cloud::client_url`] as to an exec-server that listens, and gets the connection of an executor.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use axum::body::{Body, to_bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts as _, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::sigv4::{Account, Refused, Request};
use crate::wait;

/// The environment that executors serve.
pub const ENVIRONMENT: &str = "env-1";
/// Where an executor's WebSocket is, as the registry names it: not the simplest path, so that its encoding counts.
pub const PLACE: &str = "/place/a%20b/$x/?ticket=t~1&b=%2F&a=1&flag";
/// Longest body that is read.
const MAX_BODY: usize = 64 * 1024;
/// Largest frame that is taken, as stock peers do.
const MAX_FRAME: usize = 16 * 1024 * 1024;

/// What executors did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A registration, and how it was answered.
    Register(Arrival),
    /// The upgrade of an executor's WebSocket, and how it was answered.
    Upgrade(Arrival),
    /// The WebSocket ended: the code of the close frame, if there was one.
    Gone(Option<u16>),
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// As it came.
    pub request: Request,
    /// What the signature is worth.
    pub verdict: Result<(), Refused>,
    /// The status of the answer.
    pub status: u16,
}

/// An answer to come.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status; 200 for a registration and 101 for an upgrade let the request succeed.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after: Option<u64>,
    /// Members of a registration's answer to replace.
    pub members: Value,
}

impl Answer {
    /// Nothing but a status.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            retry_after: None,
            members: json!({}),
        }
    }

    /// A registration with other members than it should have.
    pub fn registered(members: Value) -> Self {
        Self {
            members,
            ..Self::status(200)
        }
    }
}

/// How a request is changed on its way.
pub type Tamper = fn(&mut Request);

#[derive(Debug)]
struct Script {
    account: Account,
    registers: VecDeque<Answer>,
    upgrades: VecDeque<Answer>,
    tamper: Option<Tamper>,
    clock: Duration,
    cut: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    script: Mutex<Script>,
    seen: mpsc::UnboundedSender<Seen>,
    clients: mpsc::UnboundedSender<WebSocket>,
    /// Taken by the executor's connection that serves.
    waiting: tokio::sync::Mutex<mpsc::UnboundedReceiver<WebSocket>>,
}

/// The registry, on a free port of loopback until it is dropped.
#[derive(Debug)]
pub struct Cloud {
    shared: Arc<Shared>,
    seen: mpsc::UnboundedReceiver<Seen>,
    _server: AbortOnDropHandle<()>,
}

impl Cloud {
    /// A registry that takes the signatures of an account.
    ///
    /// # Errors
    ///
    /// No port could be bound.
    pub async fn start(account: Account) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (sender, seen) = mpsc::unbounded_channel();
        let (clients, waiting) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            script: Mutex::new(Script {
                account,
                registers: VecDeque::new(),
                upgrades: VecDeque::new(),
                tamper: None,
                clock: Duration::ZERO,
                cut: CancellationToken::new(),
            }),
            seen: sender,
            clients,
            waiting: tokio::sync::Mutex::new(waiting),
        });
        let routes = axum::Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self {
            shared,
            seen,
            _server: AbortOnDropHandle::new(server),
        })
    }

    /// The base URL for executors.
    pub fn url(&self) -> String {
        format!("http://{}/base", self.shared.address)
    }

    /// The URL for clients.
    pub fn client_url(&self) -> String {
        format!("ws://{}/client", self.shared.address)
    }

    /// The next registrations are answered so; later ones succeed.
    pub fn answer_registers(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.script().registers.extend(answers);
    }

    /// The next upgrades are answered so; later ones succeed.
    pub fn answer_upgrades(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.script().upgrades.extend(answers);
    }

    /// Upgrades succeed again.
    pub fn forget_upgrades(&self) {
        self.shared.script().upgrades.clear();
    }

    /// Whose signatures are taken from now on.
    pub fn set_account(&self, account: Account) {
        self.shared.script().account = account;
    }

    /// Changes requests before they are checked.
    pub fn tamper(&self, tamper: Option<Tamper>) {
        self.shared.script().tamper = tamper;
    }

    /// Puts this registry's clock forward.
    pub fn set_clock(&self, ahead: Duration) {
        self.shared.script().clock = ahead;
    }

    /// Drops the executor's connection without a word.
    pub fn cut(&self) {
        let cut = std::mem::take(&mut self.shared.script().cut);
        cut.cancel();
    }

    /// What executors did next.
    ///
    /// # Errors
    ///
    /// Nothing within the time.
    pub async fn next(&mut self) -> Result<Seen> {
        let next = tokio::time::timeout(wait::SOON, self.seen.recv()).await;
        next.context("nothing came from the executor")?
            .context("the registry ended")
    }

    /// Waits for a registration and the connection that follows it.
    ///
    /// # Errors
    ///
    /// Anything else happened.
    pub async fn connected(&mut self) -> Result<(Arrival, Arrival)> {
        match (self.next().await?, self.next().await?) {
            (Seen::Register(register), Seen::Upgrade(upgrade)) => {
                if (register.status, upgrade.status) != (200, 101) {
                    bail!("{register:?}\n{upgrade:?}");
                }
                Ok((register, upgrade))
            }
            other => bail!("{other:?}"),
        }
    }
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, seen: Seen) {
        let _ = self.seen.send(seen);
    }

    /// What a request is worth, and the answer that the test wants to it.
    fn judge(
        &self,
        request: &Request,
        answers: fn(&mut Script) -> &mut VecDeque<Answer>,
    ) -> (Result<(), Refused>, Option<Answer>) {
        let mut script = self.script();
        let mut received = request.clone();
        if let Some(tamper) = script.tamper {
            tamper(&mut received);
        }
        let verdict = script.account.check(&received, SystemTime::now() + script.clock);
        let answer = match verdict {
            Ok(()) => answers(&mut script).pop_front(),
            Err(_) => Some(Answer::status(403)),
        };
        (verdict, answer)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: axum::extract::Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path();
    if path == "/client" {
        return match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
            Ok(upgrade) => bounded(upgrade).on_upgrade(move |client| async move { drop(shared.clients.send(client)) }),
            Err(error) => error.into_response(),
        };
    }
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let arrived = Request {
        method: parts.method.to_string(),
        target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: headers(&parts.headers),
        body: body.to_vec(),
    };
    if arrived.target == PLACE {
        let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
        return match upgrade {
            Ok(upgrade) => connect(shared, arrived, upgrade),
            Err(error) => error.into_response(),
        };
    }
    register(&shared, arrived)
}

fn headers(map: &axum::http::HeaderMap) -> BTreeMap<String, String> {
    let text = |(name, value): (&HeaderName, &axum::http::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    map.iter().map(text).collect()
}

fn register(shared: &Shared, request: Request) -> Response {
    let (verdict, answer) = shared.judge(&request, |script| &mut script.registers);
    let answer = answer.unwrap_or_else(|| Answer::status(200));
    shared.see(Seen::Register(Arrival {
        request,
        verdict,
        status: answer.status,
    }));
    if answer.status != 200 {
        return refuse(&answer);
    }
    let mut body = json!({
        "environment_id": ENVIRONMENT,
        "transport": "direct_jsonrpc_v1",
        "registration_id": "reg-1",
        "url": format!("ws://{}{PLACE}", shared.address),
        "later": "members are ignored",
    });
    for (name, value) in answer.members.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    axum::Json(body).into_response()
}

fn connect(shared: Arc<Shared>, request: Request, upgrade: WebSocketUpgrade) -> Response {
    let (verdict, answer) = shared.judge(&request, |script| &mut script.upgrades);
    let answer = answer.unwrap_or_else(|| Answer::status(101));
    shared.see(Seen::Upgrade(Arrival {
        request,
        verdict,
        status: answer.status,
    }));
    if answer.status != 101 {
        return refuse(&answer);
    }
    let cut = shared.script().cut.clone();
    bounded(upgrade).on_upgrade(move |executor| async move {
        let code = tokio::select! {
            code = serve(&shared, executor) => code,
            () = cut.cancelled() => None,
        };
        shared.see(Seen::Gone(code));
    })
}

fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade.max_message_size(4 * MAX_FRAME).max_frame_size(MAX_FRAME)
}

fn refuse(answer: &Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Serves one client with an executor's connection. The executor's close code.
async fn serve(shared: &Shared, mut executor: WebSocket) -> Option<u16> {
    let mut waiting = shared.waiting.lock().await;
    let mut client = tokio::select! {
        client = waiting.recv() => client?,
        end = async { while let Some(Ok(message)) = executor.recv().await {
            if let Message::Close(frame) = message {
                return frame.map(|frame| frame.code);
            }
        } None } => return end,
    };
    drop(waiting);
    loop {
        tokio::select! {
            message = executor.recv() => match message {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => drop(client.send(message).await),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            },
            message = client.recv() => match message {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => drop(executor.send(message).await),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => {
                    let farewell = CloseFrame { code: 1000, reason: "".into() };
                    drop(executor.send(Message::Close(Some(farewell))).await);
                    return Some(1000);
                }
            },
        }
    }
}
