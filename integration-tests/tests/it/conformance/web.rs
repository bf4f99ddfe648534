//! A web server for what exec-servers ask for. It answers one request on each connection, and says so: a client that kept
//! the connection for its next request would lose that one.

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// Longest head of a request.
const MAX_HEAD: usize = 64 * 1024;

/// The server; gone when dropped.
pub(super) struct Server {
    url: String,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // Who goes away early needs no answer.
                tokio::spawn(async move { drop(answer(socket).await) });
            }
        });
        Ok(Self {
            url,
            _task: AbortOnDropHandle::new(task),
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

async fn answer(mut socket: TcpStream) -> Result<()> {
    let (head, body) = request(&mut socket).await?;
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_head = method == "HEAD";
    match target.split('?').next().unwrap_or_default() {
        "/echo" => {
            // Other headers are as different as clients are.
            let mut echo = format!("{method} {target}\n");
            for line in head.lines().filter(|line| line.to_ascii_lowercase().starts_with("x-")) {
                echo.push_str(line);
                echo.push('\n');
            }
            echo.push_str(&String::from_utf8_lossy(&body));
            whole(
                &mut socket,
                "200 OK",
                "X-One: 1\r\nX-Two: 2\r\nX-One: 3\r\n",
                echo.as_bytes(),
                is_head,
            )
            .await
        }
        "/binary" => {
            whole(
                &mut socket,
                "200 OK",
                "X-Text: \u{e4}\r\n",
                &[0, 255, 128, 13, 10],
                is_head,
            )
            .await
        }
        "/empty" => Ok(socket
            .write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            .await?),
        "/teapot" => whole(&mut socket, "418 I'm a teapot", "", b"short and stout", is_head).await,
        "/error" => whole(&mut socket, "500 Internal Server Error", "", b"", is_head).await,
        "/found" => whole(&mut socket, "302 Found", "Location: /echo?found\r\n", b"moved", is_head).await,
        "/kept" => {
            whole(
                &mut socket,
                "307 Temporary Redirect",
                "Location: /echo?kept\r\n",
                b"",
                is_head,
            )
            .await
        }
        "/circle" => whole(&mut socket, "302 Found", "Location: /circle\r\n", b"", is_head).await,
        "/elsewhere" => whole(&mut socket, "302 Found", "Location: ftp://127.0.0.1/\r\n", b"", is_head).await,
        "/nowhere" => whole(&mut socket, "302 Found", "", b"no place", is_head).await,
        "/large" => whole(&mut socket, "200 OK", "", &large(), is_head).await,
        "/chunked" => {
            let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n";
            Ok(socket.write_all(text.as_bytes()).await?)
        }
        "/packed" => {
            // "packed" by gzip.
            let packed = hex::decode("1f8b08000000000002ff2b484cce4e4d010010b4f62106000000")?;
            whole(&mut socket, "200 OK", "Content-Encoding: gzip\r\n", &packed, is_head).await
        }
        "/short" => Ok(socket
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
            .await?),
        "/garbage" => Ok(socket.write_all(b"this is no HTTP\r\n\r\n").await?),
        "/stuck" => {
            socket
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
                .await?;
            silence(&mut socket).await
        }
        "/silent" => silence(&mut socket).await,
        _ => whole(&mut socket, "404 Not Found", "", b"", is_head).await,
    }
}

/// Three bodies' worth of one record, and no power of two.
fn large() -> Vec<u8> {
    (0..3_000_001_u32).map(|n| (n % 251).to_le_bytes()[0]).collect()
}

/// Until the client goes away.
async fn silence(socket: &mut TcpStream) -> Result<()> {
    while socket.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}

async fn whole(socket: &mut TcpStream, status: &str, headers: &str, body: &[u8], is_head: bool) -> Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // Latin 1, as old servers send it.
    let head: Vec<u8> = head
        .chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?'))
        .collect();
    socket.write_all(&head).await?;
    if !is_head {
        socket.write_all(body).await?;
    }
    Ok(())
}

/// Head and body of a request.
async fn request(socket: &mut TcpStream) -> Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            break end + 4;
        }
        anyhow::ensure!(
            bytes.len() < MAX_HEAD && socket.read_buf(&mut bytes).await? > 0,
            "no request"
        );
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let mut body = bytes.split_off(end);
    while body.len() < length.unwrap_or(0) && socket.read_buf(&mut body).await? > 0 {}
    Ok((head, body))
}
