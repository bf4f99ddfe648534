//! `executor forward` in front of an exec-server that goes away.

use rendezvous_transport::stream::StreamEnd;
use tokio::net::TcpListener;
use tokio_tungstenite::accept_async;

use crate::process::{Executor, bare};
use crate::world::{ENVIRONMENT, World, within};

#[tokio::test]
async fn both_ends_learn_that_the_exec_server_is_away() {
    let world = World::new();
    let exec_server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = exec_server.local_addr().expect("an address");
    let mut command = bare();
    command
        .args(["forward", "--connect", &format!("ws://{address}/?secret=hunter2")])
        .args(["--remote", &world.url(), "--environment-id", ENVIRONMENT])
        .env("EXECUTOR_TOKEN", "the-token");
    let mut executor = Executor::start(command);
    // It is there at the start.
    let (probe, _) = within(exec_server.accept()).await.expect("a connection");
    drop(accept_async(probe).await.expect("an upgrade"));
    executor.line().await.expect("registered");
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
