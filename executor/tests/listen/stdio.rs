//! One client on stdin and stdout.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::world::{Executor, command, refused, start, until, within};

struct Pipe {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Pipe {
    fn start(url: &str) -> Self {
        let mut command = command(&["--listen", url]);
        let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("start");
        Self {
            stdin: child.stdin.take().expect("stdin"),
            stdout: BufReader::new(child.stdout.take().expect("stdout")).lines(),
            child,
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        within(self.stdin.write_all(bytes)).await.expect("send");
    }

    /// The next line, which must be JSON.
    async fn next(&mut self) -> Value {
        let line = within(self.stdout.next_line()).await.expect("stdout").expect("a line");
        serde_json::from_str(&line).expect("JSON alone")
    }

    async fn open(&mut self) {
        self.send(b"{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientName\":\"x\"}}\n")
            .await;
        assert_eq!(self.next().await["id"], 1);
        self.send(b"{\"method\":\"initialized\"}\n").await;
    }
}

#[tokio::test]
async fn lines_may_end_either_way_and_blank_ones_are_nothing() {
    for url in ["stdio", "stdio://"] {
        let mut pipe = Pipe::start(url);
        pipe.send(b"\n  \r\n\t\n").await;
        pipe.open().await;
        pipe.send(b"{\"id\":2,\"method\":\"environment/status\"}\r\n{\"id\":3,")
            .await;
        assert_eq!(pipe.next().await, json!({"id": 2, "result": {"status": "ready"}}));
        pipe.send(b"\"method\":\"environment/status\"}\n\n{\n").await;
        assert_eq!(pipe.next().await["id"], 3);
        let broken = pipe.next().await;
        assert_eq!((&broken["id"], &broken["error"]["code"]), (&json!(-1), &json!(-32600)));
        drop(pipe.stdin);
        assert_eq!(within(pipe.stdout.next_line()).await.expect("stdout"), None);
        assert_eq!(within(pipe.child.wait()).await.expect("end").code(), Some(0));
    }
}

/// A script that pipes its questions in has nothing more to say by the time that they are looked at.
#[tokio::test]
async fn what_was_asked_before_the_end_of_stdin_is_answered() {
    for concurrency in ["1", "8"] {
        let mut child = command(&["--listen", "stdio", "--concurrent-requests", concurrency])
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("start");
        let mut stdin = child.stdin.take().expect("stdin");
        let mut text = String::from("{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientName\":\"x\"}}\n");
        text.push_str("{\"method\":\"initialized\"}\n");
        for id in 2..200 {
            text.push_str(&format!("{{\"id\":{id},\"method\":\"environment/status\"}}\n"));
        }
        let started = json!({"id": 200, "method": "process/start", "params": start("p", "printf done")});
        // The last line has no end.
        text.push_str(&started.to_string());
        let mut last = 200;
        if concurrency == "1" {
            // Has to wait for the program.
            last = 201;
            let read = json!({"id": 201, "method": "process/read", "params": {"processId": "p", "waitMs": 30000}});
            text.push_str(&format!("\n{read}"));
        }
        within(stdin.write_all(text.as_bytes())).await.expect("send");
        drop(stdin);
        let output = within(child.wait_with_output()).await.expect("end");
        assert_eq!(output.status.code(), Some(0));
        let lines = std::str::from_utf8(&output.stdout).expect("text").lines();
        let messages = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON alone"));
        let replies: Vec<Value> = messages.filter(|message| message.get("id").is_some()).collect();
        let mut ids: Vec<u64> = replies.iter().map(|reply| reply["id"].as_u64().expect("id")).collect();
        if concurrency != "1" {
            ids.sort_unstable();
        }
        assert_eq!(ids, (1..=last).collect::<Vec<u64>>(), "{replies:?}");
        assert!(replies.iter().all(|reply| reply.get("result").is_some()), "{replies:?}");
    }
}

/// Nobody reads the answers, and nobody says so either.
#[tokio::test]
async fn a_client_that_takes_nothing_after_the_end_of_stdin_is_given_up() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("big");
    std::fs::write(&file, vec![b'x'; 8 * 1024 * 1024]).expect("file");
    let mut pipe = Pipe::start("stdio");
    pipe.open().await;
    let path = format!("file://{}", file.display());
    let read = json!({"id": 2, "method": "fs/readFile", "params": {"path": path}});
    pipe.send(format!("{read}\n").as_bytes()).await;
    drop(pipe.stdin);
    assert_eq!(within(pipe.child.wait()).await.expect("end").code(), Some(0));
}

#[tokio::test]
async fn the_end_of_stdin_kills_processes_and_stops_calls() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("pid");
    let mut pipe = Pipe::start("stdio");
    pipe.open().await;
    let script = format!("echo $$ > {}.new; mv {0}.new {0}; exec sleep 1000", file.display());
    let start = json!({"id": 2, "method": "process/start", "params": start("p", &script)});
    pipe.send(format!("{start}\n").as_bytes()).await;
    assert_eq!(pipe.next().await["id"], 2);
    until(|| file.exists()).await;
    let pid = std::fs::read_to_string(&file).expect("pid");
    let process = std::path::Path::new("/proc").join(pid.trim());
    pipe.send(b"{\"id\":3,\"method\":\"process/read\",\"params\":{\"processId\":\"p\",\"waitMs\":600000}}\n")
        .await;
    assert!(process.exists());
    drop(pipe.stdin);
    assert_eq!(within(pipe.child.wait()).await.expect("end").code(), Some(0));
    until(|| !process.exists()).await;
}

#[tokio::test]
async fn a_line_may_have_64_mib_and_no_more() {
    const MAX: usize = 64 * 1024 * 1024;
    let padded = |len: usize| {
        let head = r#"{"id":7,"method":"none","params":""#;
        format!("{head}{}\"}}", "x".repeat(len - head.len() - 2))
    };
    let mut pipe = Pipe::start("stdio");
    pipe.open().await;
    for end in ["\n", "\r\n"] {
        pipe.send(format!("{}{end}", padded(MAX)).as_bytes()).await;
        assert_eq!(pipe.next().await["error"]["code"], -32601);
    }
    // Without an end it is refused as soon as it is too long.
    let overlong = padded(MAX + 8);
    // The executor may be gone before it has read all.
    let _ = within(pipe.stdin.write_all(overlong.as_bytes())).await;
    assert_eq!(within(pipe.stdout.next_line()).await.expect("stdout"), None);
    assert_eq!(within(pipe.child.wait()).await.expect("end").code(), Some(0));
}

#[tokio::test]
async fn a_listener_ends_with_stdin_when_told_so() {
    let mut executor = Executor::start(&["--exit-on-stdin-close"]).await;
    let mut client = executor.client().await;
    let stdin = executor.child.stdin.take().expect("stdin");
    client.call("environment/status", json!(null)).await;
    drop(stdin);
    assert_eq!(client.closed().await, 1000);
    assert_eq!(executor.end().await, Some(0));
    // Without the flag nothing happens.
    let mut executor = Executor::start(&[]).await;
    drop(executor.child.stdin.take());
    executor.client().await;
    let (code, text) = refused(&["--listen", "stdio", "--exit-on-stdin-close"]).await;
    assert_eq!(code, Some(64), "{text}");
}
