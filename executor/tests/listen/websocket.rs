//! Messages, their sizes, back-pressure, and the end of a connection.

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rustix::process::Signal;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::world::{Executor, start, until, within};

/// Largest message of the protocol.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// A call of no method, of exactly `len` bytes.
fn padded(id: u32, len: usize) -> String {
    let head = format!(r#"{{"id":{id},"method":"none","params":""#);
    let tail = r#""}"#;
    let padding = "x".repeat(len - head.len() - tail.len());
    format!("{head}{padding}{tail}")
}

#[tokio::test]
async fn the_largest_message_passes_in_one_frame_and_in_many() {
    let executor = Executor::start(&[]).await;
    let mut client = executor.client().await;
    client.send(&padded(7, MAX_MESSAGE)).await;
    let reply = client.text().await;
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(7), &json!(-32601)));

    let message = Bytes::from(padded(8, MAX_MESSAGE));
    let size = 1 << 20;
    for (index, piece) in (0..MAX_MESSAGE).step_by(size).enumerate() {
        let opcode = if index == 0 { Data::Text } else { Data::Continue };
        let end = (piece + size).min(MAX_MESSAGE);
        let frame = Frame::message(message.slice(piece..end), OpCode::Data(opcode), end == MAX_MESSAGE);
        within(client.socket.send(Message::Frame(frame))).await.expect("send");
    }
    let reply = client.text().await;
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(8), &json!(-32601)));

    client.send(&padded(9, MAX_MESSAGE + 1)).await;
    assert_eq!(client.closed().await, 1009);
    executor.client().await;
}

#[tokio::test]
async fn texts_are_sent_and_binary_messages_are_taken_too() {
    let executor = Executor::start(&[]).await;
    let mut client = executor.client().await;
    let call = Bytes::from_static(br#"{"id":"b","method":"environment/status"}"#);
    within(client.socket.send(Message::Binary(call))).await.expect("send");
    assert_eq!(client.text().await, json!({"id": "b", "result": {"status": "ready"}}));
    within(client.socket.send(Message::Binary(Bytes::from_static(b"\xff"))))
        .await
        .expect("send");
    assert_eq!(client.text().await["error"]["code"], -32600);
    within(client.socket.send(Message::Ping(Bytes::from_static(b"you?"))))
        .await
        .expect("send");
    let pong = within(client.socket.next()).await.expect("pong").expect("pong");
    assert_eq!(pong, Message::Pong(Bytes::from_static(b"you?")));
}

#[tokio::test]
async fn whoever_breaks_the_protocol_gets_a_close_frame() {
    let executor = Executor::start(&[]).await;
    let mut client = executor.client().await;
    // What was asked before is answered before.
    client.send(r#"{"id":1,"method":"environment/status"}"#).await;
    client.send(r#"{"method":"unknown"}"#).await;
    assert_eq!(client.text().await["id"], 1);
    assert_eq!(client.closed().await, 1000);
}

#[tokio::test]
async fn the_stop_closes_connections_and_kills_processes() {
    let executor = Executor::start(&[]).await;
    let mut client = executor.client().await;
    client
        .call("process/start", start("p", "echo $$; exec sleep 1000"))
        .await;
    let pid = loop {
        let news = client.news().await;
        if news["method"] == "process/output" {
            use base64::Engine as _;
            let chunk = news["params"]["chunk"].as_str().expect("chunk");
            let text = base64::engine::general_purpose::STANDARD.decode(chunk).expect("base64");
            break String::from_utf8(text).expect("text").trim().to_owned();
        }
    };
    assert!(std::path::Path::new("/proc").join(&pid).exists());
    executor.signal(Signal::TERM);
    assert_eq!(client.closed().await, 1000);
    assert_eq!(executor.end().await, Some(0));
    until(|| !std::path::Path::new("/proc").join(&pid).exists()).await;
}

/// The most bytes that TCP holds between two programs of this machine: in the sender's buffer and in the receiver's, as large
/// as the kernel ever makes them.
fn in_the_kernel() -> usize {
    ["tcp_wmem", "tcp_rmem"]
        .map(|name| {
            let sizes = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).expect("sizes");
            let most = sizes.split_whitespace().next_back().expect("the most");
            most.parse::<usize>().expect("a number")
        })
        .iter()
        .sum()
}

/// A process that prints without end is held up when its client reads more slowly, in bounded memory, and nobody else is.
#[tokio::test]
async fn a_client_that_reads_slowly_holds_up_its_own_processes_only() {
    const MIB: usize = 1 << 20;
    // Of a program: its pipe, what was read of it and not taken, and the events of its session. Of a connection, in messages:
    // those on their way to the link, and the link's buffer.
    const PROGRAM: usize = MIB / 16 + MIB / 4 + 32 * 44 * 1024;
    const CONNECTION: usize = MIB + MIB / 4;
    // Three bytes are four in a message.
    let most = PROGRAM + (CONNECTION + in_the_kernel()) / 4 * 3;
    let executor = Executor::start(&[]).await;
    let idle = executor.resident();
    let mut slow = executor.client().await;
    let folder = tempfile::tempdir().expect("folder");
    let progress = folder.path().join("progress");
    let script = format!(
        "while dd if=/dev/zero bs=64k count=16 2>/dev/null; do printf x >> {}; done",
        progress.display()
    );
    slow.call("process/start", start("p", &script)).await;
    // One byte for each MiB.
    let written = || std::fs::metadata(&progress).map_or(0, |file| usize::try_from(file.len()).expect("a size") * MIB);
    let mut got = 0;
    while got < 4 * most {
        let news = slow.news().await;
        let chunk = news["params"]["chunk"].as_str().unwrap_or_default();
        got += chunk.len() / 4 * 3;
        let ahead = written().saturating_sub(got);
        assert!(ahead <= most, "{ahead} bytes of at most {most} are on their way");
        let grown = executor.resident().saturating_sub(idle);
        assert!(grown < 32 << 20, "{grown} bytes for a client that reads slowly");
    }
    let mut other = executor.client().await;
    other.call("environment/status", json!(null)).await;
    slow.call("process/terminate", json!({"processId": "p"})).await;
}
