//! The executor as a child process, and clients of it.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Longest time that any step of a test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at a condition that nothing tells of.
pub(crate) const POLL: Duration = Duration::from_millis(5);

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("in time")
}

/// Looks at a condition until it holds.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    within(async {
        while !condition() {
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
}

/// A command line for an executor with an environment of its own.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_executor"));
    command
        .args(args)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a command line that must fail at once: its exit code and stderr.
pub(crate) async fn refused(args: &[&str]) -> (Option<i32>, String) {
    let output = within(command(args).output()).await.expect("start");
    assert_eq!(output.stdout, b"", "{args:?}");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

/// A listening executor.
pub(crate) struct Executor {
    pub(crate) child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    pub(crate) address: String,
}

impl Executor {
    pub(crate) async fn start(more: &[&str]) -> Self {
        let args = [&["--listen", "ws://127.0.0.1:0"], more].concat();
        let mut command = command(&args);
        command.stderr(Stdio::null());
        Self::spawn(command).await
    }

    /// Waits until it listens.
    pub(crate) async fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("start");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let line = within(stdout.next_line()).await.expect("stdout").expect("a line");
        let address = line.strip_prefix("ws://").expect("a URL").to_owned();
        let port = address.strip_prefix("127.0.0.1:").expect("the address");
        assert_ne!(port.parse::<u16>().expect("a port"), 0);
        Self { child, stdout, address }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().expect("running").try_into().expect("pid");
        kill_process(Pid::from_raw(pid).expect("pid"), signal).expect("signal");
    }

    /// Waits for the end, without another line on stdout; the exit code.
    pub(crate) async fn end(mut self) -> Option<i32> {
        let status = within(self.child.wait()).await.expect("wait");
        assert_eq!(within(self.stdout.next_line()).await.expect("stdout"), None);
        status.code()
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().expect("running")));
        let status = status.expect("status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("number") * 1024
    }

    /// Sends a request by hand; the status of the answer.
    pub(crate) async fn status(&self, request: &str) -> u16 {
        let mut socket = TcpStream::connect(&self.address).await.expect("connect");
        socket.write_all(request.as_bytes()).await.expect("send");
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            assert_ne!(within(socket.read_buf(&mut answer)).await.expect("answer"), 0);
        }
        let text = String::from_utf8(answer).expect("text");
        text.split(' ').nth(1).expect("status").parse().expect("number")
    }

    pub(crate) async fn try_connect(&self, authorization: Option<&str>) -> Result<Client, Error> {
        let mut request = format!("ws://{}", self.address).into_client_request().expect("request");
        if let Some(value) = authorization {
            let headers = request.headers_mut();
            headers.insert("authorization", value.parse().expect("header"));
        }
        let socket = TcpStream::connect(&self.address).await.expect("connect");
        let config = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
        let upgraded = tokio_tungstenite::client_async_with_config(request, socket, Some(config));
        let (socket, _) = within(upgraded).await?;
        Ok(Client {
            socket,
            next_id: 1,
            passed: VecDeque::new(),
        })
    }

    /// A client after `initialize` and `initialized`.
    pub(crate) async fn client(&self) -> Client {
        let mut client = self.try_connect(None).await.expect("connect");
        let params = json!({"clientName": "test", "extensions": {"processControl": 1}});
        client.call("initialize", params).await;
        client.send(r#"{"method":"initialized"}"#).await;
        client
    }
}

pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<TcpStream>,
    next_id: i64,
    /// What came before a reply that was waited for.
    passed: VecDeque<Value>,
}

impl Client {
    pub(crate) async fn send(&mut self, text: &str) {
        within(self.socket.send(Message::text(text))).await.expect("send");
    }

    /// The next text message; anything else ends the test.
    pub(crate) async fn text(&mut self) -> Value {
        // The executor's pings must not make a wait endless.
        within(async {
            loop {
                match self.socket.next().await.expect("a message").expect("a message") {
                    Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                    Message::Ping(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        })
        .await
    }

    /// The next notification, with what came before the last replies.
    pub(crate) async fn news(&mut self) -> Value {
        match self.passed.pop_front() {
            Some(news) => news,
            None => self.text().await,
        }
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).await.expect("an answer")
    }

    /// The result, or the error.
    pub(crate) async fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"id": id, "method": method, "params": params});
        self.send(&request.to_string()).await;
        loop {
            let message = self.text().await;
            if message["id"] == id {
                return match message.get("error") {
                    None => Ok(message["result"].clone()),
                    Some(error) => Err(error.clone()),
                };
            }
            self.passed.push_back(message);
        }
    }

    /// Waits for the end; the code of the close frame.
    pub(crate) async fn closed(&mut self) -> u16 {
        loop {
            match within(self.socket.next())
                .await
                .expect("a close frame")
                .expect("a close frame")
            {
                Message::Close(frame) => return frame.expect("a code").code.into(),
                Message::Ping(_) | Message::Text(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Parameters of `process/start`.
pub(crate) fn start(id: &str, script: &str) -> Value {
    json!({
        "processId": id, "argv": ["/bin/sh", "-c", script], "cwd": "file:///", "env": {"PATH": "/usr/bin:/bin"},
        "tty": false, "pipeStdin": true,
    })
}
