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
async fn up(world: &World) -> (Executor, TcpListener) {
    let exec_server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = exec_server.local_addr().expect("an address");
    let mut command = bare();
    command
        .args(["forward", "--connect", &format!("ws://{address}/?secret=hunter2")])
        .args(["--remote", &world.url(), "--environment-id", ENVIRONMENT])
        .env("EXECUTOR_TOKEN", "the-token");
    let mut executor = Executor::start(command);
    // It is there at the start.
    drop(accept(&exec_server).await);
    executor.line().await.expect("registered");
    (executor, exec_server)
}

async fn accept(exec_server: &TcpListener) -> WebSocketStream<TcpStream> {
    let (socket, _) = within(exec_server.accept()).await.expect("a connection");
    accept_async(socket).await.expect("an upgrade")
}

async fn next(stream: &mut MessageStream) -> Value {
    let message = within(stream.recv()).await.expect("a message").expect("a message");
    serde_json::from_slice(&message).expect("JSON")
}

/// Says `messages` behind the back of a harness that asks whose key ends its channel.
async fn behind(exec_server: &TcpListener, harness: &MessageStream, messages: &[Value]) -> WebSocketStream<TcpStream> {
    let initialize =
        json!({"id": 1, "method": "initialize", "params": {"clientName": "c", "extensions": {"identity": 1}}});
    harness.send(Bytes::from(initialize.to_string())).await.expect("sent");
    let mut backend = accept(exec_server).await;
    let asked = within(backend.next()).await.expect("a message").expect("a message");
    assert!(!asked.to_text().expect("text").contains("identity"), "{asked}");
    for message in messages {
        backend.send(Message::text(message.to_string())).await.expect("sent");
    }
    backend
}

/// Whoever is behind the forwarder has no say in whose key it has, whatever it sends before or instead.
#[tokio::test]
async fn the_exec_server_does_not_speak_for_the_forwarder() {
    let world = World::new();
    let (_executor, exec_server) = up(&world).await;
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

#[tokio::test]
async fn both_ends_learn_that_the_exec_server_is_away() {
    let world = World::new();
    let (executor, exec_server) = up(&world).await;
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
