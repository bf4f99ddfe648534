//! `executor forward` in front of an exec-server that goes away.

use std::fs;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_transport::stream::{MessageStream, StreamEnd};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::process::{Executor, NOBODY, bare};
use crate::world::{ENVIRONMENT, World, within};

/// A forwarder, and the listener of the exec-server behind it.
pub(crate) async fn up(world: &World, more: &[&str]) -> (Executor, TcpListener) {
    let exec_server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = exec_server.local_addr().expect("an address");
    let mut command = bare();
    command
        .args(["forward", "--connect", &format!("ws://{address}/?secret=hunter2")])
        .args(["--remote", &world.url(), "--environment-id", ENVIRONMENT])
        .args(more)
        .env("EXECUTOR_TOKEN", "the-token");
    let mut executor = Executor::start(command);
    // It is there at the start.
    drop(accept(&exec_server).await);
    executor.line().await.expect("registered");
    (executor, exec_server)
}

pub(crate) async fn accept(exec_server: &TcpListener) -> WebSocketStream<TcpStream> {
    let (socket, _) = within(exec_server.accept()).await.expect("a connection");
    accept_async(socket).await.expect("an upgrade")
}

async fn next(stream: &mut MessageStream) -> Value {
    let message = within(stream.recv()).await.expect("a message").expect("a message");
    serde_json::from_slice(&message).expect("JSON")
}

fn initialize(extensions: &Value) -> Value {
    json!({"id": 1, "method": "initialize", "params": {"clientName": "c", "extensions": extensions}})
}

async fn say(harness: &MessageStream, message: &Value) {
    within(harness.send(Bytes::from(message.to_string())))
        .await
        .expect("sent");
}

/// What the exec-server hears next.
async fn heard(backend: &mut WebSocketStream<TcpStream>) -> Value {
    let message = within(backend.next()).await.expect("a message").expect("a message");
    serde_json::from_str(message.to_text().expect("text")).expect("JSON")
}

/// Says `messages` behind the back of a harness that asks whose key ends its channel.
async fn behind(exec_server: &TcpListener, harness: &MessageStream, messages: &[Value]) -> WebSocketStream<TcpStream> {
    say(harness, &initialize(&json!({"identity": 1}))).await;
    let mut backend = accept(exec_server).await;
    let asked = heard(&mut backend).await;
    assert!(!asked.to_string().contains("identity"), "{asked}");
    for message in messages {
        backend.send(Message::text(message.to_string())).await.expect("sent");
    }
    backend
}

/// Whoever is behind the forwarder has no say in whose key it has, whatever it sends before or instead.
#[tokio::test]
async fn the_exec_server_does_not_speak_for_the_forwarder() {
    let world = World::new();
    let (_executor, exec_server) = up(&world, &[]).await;
    let lie = json!({"sessionId": "s", "extensions": {"identity": {"version": 1, "persistent": true}}});

    let mut harness = world.harness().await.expect("admitted");
    let said = [json!({"id": 999, "result": {}}), json!({"id": 1, "result": lie})];
    let _backend = behind(&exec_server, &harness, &said).await;
    assert_eq!(next(&mut harness).await, said[0]);
    let result = next(&mut harness).await;
    let statement = &result["result"]["extensions"]["identity"];
    assert!(statement["key"].is_object(), "{result}");
    assert_eq!(statement["persistent"], false, "{result}");

    let mut harness = world.harness().await.expect("admitted");
    let said = [json!({"id": 1, "result": ["s", null, lie["extensions"]]})];
    let _backend = behind(&exec_server, &harness, &said).await;
    let end = within(harness.recv()).await.expect("an end");
    assert!(end.is_err(), "{end:?}");
}

/// Only the result of the call that asked is an answer to it: no other message with its number, and none with one like it.
#[tokio::test]
async fn only_the_result_of_the_call_that_asked_is_added_to() {
    let world = World::new();
    let (_executor, exec_server) = up(&world, &[]).await;
    let mut harness = world.harness().await.expect("admitted");
    let said = [
        json!({"id": 0, "result": {}}),
        json!({"id": "1", "result": {}}),
        json!({"method": "news", "params": {"id": 1, "result": {}}}),
        json!({"id": 1, "method": "question", "params": {"result": {}}}),
        json!({"id": 1, "error": {"code": -32600, "message": "not yet"}}),
        json!({"id": 1, "result": {"sessionId": "s"}}),
        json!({"id": 2, "result": {"sessionId": "s"}}),
    ];
    let _backend = behind(&exec_server, &harness, &said).await;
    for expected in &said {
        let mut message = next(&mut harness).await;
        let is_answer = *expected == said[5];
        if is_answer {
            let result = message["result"].as_object_mut().expect("a result");
            let extensions = result.remove("extensions").expect("an answer");
            assert!(extensions["identity"]["key"].is_object(), "{extensions}");
        }
        assert_eq!(message, *expected);
    }
}

/// Of a harness that asks for nothing, everything passes as it is, and large messages too once its session is open.
#[tokio::test]
async fn what_needs_no_answer_of_the_forwarder_passes_as_it_is() {
    let world = World::new();
    let (_executor, exec_server) = up(&world, &[]).await;
    let mut harness = world.harness().await.expect("admitted");
    let asked = initialize(&json!({"processControl": 1}));
    say(&harness, &asked).await;
    let mut backend = accept(&exec_server).await;
    assert_eq!(heard(&mut backend).await, asked);
    let answer = json!({"id": 1, "result": {"sessionId": "s", "extensions": {"processControl": 1}}});
    // No message at all is none that a stream carries.
    for text in [String::new(), answer.to_string(), String::new(), "{}".to_owned()] {
        backend.send(Message::text(text)).await.expect("sent");
    }
    assert_eq!(next(&mut harness).await, answer);
    assert_eq!(next(&mut harness).await, json!({}));
    let large = json!({"id": 2, "method": "m", "params": "x".repeat(600_000)});
    say(&harness, &large).await;
    assert_eq!(heard(&mut backend).await, large);
}

/// A forwarder whose streams end with their connections says nothing else, and leaves no offer to the exec-server.
#[tokio::test]
async fn a_stream_that_may_not_outlive_its_connection_is_not_said_to() {
    let world = World::new();
    let (_executor, exec_server) = up(&world, &["--stream-grace", "0"]).await;
    let mut harness = world.harness().await.expect("admitted");
    let offers = json!({"identity": 1, "reliableStream": 1, "processControl": 1});
    say(&harness, &initialize(&offers)).await;
    let mut backend = accept(&exec_server).await;
    let rest = initialize(&json!({"processControl": 1}));
    assert_eq!(heard(&mut backend).await, rest);
    let answer = json!({"id": 1, "result": {"sessionId": "s"}});
    backend.send(Message::text(answer.to_string())).await.expect("sent");
    let result = next(&mut harness).await;
    let extensions = result["result"]["extensions"].as_object().expect("answers");
    let names: Vec<&String> = extensions.keys().collect();
    assert_eq!(names, ["identity"]);
    let after = json!({"id": 2, "method": "m"});
    say(&harness, &after).await;
    assert_eq!(heard(&mut backend).await, after);
}

#[tokio::test]
async fn the_end_of_either_side_is_the_end_of_the_other() {
    let world = World::new();
    let (_executor, exec_server) = up(&world, &[]).await;
    let mut harness = world.harness().await.expect("admitted");
    drop(accept(&exec_server).await);
    assert!(within(harness.recv()).await.expect("an end").is_err());
    let harness = world.harness().await.expect("admitted");
    let mut backend = accept(&exec_server).await;
    drop(harness);
    let end = within(backend.next()).await;
    assert!(
        !matches!(end, Some(Ok(Message::Text(_) | Message::Binary(_)))),
        "{end:?}"
    );
}

#[tokio::test]
async fn both_ends_learn_that_the_exec_server_is_away() {
    let world = World::new();
    let (executor, exec_server) = up(&world, &[]).await;
    let address = exec_server.local_addr().expect("an address");
    drop(exec_server);
    let mut stream = world.harness().await.expect("admitted");
    let end = within(stream.recv()).await.expect("an end").expect_err("no message");
    assert!(
        matches!(&end, StreamEnd::Reset(reason) if reason == "exec_server_unreachable"),
        "{end:?}"
    );
    executor.says("cannot reach the exec-server").await;
    let log = executor.stderr();
    let line = log
        .lines()
        .find(|line| line.contains("cannot reach the exec-server"))
        .expect("a line");
    assert!(
        line.contains(&format!("ws://{address}")) && line.contains("refused"),
        "{line}"
    );
    assert!(!log.contains("hunter2"), "{log}");
}

#[tokio::test]
async fn an_exec_server_that_wants_a_token_is_told_from_one_that_wants_another() {
    let world = World::new();
    let token = tempfile::NamedTempFile::new().expect("a file");
    fs::write(token.path(), "wrong").expect("written");
    let mut listener = bare();
    // That of an empty token.
    let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    listener.args(["--listen", "--ws-auth", "capability-token", "--ws-token-sha256", digest]);
    let mut listener = Executor::start(listener);
    let url = listener.line().await.expect("a URL");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(token.path(), Some(NOBODY), Some(NOBODY)).expect("chown");
    }
    for (more, hint) in [
        (None, "which wants a token: use --connect-token-file"),
        (
            Some(token.path()),
            "which does not take the token of --connect-token-file",
        ),
    ] {
        let mut command = bare();
        command
            .args([
                "forward",
                "--connect",
                &url,
                "--remote",
                &world.url(),
                "--environment-id",
                ENVIRONMENT,
            ])
            .env("EXECUTOR_TOKEN", "the-token");
        if let Some(file) = more {
            command.arg("--connect-token-file").arg(file);
        }
        let (code, text) = Executor::start(command).end().await;
        assert_eq!(code, Some(77), "{text}");
        assert!(text.contains(hint) && text.contains("401"), "{text}");
    }
}
