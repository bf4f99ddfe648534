//! The server's side of a WebSocket upgrade, by hand: for servers that do not behave as a library's do.

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Longest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Reads the head of a request, and nothing behind it.
///
/// # Errors
///
/// The client left, or sent what is no head.
pub async fn read_head(client: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < MAX_HEAD, "a head without end");
        head.push(client.read_u8().await?);
    }
    String::from_utf8(head).context("a head that is no text")
}

/// What answers the key in the head of a client's request.
///
/// # Errors
///
/// There is no key.
pub fn accept_key(head: &str) -> Result<String> {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim())
    });
    Ok(derive_accept_key(value.context("a key")?.as_bytes()))
}

/// The answer that upgrades, with any answer to the key.
pub fn switching(accept: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    )
    .into_bytes()
}

/// Upgrades a connection whose request was read.
///
/// # Errors
///
/// The client asked for no upgrade, or left.
pub async fn upgrade(mut client: TcpStream, head: &str) -> Result<WebSocketStream<TcpStream>> {
    client.write_all(&switching(&accept_key(head)?)).await?;
    Ok(WebSocketStream::from_raw_socket(client, Role::Server, None).await)
}
