//! Routes, browsers, and how many may connect.

use rendezvous_executor::listen::MAX_CONNECTIONS;
use tokio_tungstenite::tungstenite::Error;

use crate::world::{Client, Executor};

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n")
}

const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n";

#[tokio::test]
async fn each_path_has_its_answer() {
    let executor = Executor::start(&[]).await;
    for (path, headers, status) in [
        ("/readyz", "", 200),
        ("/readyz?x=1", "", 200),
        ("/", "", 400),
        ("/", UPGRADE, 101),
        ("/?x=1", UPGRADE, 101),
        ("/healthz", "", 404),
        ("/healthz", UPGRADE, 404),
        ("/readyz/", "", 404),
        ("/metrics", "", 404),
    ] {
        assert_eq!(executor.status(&get(path, headers)).await, status, "{path}");
    }
}

#[tokio::test]
async fn pages_in_browsers_are_refused() {
    let executor = Executor::start(&[]).await;
    for path in ["/", "/readyz", "/nothing"] {
        for origin in ["https://example.com", "null", "http://127.0.0.1"] {
            let headers = format!("{UPGRADE}origin: {origin}\r\n");
            assert_eq!(executor.status(&get(path, &headers)).await, 403, "{path} {origin}");
        }
    }
    executor.client().await;
}

#[tokio::test]
async fn connections_are_bounded() {
    let executor = Executor::start(&[]).await;
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        clients.push(executor.try_connect(None).await.expect("room"));
    }
    let Err(Error::Http(refusal)) = executor.try_connect(None).await else {
        panic!("one too many was let in");
    };
    assert_eq!(refusal.status(), 503);
    assert_eq!(executor.status(&get("/readyz", "")).await, 200);
    clients.pop();
    loop {
        // The place is free once the executor has seen the end.
        match executor.try_connect(None).await {
            Ok(_) => break,
            Err(Error::Http(refusal)) => assert_eq!(refusal.status(), 503),
            Err(error) => panic!("{error}"),
        }
    }
}
