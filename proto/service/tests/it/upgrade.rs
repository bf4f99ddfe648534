use std::io::IoSlice;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use rendezvous_service::listener::Limits;
use rendezvous_service::net::{Stream, downcast};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::world::{Running, rest, until, within};

/// Upgrades every request and hands the raw connection out.
fn upgrading(
    limits: Limits,
    tls: Option<std::sync::Arc<rendezvous_service::tls::ServerConfigLoader>>,
) -> (Running, mpsc::UnboundedReceiver<(Stream, Bytes)>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let handler = move |mut request: Request<Incoming>, _| {
        let upgrade = hyper::upgrade::on(&mut request);
        let sender = sender.clone();
        tokio::spawn(async move {
            let upgraded = upgrade.await.expect("upgrade");
            sender.send(downcast(upgraded).expect("ours")).expect("receiver");
        });
        let response = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "echo");
        std::future::ready(response.body(Full::new(Bytes::new())).expect("response"))
    };
    (Running::start(limits, tls, handler), receiver)
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";

#[tokio::test]
async fn hands_over_the_socket_and_what_was_read_ahead() {
    let (server, mut upgraded) = upgrading(Limits::default(), None);
    let mut client = server.connect().await;
    client.write_all(&[REQUEST, b"ahead"].concat()).await.expect("write");
    let head = until(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let (mut stream, ahead) = within(upgraded.recv()).await.expect("upgraded");
    // What hyper did not read yet is still in the socket.
    let mut start = ahead.to_vec();
    while start.len() < 5 {
        start.push(within(stream.read_u8()).await.expect("byte"));
    }
    assert_eq!(start, b"ahead");
    assert!(matches!(stream, Stream::Plain(_)));
    assert!(stream.tcp().nodelay().expect("nodelay"));
    assert!(tokio::io::AsyncWrite::is_write_vectored(&stream));
    let written = stream
        .write_vectored(&[IoSlice::new(b"one "), IoSlice::new(b"two")])
        .await
        .expect("write");
    assert_eq!(written, 7, "one system call for both");

    // The connection outlives the server.
    server.finish().await;
    stream.write_all(b" three").await.expect("write");
    drop(stream);
    assert_eq!(rest(&mut client).await, "one two three");
}

#[tokio::test]
async fn upgraded_connections_leave_the_count() {
    let limits = Limits {
        max_connections: 1,
        ..Limits::default()
    };
    let (server, mut upgraded) = upgrading(limits, None);
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect().await;
        client.write_all(REQUEST).await.expect("write");
        let head = until(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        held.push((client, within(upgraded.recv()).await.expect("upgraded")));
        // The slot comes back when the task of the HTTP connection has ended.
        within(async {
            loop {
                let mut probe = server.connect().await;
                probe.write_all(b"bad\r\n\r\n").await.expect("write");
                if !rest(&mut probe).await.contains(" 503 ") {
                    break;
                }
            }
        })
        .await;
    }
    server.finish().await;
}

#[tokio::test]
async fn tls_connections_upgrade_too() {
    let files = crate::certificate::Files::new();
    let (server, mut upgraded) = upgrading(Limits::default(), Some(files.loader()));
    let mut client = files.connect(server.addr).await.expect("handshake");
    client.write_all(REQUEST).await.expect("write");
    until(&mut client, "\r\n\r\n").await;
    let (mut stream, _) = within(upgraded.recv()).await.expect("upgraded");
    assert!(matches!(stream, Stream::Tls(_)));
    stream.write_all(b"hello").await.expect("write");
    stream.shutdown().await.expect("shutdown");
    assert_eq!(rest(&mut client).await, "hello");
    server.finish().await;
}
