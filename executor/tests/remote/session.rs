//! Sessions through the relay, with JSON-RPC by hand.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rendezvous_transport::stream::{MessageStream, StreamEnd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::process::{Executor, with_token};
use crate::world::{Seen, World, within};

/// An initialized session with at most one process at a time.
pub(crate) struct Session {
    stream: MessageStream,
    next_id: u64,
    /// Notifications that came while a result was waited for.
    early: VecDeque<Value>,
}

impl Session {
    pub(crate) async fn open(world: &World) -> Self {
        let stream = world.harness().await.expect("admitted");
        let mut session = Self {
            stream,
            next_id: 1,
            early: VecDeque::new(),
        };
        let result = session
            .call("initialize", json!({"clientName": "test", "resumeSessionId": null}))
            .await;
        assert!(result["sessionId"].is_string(), "{result}");
        session.send(json!({"method": "initialized", "params": {}})).await;
        session
    }

    async fn send(&mut self, message: Value) {
        let message = Bytes::from(message.to_string());
        within(self.stream.send(message)).await.expect("send");
    }

    async fn recv(&mut self) -> Value {
        let message = within(self.stream.recv()).await.expect("open").expect("message");
        serde_json::from_slice(&message).expect("json")
    }

    /// The result of a request.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({"id": id, "method": method, "params": params})).await;
        loop {
            let message = self.recv().await;
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.early.push_back(message);
        }
    }

    async fn start(&mut self, script: &str) {
        let params = json!({
            "processId": format!("p{}", self.next_id), "argv": ["/bin/sh", "-c", script], "cwd": "file:///",
            "envPolicy": {"inherit": "all", "ignoreDefaultExcludes": true, "exclude": [], "set": {}, "includeOnly": []},
            "env": {}, "tty": false, "pipeStdin": false, "arg0": null,
        });
        self.call("process/start", params).await;
    }

    /// The next output.
    async fn output(&mut self) -> String {
        let message = match self.early.pop_front() {
            Some(message) => message,
            None => self.recv().await,
        };
        assert_eq!(message["method"], "process/output", "{message}");
        let chunk = STANDARD.decode(message["params"]["chunk"].as_str().expect("chunk"));
        String::from_utf8(chunk.expect("base64")).expect("text")
    }

    /// Runs a shell script; both of its outputs together, and its exit code.
    pub(crate) async fn run(&mut self, script: &str) -> (String, i64) {
        self.start(&format!("{{ {script}\n}} 2>&1")).await;
        let (mut chunks, mut code) = (HashMap::new(), None);
        loop {
            let message = match self.early.pop_front() {
                Some(message) => message,
                None => self.recv().await,
            };
            let params = &message["params"];
            match message["method"].as_str() {
                Some("process/output") => {
                    let chunk = STANDARD.decode(params["chunk"].as_str().expect("chunk"));
                    chunks.insert(params["seq"].as_u64().expect("seq"), chunk.expect("base64"));
                }
                Some("process/exited") => code = params["exitCode"].as_i64(),
                Some("process/closed") => break,
                _ => panic!("{message}"),
            }
        }
        let mut chunks: Vec<_> = chunks.into_iter().collect();
        chunks.sort();
        let output: Vec<u8> = chunks.into_iter().flat_map(|(_, chunk)| chunk).collect();
        (String::from_utf8_lossy(&output).into_owned(), code.expect("exited"))
    }
}

/// An executor that is connected.
pub(crate) async fn up(world: &mut World) -> Executor {
    let mut executor = Executor::start(with_token(world));
    executor.line().await.expect("line");
    assert!(matches!(world.next().await, Seen::Register(..)));
    assert!(matches!(world.next().await, Seen::Upgrade(..)));
    executor
}

#[tokio::test]
async fn commands_run_through_the_relay() {
    let mut world = World::new();
    let _executor = up(&mut world).await;
    let mut session = Session::open(&world).await;
    let stream = session.stream.id().to_string();
    assert_eq!(world.next().await, Seen::Validate(stream));
    assert_eq!(session.run("echo hello; exit 7").await, ("hello\n".to_owned(), 7));
}

#[tokio::test]
async fn large_messages_are_taken_once_the_session_is_open() {
    let mut world = World::new();
    let _executor = up(&mut world).await;
    let mut session = Session::open(&world).await;
    let path = "file:///dev/null";
    let data = STANDARD.encode(vec![0; 600_000]);
    session
        .call("fs/writeFile", json!({"path": path, "dataBase64": data}))
        .await;
}

#[tokio::test]
async fn only_a_clear_yes_admits() {
    for (status, body) in [
        (200, r#"{"valid":false}"#),
        (200, "{}"),
        (200, "nonsense"),
        (500, r#"{"valid":true}"#),
        (404, ""),
        (401, r#"{"valid":true}"#),
    ] {
        let mut world = World::new();
        let _executor = up(&mut world).await;
        world.answer_validations(status, body);
        let end = world.harness().await.expect_err("refused");
        if status == 401 {
            assert!(
                !matches!(end, StreamEnd::Reset(_)),
                "told inside the handshake: {end:?}"
            );
        } else {
            assert!(matches!(end, StreamEnd::Reset(_)), "{status} {body}: {end:?}");
        }
        assert!(matches!(world.next().await, Seen::Validate(_)));
    }
}

#[tokio::test]
async fn the_end_takes_the_processes_along() {
    let mut world = World::new();
    let executor = up(&mut world).await;
    let mut session = Session::open(&world).await;
    session.start("sleep 1000 & echo $! $$; wait").await;
    let pids = session.output().await;
    let processes: Vec<_> = pids.split_whitespace().map(watched).collect();
    assert_eq!(processes.len(), 2, "{pids}");
    executor.signal(Signal::TERM);
    let (code, log) = executor.end().await;
    assert_eq!(code, Some(0), "{log}");
    let all_end = spawn_blocking(move || {
        for process in processes {
            // Readable when it has ended.
            poll(&mut [PollFd::new(&process, PollFlags::IN)], None).expect("watched");
        }
    });
    within(all_end).await.expect("all have ended");
}

/// A process whose end can be waited for.
fn watched(pid: &str) -> OwnedFd {
    let pid = Pid::from_raw(pid.parse().expect("a number")).expect("a number");
    pidfd_open(pid, PidfdFlags::empty()).expect("running")
}
