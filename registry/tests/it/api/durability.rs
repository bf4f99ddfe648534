//! A registry that is killed loses nothing that it acknowledged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::generation;
use crate::support::registry::{Database, Registry};
use crate::support::relay::Relay;
use crate::support::{eventually, key};

const ENVIRONMENTS: usize = 8;

#[tokio::test]
async fn sqlite_keeps_acknowledged_registrations() {
    survive(Database::sqlite()).await;
}

#[tokio::test]
async fn postgres_keeps_acknowledged_registrations() {
    survive(Database::postgres()).await;
}

/// Registers without pause in several environments, kills the registry in the middle, and compares.
async fn survive(database: Database) {
    let ids: Vec<String> = (0..ENVIRONMENTS).map(|number| format!("e{number}")).collect();
    for id in &ids {
        database.environment(id).await;
    }
    let (executor, admin) = (database.token("executor").await, database.token("admin").await);
    let relay = database.token("relay").await;
    let args = ["--rate-per-minute", "1000000", "--rate-burst", "1000000"];
    for round in 0..3 {
        let registry = Registry::start(&database, &args).await;
        let (_relay, _) = Relay::connect(&registry, &relay, &format!("boot-{round}")).await;
        let addr = registry.addr;
        let count = Arc::new(AtomicUsize::new(0));
        let bursts: Vec<_> = ids
            .iter()
            .map(|id| tokio::spawn(burst(addr, executor.clone(), id.clone(), count.clone())))
            .collect();
        eventually("many registrations", || {
            std::future::ready(count.load(Ordering::Relaxed) >= 4 * ENVIRONMENTS)
        })
        .await;
        registry.kill().await;
        let mut acknowledged = Vec::new();
        for burst in bursts {
            acknowledged.push(burst.await.unwrap());
        }
        let registry = Registry::start(&database, &args).await;
        for (id, last) in ids.iter().zip(acknowledged) {
            let shown = registry
                .call(&admin, "GET", &format!("/v1/environments/{id}"), "")
                .await
                .json();
            let stored = shown["registration"]["generation"].as_u64();
            assert!(stored >= last, "{id}: {stored:?} < {last:?}");
        }
        assert_eq!(registry.stop().await, Some(0));
    }
}

/// Registers until the registry is gone, and counts; returns the last acknowledged generation.
async fn burst(addr: SocketAddr, token: String, id: String, count: Arc<AtomicUsize>) -> Option<u64> {
    let body = serde_json::json!({"security_profile": "noise_hybrid_ik_v1", "executor_public_key": key(1)}).to_string();
    let request = format!(
        "POST /cloud/environment/{id}/register HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut last = None;
    loop {
        let Ok(mut socket) = tokio::net::TcpStream::connect(addr).await else {
            return last;
        };
        use tokio::io::AsyncWriteExt as _;
        let _ = socket.write_all(request.as_bytes()).await;
        match crate::support::http::read(&mut socket).await {
            Some(answer) if answer.status == 200 && answer.body.ends_with('}') => {
                last = Some(generation(&answer.json()));
                count.fetch_add(1, Ordering::Relaxed);
            }
            Some(answer) if answer.status == 503 => {}
            Some(answer) => panic!("{answer:?}"),
            None => return last,
        }
    }
}
