use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use rendezvous_service::listener::{BodyError, Limits, MAX_REFUSALS, Server, read_body};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;

use crate::world::{Running, hello, rest, until, within};

#[tokio::test]
async fn answers_and_keeps_the_connection() {
    let server = Running::start(Limits::default(), None, hello);
    let mut client = server.connect().await;
    for path in ["/a", "/b"] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("write");
        let answer = until(&mut client, "tls=false").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(path), "{answer}");
    }
    server.finish().await;
}

#[tokio::test]
async fn an_address_in_use_is_an_error() {
    let server = Running::start(Limits::default(), None, hello);
    let error = Server::bind(server.addr, None).expect_err("taken");
    assert_eq!(error.addr, server.addr);
    assert_eq!(error.source.kind(), std::io::ErrorKind::AddrInUse);
    server.finish().await;
}

#[tokio::test]
async fn malformed_heads_are_refused() {
    let server = Running::start(Limits::default(), None, hello);
    for head in [
        "nonsense\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "\u{16}\u{3}\u{1}\r\n\r\n",
    ] {
        let mut client = server.connect().await;
        client.write_all(head.as_bytes()).await.expect("write");
        let answer = rest(&mut client).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400 "),
            "{head:?}: {answer}"
        );
    }
    assert!(server.get("/").await.contains("tls=false"), "others are served");
    server.finish().await;
}

#[tokio::test]
async fn a_head_beyond_the_limit_gets_431() {
    let limits = Limits {
        max_header: 8 * 1024,
        ..Limits::default()
    };
    let server = Running::start(limits, None, hello);
    let mut client = server.connect().await;
    let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(8 * 1024));
    client.write_all(head.as_bytes()).await.expect("write");
    let answer = rest(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let fits = format!(
        "GET / HTTP/1.1\r\nconnection: close\r\nx: {}\r\n\r\n",
        "x".repeat(7 * 1024)
    );
    let mut client = server.connect().await;
    client.write_all(fits.as_bytes()).await.expect("write");
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 200 "));
    server.finish().await;
}

#[tokio::test]
async fn slow_and_silent_clients_are_closed() {
    let limits = Limits {
        header_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let server = Running::start(limits, None, hello);
    for start in ["", "GET / HTTP/1.1\r\nhost: ", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut client = server.connect().await;
        let before = Instant::now();
        client.write_all(start.as_bytes()).await.expect("write");
        rest(&mut client).await;
        assert!(before.elapsed() >= Duration::from_millis(190), "{start:?}");
    }
    server.finish().await;
}

/// More than all buffers between two sockets hold.
const LARGE: usize = 64 * 1024 * 1024;

#[tokio::test]
async fn a_client_that_reads_nothing_is_closed() {
    let limits = Limits {
        write_timeout: Duration::from_millis(300),
        max_connections: 1,
        ..Limits::default()
    };
    let handler = |request: http::Request<_>, _| async move {
        let size = if request.uri().path() == "/large" { LARGE } else { 5 };
        Response::new(Full::new(Bytes::from(vec![b'x'; size])))
    };
    let server = Running::start(limits, None, handler);
    let mut silent = server.connect().await;
    silent
        .write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("write");
    // It holds the only slot until it is given up.
    within(async {
        while !server.get("/").await.starts_with("HTTP/1.1 200 ") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(rest(&mut silent).await.len() < LARGE);
    server.finish().await;
}

/// Two busy connections are all that may be.
async fn full() -> (Running, Arc<Semaphore>) {
    let limits = Limits {
        max_connections: 2,
        ..Limits::default()
    };
    let (entered, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (entered, gate) = (entered.clone(), gate.clone());
        move |request: http::Request<hyper::body::Incoming>, peer| {
            let (entered, gate) = (entered.clone(), gate.clone());
            async move {
                if request.uri().path() == "/slow" {
                    entered.add_permits(1);
                    let _ = gate.acquire().await;
                }
                hello(request, peer).await
            }
        }
    };
    let server = Running::start(limits, None, handler);
    for _ in 0..2 {
        let addr = server.addr;
        tokio::spawn(async move { crate::world::get(addr, "/slow").await });
        within(entered.acquire()).await.expect("entered").forget();
    }
    (server, gate)
}

#[tokio::test]
async fn beyond_the_cap_connections_are_told_so() {
    let (server, gate) = full().await;
    let answer = server.get("/").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    let mut silent = Vec::new();
    for _ in 0..MAX_REFUSALS {
        silent.push(server.connect().await);
    }
    assert_eq!(server.get("/").await, "", "closed without a word");
    gate.close();
    drop(silent);
    within(async {
        while !server.get("/").await.starts_with("HTTP/1.1 200 ") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.finish().await;
}

#[tokio::test]
async fn connections_that_ask_nothing_keep_nobody_out() {
    let limits = Limits {
        max_connections: 4,
        ..Limits::default()
    };
    let server = Running::start(limits, None, hello);
    let mut silent = Vec::new();
    for start in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"] {
        for _ in 0..4 {
            let mut client = server.connect().await;
            client.write_all(start.as_bytes()).await.expect("write");
            if start.ends_with("\n\r\n") {
                until(&mut client, "tls=false").await;
            }
            silent.push(client);
        }
        let answer = server.get("/").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "behind {start:?}: {answer}");
    }
    // The oldest ones have left.
    for client in &mut silent[..8] {
        rest(client).await;
    }
    server.finish().await;
}

#[tokio::test]
async fn shutdown_finishes_what_is_in_flight() {
    let (entered, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (entered, gate) = (entered.clone(), gate.clone());
        move |_, _| {
            let (entered, gate) = (entered.clone(), gate.clone());
            async move {
                entered.add_permits(1);
                let _ = gate.acquire().await;
                Response::new(Full::new(Bytes::from_static(b"finished")))
            }
        }
    };
    let server = Running::start(Limits::default(), None, handler);
    let mut silent = server.connect().await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("write");
    within(entered.acquire()).await.expect("entered").forget();
    server.stop.cancel();
    assert_eq!(rest(&mut silent).await, "", "who asks nothing is not waited for longer");
    within(async {
        while tokio::net::TcpStream::connect(server.addr).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!server.done.is_finished());
    gate.add_permits(1);
    assert!(rest(&mut busy).await.ends_with("finished"));
    within(server.done).await.expect("server");
}

/// The runtime of a test has one thread: between two awaits the server does nothing.
#[tokio::test]
async fn shutdown_answers_all_that_have_connected() {
    let server = Running::start(Limits::default(), None, hello);
    let mut let_in = server.connect().await;
    let mut used = server.connect().await;
    used.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("write");
    until(&mut used, "tls=false").await;
    server.stop.cancel();
    let waiting = std::net::TcpStream::connect(server.addr).expect("the kernel lets it in");
    assert_eq!(rest(&mut used).await, "", "idle connections close at once");
    waiting.set_nonblocking(true).expect("nonblocking");
    for client in [
        &mut let_in,
        &mut tokio::net::TcpStream::from_std(waiting).expect("a socket"),
    ] {
        client
            .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .expect("write");
        let answer = rest(client).await;
        assert!(answer.ends_with("tls=false"), "{answer}");
    }
    within(server.done).await.expect("server");
}

#[tokio::test]
async fn shutdown_cuts_what_outlasts_the_grace() {
    let limits = Limits {
        grace: Duration::from_millis(100),
        ..Limits::default()
    };
    let entered = Arc::new(Semaphore::new(0));
    let handler = {
        let entered = entered.clone();
        move |_, _| {
            entered.add_permits(1);
            std::future::pending()
        }
    };
    let server = Running::start(limits, None, handler);
    let mut busy = server.connect().await;
    busy.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("write");
    within(entered.acquire()).await.expect("entered").forget();
    server.finish().await;
    assert_eq!(rest(&mut busy).await, "");
}

#[tokio::test]
async fn bodies_are_bounded_in_size_and_time() {
    let handler = |request: http::Request<hyper::body::Incoming>, _| async move {
        let (status, text) = match read_body(request.into_body(), 10, Duration::from_millis(200)).await {
            Ok(body) => (http::StatusCode::OK, format!("{} bytes", body.len())),
            Err(error) => {
                assert_ne!(error, BodyError::Incomplete);
                (error.status(), error.to_string())
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response
    };
    let server = Running::start(Limits::default(), None, handler);
    for (request, expected) in [
        ("content-length: 10\r\n\r\n0123456789", "HTTP/1.1 200 "),
        ("content-length: 11\r\n\r\n0123456789", "HTTP/1.1 413 "),
        ("content-length: 10\r\n\r\n012345678", "HTTP/1.1 408 "),
        (
            "transfer-encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
            "HTTP/1.1 200 ",
        ),
        (
            "transfer-encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n",
            "HTTP/1.1 413 ",
        ),
        ("transfer-encoding: chunked\r\n\r\n1\r\n0\r\n", "HTTP/1.1 408 "),
    ] {
        let mut client = server.connect().await;
        let request = format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{request}");
        client.write_all(request.as_bytes()).await.expect("write");
        let answer = rest(&mut client).await;
        assert!(answer.starts_with(expected), "{request}: {answer}");
    }
    server.finish().await;
}
