//! Clients that cost as little as possible: blocking sockets, frames that are masked before the clock starts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::StreamId;

/// Nothing takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a WebSocket over `stream`; `target` is path and query.
pub(crate) fn upgrade<S: Read + Write>(mut stream: S, target: &str, protocol: Option<&str>) -> anyhow::Result<S> {
    let protocol = protocol.map_or_else(String::new, |name| format!("sec-websocket-protocol: {name}\r\n"));
    let request = format!(
        "GET {target} HTTP/1.1\r\nhost: relay\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < 4096, "endless answer");
        stream.read_exact(&mut byte).context("no answer to the upgrade")?;
        head.push(byte[0]);
    }
    if !head.starts_with(b"HTTP/1.1 101") {
        bail!("refused: {}", String::from_utf8_lossy(&head));
    }
    Ok(stream)
}

/// Connects to `address`.
pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Whom a message is for, as the forwarder wants to be told.
#[derive(Clone)]
pub(crate) enum Peer {
    /// Whoever is at the other end of a stream of ours.
    Stream(String),
    /// An endpoint of iroh's.
    Endpoint([u8; 32]),
}

impl Peer {
    /// A message for the peer of exactly `len` bytes, as it stands in a WebSocket frame.
    pub(crate) fn message(&self, len: usize) -> Bytes {
        match self {
            Self::Stream(stream) => data(stream, len),
            Self::Endpoint(key) => crate::iroh::datagram(key, len),
        }
    }
}

/// A data frame of `stream` whose relay frame has exactly `len` bytes.
pub(crate) fn data(stream: &str, len: usize) -> Bytes {
    let with = |payload: usize| {
        let payload: Bytes = (0..payload).map(|i| (i * 31 % 251) as u8).collect();
        frame(stream, Body::Data { seq: 7, payload })
    };
    let overhead = with(len).len() - len;
    let shorter = with(len - overhead);
    // The length prefix may have become shorter too.
    let missing = len - shorter.len();
    with(len - overhead + missing)
}

pub(crate) fn frame(stream: &str, body: Body) -> Bytes {
    let stream = StreamId::new(stream).expect("a stream id");
    Frame::new(stream, body).to_bytes()
}

/// A client's WebSocket frame, masked with a mask made from `seed`.
pub(crate) fn masked(payload: &[u8], seed: u32) -> Vec<u8> {
    let mask = seed.wrapping_mul(2_654_435_761).wrapping_add(0x9e37_79b9).to_be_bytes();
    let mut frame = vec![0x82];
    match payload.len() {
        len @ 0..126 => frame.push(0x80 | len as u8),
        len @ 126..0x1_0000 => {
            frame.push(0x80 | 126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Reads one frame of a server and gives its payload; pings are skipped.
pub(crate) fn read_frame(stream: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        let len = match head[1] & 0x7f {
            126 => {
                let mut len = [0; 2];
                stream.read_exact(&mut len)?;
                u64::from(u16::from_be_bytes(len))
            }
            127 => {
                let mut len = [0; 8];
                stream.read_exact(&mut len)?;
                u64::from_be_bytes(len)
            }
            len => u64::from(len),
        };
        // Behind a plain TCP forwarder frames arrive as the client masked them.
        if head[1] & 0x80 != 0 {
            stream.read_exact(&mut [0; 4])?;
        }
        let mut payload = vec![0; usize::try_from(len)?];
        stream.read_exact(&mut payload)?;
        match head[0] & 0x0f {
            2 => return Ok(payload),
            8 => bail!("closed: {:?}", payload),
            _ => {}
        }
    }
}
