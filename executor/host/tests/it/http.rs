//! Bounds of HTTP requests. What they carry is tested where they are served.

use rendezvous_host::http::{Http, HttpError, HttpRequest, Redirects};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn get(url: String) -> HttpRequest {
    HttpRequest {
        method: "GET".to_owned(),
        url,
        headers: Vec::new(),
        body: None,
        timeout: None,
        redirects: Redirects::Follow,
    }
}

/// A server that answers one request on each connection.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc";
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.is_ok_and(|got| got > 0) {}
                stream.write_all(answer).await
            });
        }
    });
    format!("http://{address}/")
}

#[tokio::test]
async fn exchanges_of_all_clients_are_bounded() {
    let url = server().await;
    let http = Http::with_limits(2, 0).expect("client");
    let first = http.send(get(url.clone())).await.expect("first");
    let mut second = http.clone().send(get(url.clone())).await.expect("second");
    let full = http.send(get(url.clone())).await.expect_err("full");
    assert!(matches!(full, HttpError::TooMany) && full.is_retryable() && !full.is_invalid());
    while second.body.chunk().await.expect("body").is_some() {}
    drop(second);
    http.send(get(url)).await.expect("a place is free");
    drop(first);
}

#[tokio::test]
async fn collected_bytes_are_bounded_and_come_back() {
    let http = Http::with_limits(1, 10).expect("client");
    let (mut one, mut two) = (None, None);
    assert!(http.buffer().take(4, &mut one));
    assert!(http.buffer().take(4, &mut one));
    assert!(!http.buffer().take(3, &mut two));
    assert!(http.buffer().take(2, &mut two));
    drop(one);
    assert!(http.buffer().take(8, &mut two));
    assert!(!http.buffer().take(usize::MAX, &mut two));
}
