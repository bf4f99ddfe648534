//! Several calls of one stream at once.

use std::num::NonZeroUsize;
use std::time::Duration;

use rendezvous_executor::server::{Config, Server};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Client, start};

fn server(requests: usize) -> Server {
    Server::new(Config {
        concurrent_requests: NonZeroUsize::new(requests).expect("not zero"),
        ..Config::default()
    })
}

/// The id of the next reply.
async fn next_reply(client: &mut Client) -> Value {
    loop {
        let message = client.message().await.expect("a reply");
        if message.get("id").is_some() {
            return message["id"].clone();
        }
    }
}

fn long_read(process: &str) -> Value {
    json!({"processId": process, "waitMs": 600_000})
}

/// Nothing is answered for a moment.
async fn assert_silent(client: &mut Client) {
    let answer = timeout(Duration::from_millis(50), client.incoming.recv()).await;
    assert!(answer.is_err(), "{answer:?}");
}

#[tokio::test]
async fn control_calls_pass_long_reads_and_full_lanes() {
    let server = server(2);
    let mut client = Client::new(&server).await;
    client
        .call("process/start", start("p", "sleep 1000"))
        .await
        .expect("start");
    let mut reads = Vec::new();
    for _ in 0..2 {
        reads.push(client.begin("process/read", long_read("p")).await);
    }
    let waiting = client.begin("fs/getMetadata", json!({"path": "file:///"})).await;
    for method in ["environment/status", "environment/info"] {
        let id = client.begin(method, Value::Null).await;
        assert_eq!(next_reply(&mut client).await, id, "{method}");
    }
    let close = client.begin("fs/close", json!({"handleId": "none"})).await;
    assert_eq!(next_reply(&mut client).await, close);
    let signal = client
        .begin("process/signal", json!({"processId": "none", "signal": "interrupt"}))
        .await;
    assert_eq!(next_reply(&mut client).await, signal);
    // The ordinary lane is full.
    assert_silent(&mut client).await;
    let terminate = client.begin("process/terminate", json!({"processId": "p"})).await;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(next_reply(&mut client).await.as_i64().expect("id"));
    }
    let mut expected = vec![reads[0], reads[1], waiting, terminate];
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn one_at_a_time_keeps_the_order() {
    let server = server(1);
    let mut client = Client::stock(&server).await;
    client
        .call("process/start", start("p", "read line"))
        .await
        .expect("start");
    let read = client
        .begin("process/read", json!({"processId": "p", "waitMs": 300}))
        .await;
    let status = client.begin("environment/status", Value::Null).await;
    let terminate = client.begin("process/terminate", json!({"processId": "p"})).await;
    for id in [read, status, terminate] {
        assert_eq!(next_reply(&mut client).await, id);
    }
}

#[tokio::test]
async fn the_handshake_is_answered_in_order() {
    let server = server(64);
    let mut client = Client::raw(&server);
    let early = client.begin("environment/status", Value::Null).await;
    let open = client.begin("initialize", json!({"clientName": "x"})).await;
    let late = client.begin("environment/status", Value::Null).await;
    client.notify("initialized", json!({})).await;
    let after = client.begin("environment/status", Value::Null).await;
    for id in [early, open, late] {
        assert_eq!(next_reply(&mut client).await, id);
    }
    let last = client.message().await.expect("a reply");
    assert_eq!(
        (&last["id"], &last["result"]),
        (&json!(after), &json!({"status": "ready"}))
    );
    let again = client.initialize(None).await.expect_err("twice");
    assert_eq!(again.0, -32600);
}

#[tokio::test]
async fn the_end_of_a_stream_aborts_its_calls_and_frees_the_session() {
    let server = server(8);
    let mut client = Client::raw(&server);
    let opened = client.initialize(None).await.expect("initialize");
    client.notify("initialized", json!({})).await;
    client
        .call("process/start", start("p", "sleep 1000"))
        .await
        .expect("start");
    for _ in 0..20 {
        client.begin("process/read", long_read("p")).await;
    }
    drop(client);
    let session = opened["sessionId"].as_str().expect("id");
    let mut next = Client::raw(&server);
    timeout(crate::support::PATIENCE, async {
        while let Err((code, _)) = next.initialize(Some(session)).await {
            assert_eq!(code, -32010);
        }
    })
    .await
    .expect("free in time");
    // Whoever breaks the protocol ends its calls, too.
    next.notify("initialized", json!({})).await;
    next.begin("process/read", long_read("p")).await;
    next.notify("unknown", json!({})).await;
    while next.message().await.is_some() {}
}
