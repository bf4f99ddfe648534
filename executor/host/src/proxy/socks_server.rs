//! The SOCKS5 proxy: opens tunnels.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::decision::Protocol;
use super::gate::{Gate, Wish};
use super::host::Target;
use super::http_server::HEAD_LIMIT;
use super::idle::tunnel;
use super::presence::Presence;
use super::socks::{self, Foreign, MAX_GREETING, MAX_REQUEST, Parsed, Reply};

/// Serves one connection of a program to its end.
pub(super) async fn serve(mut stream: TcpStream, client: SocketAddr, gate: &Gate) {
    // Otherwise it speaks another protocol, is gone, or says nothing.
    let Ok(Ok(Some(asked))) = timeout(HEAD_LIMIT, handshake(&mut stream)).await else {
        return;
    };
    let (target, early) = match asked {
        Ok(asked) => asked,
        Err(reply) => return refuse(&mut stream, reply).await,
    };
    let wish = Wish {
        protocol: Protocol::Socks5,
        target,
        method: None,
        has_body: false,
        client,
    };
    let Ok(presence) = Presence::of(&stream) else { return };
    let Some(reached) = presence.during(reach(gate, &wish)).await else {
        return;
    };
    drop(presence);
    let mut far = match reached {
        Ok(far) => far,
        Err(reply) => return refuse(&mut stream, reply).await,
    };
    let reply = Reply::Succeeded.bytes(far.local_addr().ok());
    if stream.write_all(&reply).await.is_ok() && far.write_all(&early).await.is_ok() {
        tunnel(stream, far).await;
    }
}

async fn reach(gate: &Gate, wish: &Wish) -> Result<TcpStream, Reply> {
    let way = gate.admit(wish).await.map_err(|_outcome| Reply::NotAllowed)?;
    way.dial().await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => Reply::Refused,
        _ => Reply::Unreachable,
    })
}

/// What a client asks for, with what it sent behind already; or why it is refused. Nothing when it is no client.
type Asked = Option<Result<(Target, Vec<u8>), Reply>>;

async fn handshake(stream: &mut TcpStream) -> io::Result<Asked> {
    let mut bytes = Vec::new();
    let Some(accepted) = parse(stream, &mut bytes, MAX_GREETING, socks::greeting).await? else {
        return Ok(None);
    };
    stream.write_all(&socks::method(accepted)).await?;
    if !accepted {
        return Ok(None);
    }
    let request = parse(stream, &mut bytes, MAX_REQUEST, socks::request).await?;
    Ok(request.map(|request| request.map(|target| (target, bytes))))
}

/// Reads until the parser has a whole, and leaves what is behind it.
async fn parse<T>(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
    most: usize,
    parser: fn(&[u8]) -> Result<Parsed<T>, Foreign>,
) -> io::Result<Option<T>> {
    loop {
        match parser(bytes) {
            Ok(Parsed::Whole(whole, len)) => {
                bytes.drain(..len);
                return Ok(Some(whole));
            }
            Ok(Parsed::Partial) if bytes.len() < most => {}
            Ok(Parsed::Partial) | Err(Foreign) => return Ok(None),
        }
        let mut piece = [0; MAX_REQUEST];
        let room = piece.len().min(most - bytes.len());
        let len = stream.read(&mut piece[..room]).await?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..len]);
    }
}

async fn refuse(stream: &mut TcpStream, reply: Reply) {
    let _gone = stream.write_all(&reply.bytes(None)).await;
    let _gone = stream.shutdown().await;
}
