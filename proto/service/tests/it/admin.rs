use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rendezvous_service::admin::{Admin, metrics};
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::world::{get, rest, within};

#[tokio::test]
async fn tells_health_readiness_and_metrics() {
    let admin = Admin::bind(([127, 0, 0, 1], 0).into()).expect("bind");
    metrics().expect("the recorder is installed once");
    let addr = admin.local_addr();
    let ready = Arc::new(AtomicBool::new(false));
    let readiness = {
        let ready = ready.clone();
        Arc::new(move || match ready.load(Ordering::SeqCst) {
            true => Vec::new(),
            false => vec!["no database".to_owned(), "no relay".to_owned()],
        })
    };
    let stop = CancellationToken::new();
    let done = tokio::spawn(admin.serve(readiness, stop.clone()));

    let health = get(addr, "/healthz").await;
    assert!(
        health.starts_with("HTTP/1.1 200 ") && health.ends_with("\r\nok\n"),
        "{health}"
    );
    let unready = get(addr, "/readyz").await;
    assert!(unready.starts_with("HTTP/1.1 503 "), "{unready}");
    assert!(unready.ends_with("no database\nno relay\n"), "{unready}");
    ready.store(true, Ordering::SeqCst);
    assert!(get(addr, "/readyz").await.starts_with("HTTP/1.1 200 "));

    metrics::counter!("admin_test_total", "kind" => "a").increment(3);
    let text = get(addr, "/metrics").await;
    assert!(text.contains("\nadmin_test_total{kind=\"a\"} 3\n"), "{text}");
    assert!(get(addr, "/").await.starts_with("HTTP/1.1 404 "));

    let mut client = tokio::net::TcpStream::connect(addr).await.expect("connect");
    client
        .write_all(b"POST /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .expect("write");
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 405 "));
    stop.cancel();
    within(done).await.expect("admin");
}
