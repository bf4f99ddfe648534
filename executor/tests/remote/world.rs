//! A registry and a relay in one listener, and a harness.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use getrandom::SysRng;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use rand_core::UnwrapErr;
use rendezvous_channel::Identity;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::stream::Target;
use rendezvous_service::listener::{Server, read_body};
use rendezvous_service::net::{self, Stream};
use rendezvous_transport::connector::Connector;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::policy::ClearText;
use rendezvous_transport::stream::{MessageStream, StreamEnd, connect};
use rendezvous_transport::tls::Trust;
use rendezvous_wire::frame::Frame;
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::secret::Secret;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Longest time that any step of a test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const ENVIRONMENT: &str = "env-1";

/// What the world saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A registration, with its bearer token, and what it was answered.
    Register(String, u16),
    /// A validation, with its stream id header.
    Validate(String),
    /// An executor's upgrade of this registration, and what it was answered.
    Upgrade(String, u16),
    /// The executor's connection ended, perhaps with a close code.
    Gone(Option<u16>),
}

/// Answers to come; when there are none left, all goes well.
#[derive(Default)]
struct Script {
    registers: VecDeque<(u16, &'static str, &'static str)>,
    upgrades: VecDeque<(u16, &'static str)>,
    verdict: Option<(u16, &'static str)>,
    registrations: u32,
    /// The relays that a registration names; none: the one of this world.
    relays: Vec<String>,
    executor_key: Option<Value>,
    to_executor: Option<mpsc::UnboundedSender<Message>>,
    /// The harnesses' connections by their streams.
    to_harnesses: HashMap<StreamId, mpsc::UnboundedSender<Message>>,
    cut: CancellationToken,
}

struct State {
    addr: SocketAddr,
    script: Mutex<Script>,
    seen: mpsc::UnboundedSender<Seen>,
    strays: mpsc::UnboundedSender<Frame>,
}

pub(crate) struct World {
    state: Arc<State>,
    seen: mpsc::UnboundedReceiver<Seen>,
    strays: mpsc::UnboundedReceiver<Frame>,
    _stop: DropGuard,
}

/// What a harness needs to know of the executor.
pub(crate) struct Bundle {
    pub(crate) environment: EnvironmentId,
    pub(crate) registration: RegistrationId,
    pub(crate) executor_key: PublicKey,
    pub(crate) authorization: Secret,
}

impl World {
    pub(crate) fn new() -> Self {
        let server = Server::bind(([127, 0, 0, 1], 0).into(), None).expect("bind");
        let (sender, seen) = mpsc::unbounded_channel();
        let (stray, strays) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            addr: server.local_addr(),
            script: Mutex::default(),
            seen: sender,
            strays: stray,
        });
        let stop = CancellationToken::new();
        let handler = {
            let state = state.clone();
            move |request, _| answer(state.clone(), request)
        };
        tokio::spawn(server.serve(handler, stop.clone()));
        Self {
            state,
            seen,
            strays,
            _stop: stop.drop_guard(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.state.addr)
    }

    /// The next registrations are answered with these statuses, headers and bodies.
    pub(crate) fn answer_registers(&self, answers: impl IntoIterator<Item = (u16, &'static str, &'static str)>) {
        self.state.script().registers.extend(answers);
    }

    /// The next upgrades of an executor are answered with these statuses.
    pub(crate) fn answer_upgrades(&self, statuses: impl IntoIterator<Item = u16>) {
        let answers = statuses.into_iter().map(|status| (status, ""));
        self.state.script().upgrades.extend(answers);
    }

    /// The next upgrade of an executor is answered with this status and `Retry-After`.
    pub(crate) fn put_off_upgrade(&self, status: u16, retry_after: &'static str) {
        self.state.script().upgrades.push_back((status, retry_after));
    }

    /// Whatever was to come, executors' upgrades succeed from now on.
    pub(crate) fn accept_upgrades(&self) {
        self.state.script().upgrades.clear();
    }

    /// Registrations name these relays.
    pub(crate) fn name_relays<const N: usize>(&self, urls: [String; N]) {
        self.state.script().relays = urls.into();
    }

    /// The URL of this world's relay.
    pub(crate) fn relay_url(&self, registration: &str) -> String {
        relay_url(self.state.addr, registration)
    }

    pub(crate) fn answer_validations(&self, status: u16, body: &'static str) {
        self.state.script().verdict = Some((status, body));
    }

    /// Drops the executor's connection without a word.
    pub(crate) fn cut(&self) {
        let cut = std::mem::take(&mut self.state.script().cut);
        cut.cancel();
    }

    /// Sends the executor a message on its relay connection.
    pub(crate) fn send(&self, message: Message) {
        let script = self.state.script();
        let _ = script.to_executor.as_ref().expect("an executor").send(message);
    }

    pub(crate) async fn next(&mut self) -> Seen {
        within(self.seen.recv()).await.expect("something seen")
    }

    /// What the registry would tell a harness.
    pub(crate) fn bundle(&self) -> Bundle {
        let script = self.state.script();
        let key = script.executor_key.clone().expect("an executor");
        Bundle {
            environment: EnvironmentId::new(ENVIRONMENT).expect("id"),
            registration: RegistrationId::new(format!("reg-{}", script.registrations)).expect("id"),
            executor_key: serde_json::from_value(key).expect("key"),
            authorization: Secret::new("the-authorization"),
        }
    }

    /// Opens a stream as a harness does.
    pub(crate) async fn harness(&self) -> Result<MessageStream, StreamEnd> {
        self.harness_as(&Identity::generate(&mut UnwrapErr(SysRng))).await
    }

    /// As [`Self::harness`], with a key of its own.
    pub(crate) async fn harness_as(&self, identity: &Identity) -> Result<MessageStream, StreamEnd> {
        let bundle = self.bundle();
        let dialer = Dialer::new(Connector::direct(Trust::new(None).expect("trust")), ClearText::Loopback);
        let url = Secret::new(format!("ws://{}/relay/harness", self.state.addr));
        let link = within(dialer.dial(&url)).await.expect("link");
        let target = Target {
            environment: &bundle.environment,
            registration: &bundle.registration,
            executor_key: &bundle.executor_key,
            authorization: &bundle.authorization,
        };
        within(connect(link, identity, &target, &Budget::new(1 << 20))).await
    }

    /// Sends anything to the executor, as only the relay can.
    pub(crate) fn inject(&self, message: Message) {
        let script = self.state.script();
        let executor = script.to_executor.as_ref().expect("an executor");
        executor.send(message).expect("a connected executor");
    }

    /// The next frame of the executor for a stream that no harness's connection has.
    pub(crate) async fn stray(&mut self) -> Frame {
        within(self.strays.recv()).await.expect("a frame")
    }
}

impl State {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("lock")
    }

    fn see(&self, seen: Seen) {
        let _ = self.seen.send(seen);
    }

    /// Takes a frame of the executor to its harness.
    fn route(&self, bytes: Bytes) {
        let frame = Frame::decode(bytes.clone()).expect("a valid frame");
        let harness = self.script().to_harnesses.get(&frame.stream_id).cloned();
        match harness {
            Some(harness) => drop(harness.send(Message::Binary(bytes))),
            None => drop(self.strays.send(frame)),
        }
    }
}

async fn answer(state: Arc<State>, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    if let Some(registration) = path.strip_prefix("/relay/") {
        return upgrade(&state, registration, &mut request);
    }
    let header = |name: &str| {
        let value = request.headers().get(name);
        value
            .map(|value| value.to_str().expect("text").to_owned())
            .unwrap_or_default()
    };
    let (bearer, stream) = (header("authorization"), header("x-codex-noise-stream-id"));
    let body = read_body(request.into_body(), 16 * 1024, PATIENCE).await.expect("body");
    let body: Value = serde_json::from_slice(&body).expect("json");
    match path.strip_prefix("/cloud/environment/env-1/") {
        Some("register") => register(&state, &bearer, &body),
        Some("validate") => {
            state.see(Seen::Validate(stream));
            assert_eq!(body["harness_key_authorization"], "the-authorization");
            let (status, body) = state.script().verdict.unwrap_or((200, r#"{"valid":true}"#));
            respond(status, "", body.to_owned())
        }
        other => panic!("{other:?}"),
    }
}

fn register(state: &State, bearer: &str, body: &Value) -> Response<Full<Bytes>> {
    let mut script = state.script();
    let scripted = script.registers.pop_front();
    let status = scripted.map_or(200, |(status, ..)| status);
    state.see(Seen::Register(bearer.to_owned(), status));
    if let Some((status, retry_after, body)) = scripted {
        return respond(status, retry_after, body.to_owned());
    }
    let key = body["executor_public_key"].clone();
    if let Some(known) = script.executor_key.replace(key.clone()) {
        assert_eq!(known, key, "one key for the life of the process");
    }
    script.registrations += 1;
    let registration = format!("reg-{}", script.registrations);
    let mut urls = script.relays.clone();
    if urls.is_empty() {
        urls.push(relay_url(state.addr, &registration));
    }
    let answer = json!({
        "environment_id": ENVIRONMENT,
        "url": urls[0],
        "alternative_urls": urls[1..],
        "security_profile": "noise_hybrid_ik_v1",
        "executor_registration_id": registration,
    });
    respond(200, "", answer.to_string())
}

fn relay_url(addr: SocketAddr, registration: &str) -> String {
    format!("ws://{addr}/relay/{registration}?ticket=secret-ticket")
}

fn respond(status: u16, retry_after: &str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    if !retry_after.is_empty() {
        response = response.header(header::RETRY_AFTER, retry_after);
    }
    response.body(Full::new(body.into())).expect("response")
}

fn upgrade(state: &Arc<State>, role: &str, request: &mut Request<Incoming>) -> Response<Full<Bytes>> {
    let is_harness = role == "harness";
    if !is_harness {
        let (status, retry_after) = state.script().upgrades.pop_front().unwrap_or((101, ""));
        state.see(Seen::Upgrade(role.to_owned(), status));
        if status != 101 {
            return respond(status, retry_after, String::new());
        }
    }
    let key = request.headers()["sec-websocket-key"].as_bytes().to_owned();
    let upgrade = hyper::upgrade::on(request);
    let relay = state.clone();
    tokio::spawn(async move {
        let (stream, _) = net::downcast(upgrade.await.expect("upgrade")).expect("ours");
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        if is_harness {
            forward_harness(&relay, socket).await;
        } else {
            forward_executor(&relay, socket).await;
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(&key))
        .body(Full::new(Bytes::new()))
        .expect("response")
}

async fn forward_executor(state: &State, mut socket: WebSocketStream<Stream>) {
    let (sender, mut frames) = mpsc::unbounded_channel();
    let cut = {
        let mut script = state.script();
        script.to_executor = Some(sender);
        script.cut.clone()
    };
    let gone = loop {
        tokio::select! {
            () = cut.cancelled() => break None,
            Some(frame) = frames.recv() => socket.send(frame).await.expect("send"),
            message = socket.next() => match message {
                Some(Ok(Message::Binary(bytes))) => state.route(bytes),
                Some(Ok(Message::Close(frame))) => break frame.map(|frame| u16::from(frame.code)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break None,
            },
        }
    };
    drop(socket);
    state.see(Seen::Gone(gone));
}

async fn forward_harness(state: &State, mut socket: WebSocketStream<Stream>) {
    let (sender, mut frames) = mpsc::unbounded_channel();
    loop {
        tokio::select! {
            Some(frame) = frames.recv() => if socket.send(frame).await.is_err() {
                return;
            },
            message = socket.next() => match message {
                Some(Ok(frame @ Message::Binary(_))) => {
                    let stream = Frame::decode(frame.clone().into_data()).expect("a valid frame").stream_id;
                    state.script().to_harnesses.entry(stream).or_insert_with(|| sender.clone());
                    let _ = state.script().to_executor.as_ref().expect("an executor").send(frame);
                }
                Some(Ok(Message::Text(text))) => panic!("{}", Utf8Bytes::as_str(&text)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}
