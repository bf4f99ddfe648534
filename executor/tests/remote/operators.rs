//! What operators see on `--admin-listen`.

use std::net::SocketAddr;

use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::limits::MAX_FAILED_HANDSHAKES;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::process::{Executor, POLL, with_token};
use crate::session::Session;
use crate::world::{World, within};

/// The status and the body of a GET.
async fn get(addr: SocketAddr, path: &str) -> (u16, String) {
    within(async {
        let mut client = TcpStream::connect(addr).await.expect("connect");
        let request = format!("GET {path} HTTP/1.1\r\nhost: executor\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("write");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("read");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status").parse();
        (status.expect("a number"), body.to_owned())
    })
    .await
}

/// Waits until the metrics hold a line.
async fn counted(addr: SocketAddr, line: &str) {
    let mut metrics = String::new();
    let found = tokio::time::timeout(crate::world::PATIENCE, async {
        loop {
            metrics = get(addr, "/metrics").await.1;
            if metrics.lines().any(|counted| counted == line) {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(found.await.is_ok(), "`{line}` is not in:\n{metrics}");
}

#[tokio::test]
async fn health_readiness_and_metrics() {
    let world = World::new();
    world.answer_upgrades([503; 64]);
    let mut command = with_token(&world);
    command.args(["--admin-listen", "127.0.0.1:0"]);
    let mut executor = Executor::start(command);
    let addr = executor.admin().await;
    assert_eq!(get(addr, "/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(get(addr, "/readyz").await, (503, "not connected\n".to_owned()));
    counted(addr, r#"executor_registrations_total{result="ok"} 1"#).await;

    world.accept_upgrades();
    executor.line().await.expect("registered");
    counted(addr, "executor_relay_connected 1").await;
    assert_eq!(get(addr, "/readyz").await, (200, "ready\n".to_owned()));
    counted(addr, r#"executor_relay_connections_total{result="up"} 1"#).await;
    // What has not happened is there too.
    counted(addr, "executor_admission_pauses_total 0").await;
    counted(addr, "executor_streams 0").await;

    let mut session = Session::open(&world).await;
    counted(addr, "executor_streams 1").await;
    counted(addr, "executor_streams_total 1").await;
    counted(addr, r#"executor_handshakes_total{verdict="admitted"} 1"#).await;

    world.send(Message::text("{}"));
    world.send(Message::binary("no frame"));
    counted(addr, "executor_text_messages_total 1").await;
    counted(addr, "executor_invalid_frames_total 1").await;
    for number in 0..=MAX_FAILED_HANDSHAKES {
        let stream = StreamId::new(format!("bad-{number}")).expect("id");
        let payload = vec![0; 4000].into();
        let frame = Frame::new(stream, Body::Handshake { payload });
        world.send(Message::binary(frame.to_bytes()));
    }
    counted(
        addr,
        &format!("executor_failed_handshakes_total {MAX_FAILED_HANDSHAKES}"),
    )
    .await;
    counted(addr, "executor_admission_pauses_total 1").await;
    // The one that came into the pause.
    counted(addr, "executor_refusals_total 1").await;
    assert_eq!(session.run("echo still here").await, ("still here\n".to_owned(), 0));

    world.answer_upgrades([503; 64]);
    world.cut();
    counted(addr, "executor_relay_connected 0").await;
    counted(addr, "executor_streams 0").await;
    assert_eq!(get(addr, "/readyz").await.0, 503);
    assert_eq!(get(addr, "/").await.0, 404);
}

/// An executor whose credential has ended stays connected and can admit nobody.
#[tokio::test]
async fn a_credential_that_has_ended_is_no_good_health() {
    let world = World::new();
    let mut command = with_token(&world);
    command.args(["--admin-listen", "127.0.0.1:0"]);
    let mut executor = Executor::start(command);
    let addr = executor.admin().await;
    executor.line().await.expect("registered");
    let mut session = Session::open(&world).await;
    counted(addr, "executor_credential_accepted 1").await;

    world.answer_validations(401, "{}");
    assert!(world.harness().await.is_err());
    counted(addr, "executor_credential_accepted 0").await;
    counted(addr, "executor_relay_connected 1").await;
    let (status, reasons) = get(addr, "/readyz").await;
    assert_eq!((status, reasons.contains("credential")), (503, true), "{reasons}");
    assert_eq!(session.run("echo still here").await, ("still here\n".to_owned(), 0));

    // Only the registry's own word changes that.
    world.answer_validations(500, "{}");
    assert!(world.harness().await.is_err());
    counted(addr, r#"executor_handshakes_total{verdict="failed"} 1"#).await;
    counted(addr, "executor_credential_accepted 0").await;
    world.answer_validations(200, r#"{"valid":true}"#);
    world.harness().await.expect("admitted");
    counted(addr, "executor_credential_accepted 1").await;
    assert_eq!(get(addr, "/readyz").await, (200, "ready\n".to_owned()));

    // What is taken for a registration is good again.
    world.answer_validations(401, "{}");
    assert!(world.harness().await.is_err());
    counted(addr, "executor_credential_accepted 0").await;
    world.answer_upgrades([404]);
    world.cut();
    counted(addr, "executor_credential_accepted 1").await;
    counted(addr, r#"executor_registrations_total{result="ok"} 2"#).await;
}
