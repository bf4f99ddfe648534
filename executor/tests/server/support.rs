//! A client that speaks over a stream in memory.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_executor::server::{Config, DetachedSessions, Server, Sink, Source};
use rendezvous_host::process::{SpoolLimits, Spooling};
use rendezvous_host::sandbox::{Sandbox, Tools};
use rendezvous_wire::key::KeyDigest;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longest wait for anything that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

struct Out {
    messages: mpsc::Sender<Bytes>,
    away: Arc<OnceLock<Instant>>,
}

impl Sink for Out {
    async fn send(&self, message: Bytes) -> bool {
        self.messages.send(message).await.is_ok()
    }

    async fn over(&self) {
        self.messages.closed().await;
    }

    fn suspended_since(&self) -> Option<Instant> {
        self.away.get().copied()
    }
}

struct In(mpsc::Receiver<Bytes>);

impl Source for In {
    async fn recv(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

/// One stream. Dropping it is a lost connection.
pub(crate) struct Client {
    outgoing: mpsc::Sender<Bytes>,
    pub(crate) incoming: mpsc::Receiver<Bytes>,
    next_id: AtomicI64,
    news: VecDeque<Value>,
    away: Arc<OnceLock<Instant>>,
}

pub(crate) fn server() -> Server {
    Server::new(config())
}

/// A server that keeps sessions for a day at most, three of a harness, with so much output on disk of a process.
pub(crate) fn keeping_server(folder: &Path, output: u64) -> Server {
    let limits = SpoolLimits {
        process: output,
        ..SpoolLimits::default()
    };
    Server::new(keeping(folder, limits, Duration::ZERO, Duration::from_secs(86_400)))
}

/// As [`keeping_server`], with other times: for any session, and the longest for one that is kept.
pub(crate) fn keeping_server_with(folder: &Path, usual: Duration, longest: Duration) -> Server {
    Server::new(keeping(folder, SpoolLimits::default(), usual, longest))
}

/// A server that keeps sessions, with so many at once for a harness, each for an hour anyway.
pub(crate) fn crowded_server(folder: &Path, max_sessions_per_harness: usize) -> Server {
    let hour = Duration::from_secs(3600);
    Server::new(Config {
        max_sessions_per_harness,
        ..keeping(folder, SpoolLimits::default(), hour, 24 * hour)
    })
}

fn keeping(folder: &Path, limits: SpoolLimits, usual: Duration, longest: Duration) -> Config {
    Config {
        detached: Some(DetachedSessions {
            max_retention: longest,
            max_sessions: 5,
            max_sessions_per_harness: 3,
            spooling: Spooling::new(folder.join("output"), limits),
        }),
        session_retention: usual,
        ..config()
    }
}

fn config() -> Config {
    Config {
        sandbox: Sandbox::new(Tools {
            helper: env!("CARGO_BIN_EXE_executor").into(),
            ..Tools::find()
        }),
        ..Config::default()
    }
}

impl Client {
    /// A stream without `initialize`.
    pub(crate) fn raw(server: &Server) -> Self {
        Self::over(
            |server, sink, source| async move { server.serve_stream(sink, source).await },
            server,
        )
    }

    /// A stream of the harness with this key, without `initialize`.
    pub(crate) fn of(server: &Server, harness: KeyDigest) -> Self {
        Self::over(
            move |server, sink, source| async move { server.serve_harness(harness, sink, source).await },
            server,
        )
    }

    fn over<F: Future<Output = ()> + Send + 'static>(
        serve: impl FnOnce(Server, Out, In) -> F,
        server: &Server,
    ) -> Self {
        let (outgoing, source) = mpsc::channel(16);
        let (sink, incoming) = mpsc::channel(4);
        let away = Arc::default();
        let out = Out {
            messages: sink,
            away: Arc::clone(&away),
        };
        tokio::spawn(serve(server.clone(), out, In(source)));
        Self {
            away,
            outgoing,
            incoming,
            next_id: AtomicI64::new(1),
            news: VecDeque::new(),
        }
    }

    /// A stream with a new session.
    pub(crate) async fn new(server: &Server) -> Self {
        let mut client = Self::raw(server);
        client.initialize(None).await.expect("initialize");
        client.notify("initialized", json!({})).await;
        client
    }

    /// A stream with a new session of a client that names no extension.
    pub(crate) async fn stock(server: &Server) -> Self {
        let mut client = Self::raw(server);
        let params = json!({"clientName": "stock", "resumeSessionId": null});
        client.call("initialize", params).await.expect("initialize");
        client.notify("initialized", json!({})).await;
        client
    }

    pub(crate) async fn initialize(&mut self, resume: Option<&str>) -> Result<Value, (i64, String)> {
        let params = json!({"clientName": "test", "resumeSessionId": resume, "extensions": {"processControl": 1}});
        self.call("initialize", params).await
    }

    pub(crate) async fn send(&self, text: impl Into<Bytes>) {
        self.outgoing.send(text.into()).await.expect("the server reads");
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send(json!({"method": method, "params": params}).to_string()).await;
    }

    /// Sends a call without waiting for its reply.
    pub(crate) async fn begin(&self, method: &str, params: Value) -> i64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.send(json!({"id": id, "method": method, "params": params}).to_string())
            .await;
        id
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, (i64, String)> {
        let id = self.begin(method, params).await;
        self.reply(id.into()).await
    }

    /// Waits for the next reply, which must have this id; keeps notifications.
    pub(crate) async fn reply(&mut self, id: Value) -> Result<Value, (i64, String)> {
        loop {
            let message = self.message().await.expect("a reply");
            if message.get("method").is_some() {
                self.news.push_back(message);
                continue;
            }
            assert_eq!(message["id"], id, "{message}");
            return match message.get("error") {
                Some(error) => Err((
                    error["code"].as_i64().expect("code"),
                    error["message"].as_str().expect("message").to_owned(),
                )),
                None => Ok(message["result"].clone()),
            };
        }
    }

    /// The next notification: its method and parameters.
    pub(crate) async fn news(&mut self) -> (String, Value) {
        let message = match self.news.pop_front() {
            Some(message) => message,
            None => self.message().await.expect("a notification"),
        };
        let method = message["method"]
            .as_str()
            .unwrap_or_else(|| panic!("{message} is no notification"));
        (method.to_owned(), message["params"].clone())
    }

    /// A notification that came before a reply.
    pub(crate) fn taken_news(&mut self) -> Option<(String, Value)> {
        let message = self.news.pop_front()?;
        Some((message["method"].as_str()?.to_owned(), message["params"].clone()))
    }

    /// A message that came before a reply.
    pub(crate) fn taken_message(&mut self) -> Option<Value> {
        self.news.pop_front()
    }

    /// The next message; nothing once the server ended the stream.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        let message = timeout(PATIENCE, self.incoming.recv())
            .await
            .expect("a message in time")?;
        Some(serde_json::from_slice(&message).expect("JSON"))
    }

    /// Its connection is lost, and the stream waits for it to come back.
    pub(crate) fn go_away(&self) {
        self.away.set(Instant::now()).expect("once");
    }

    #[track_caller]
    pub(crate) fn assert_open(&self) {
        assert!(!self.outgoing.is_closed());
    }
}

/// Parameters of `process/start`.
pub(crate) fn start(id: &str, script: &str) -> Value {
    json!({
        "processId": id, "argv": ["/bin/sh", "-c", script], "cwd": "file:///", "env": {"PATH": "/usr/bin:/bin"},
        "tty": false, "pipeStdin": true,
    })
}

/// `value` with more members.
pub(crate) fn with(mut value: Value, more: Value) -> Value {
    let (Value::Object(into), Value::Object(from)) = (&mut value, more) else {
        panic!("objects");
    };
    into.extend(from);
    value
}
