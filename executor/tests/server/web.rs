//! A web server on loopback that answers by path.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Bytes that a large body is written in.
const PIECE: usize = 64 * 1024;

/// The server, and what it saw.
pub(crate) struct Web {
    address: SocketAddr,
    /// Bytes of large bodies that went out.
    pub(crate) written: Arc<AtomicUsize>,
    /// Told when a connection is over.
    pub(crate) ended: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

impl Web {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let written = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(Notify::new());
        let (count, over) = (Arc::clone(&written), Arc::clone(&ended));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (count, over) = (Arc::clone(&count), Arc::clone(&over));
                tokio::spawn(async move {
                    // A client that goes away ends its connection only.
                    drop(answer(stream, &count).await);
                    over.notify_one();
                });
            }
        });
        Self {
            address,
            written,
            ended,
            _task: AbortOnDropHandle::new(task),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn answer(mut stream: TcpStream, written: &AtomicUsize) -> std::io::Result<()> {
    let mut request = Vec::new();
    let head = loop {
        if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).into_owned();
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse().expect("length"))
    });
    let length: usize = length.unwrap_or(0);
    while request.len() < head + length {
        stream.read_buf(&mut request).await?;
    }
    let path = text.split(' ').nth(1).expect("path").to_owned();
    let (route, argument) = path[1..].split_once('/').unwrap_or_else(|| (&path[1..], ""));
    match route {
        // The request itself.
        "echo" => {
            let extra = "x-two: 1\r\nX-Two: 2\r\nx-bytes: caf\u{e9}\u{e9}\r\nx-one: a\r\n".replace('\u{e9}', "\u{80}");
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\n{extra}content-length: {}\r\n\r\n",
                request.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&request).await
        }
        "redirect" => {
            let head = format!(
                "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: /{argument}\r\ncontent-length: 0\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await
        }
        "loop" => {
            let head = "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: /loop\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(head.as_bytes()).await
        }
        // So many bytes, each its offset.
        "bytes" => {
            let length: usize = argument.parse().expect("length");
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let mut sent = 0;
            while sent < length {
                let piece: Vec<u8> = (sent..length.min(sent + PIECE)).map(byte_at).collect();
                stream.write_all(&piece).await?;
                sent += piece.len();
                written.fetch_add(piece.len(), Ordering::Relaxed);
            }
            Ok(())
        }
        // As `bytes`, without saying how many.
        "unannounced" => {
            let length: usize = argument.parse().expect("length");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
                .await?;
            stream.write_all(&(0..length).map(byte_at).collect::<Vec<_>>()).await
        }
        // A body that breaks off.
        "cut" => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
                .await
        }
        // A body that begins and never ends.
        "begun" => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
                .await?;
            std::future::pending().await
        }
        // No answer at all.
        _ => std::future::pending().await,
    }
}

/// What stands at an offset of a large body.
pub(crate) fn byte_at(offset: usize) -> u8 {
    u8::try_from(offset % 251).expect("below 251")
}
