//! As much of iroh's relay protocol as the load needs.
//!
//! iroh's own client would put its cost into the figures. So `iroh-relay` gets the same blocking sockets and the same
//! prepared frames as every other forwarder: a WebSocket, a signed challenge, and datagrams that name the peer's key.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use bytes::Bytes;

use crate::client::{masked, read_frame, upgrade};

/// Names the `iroh-relay` program.
const BINARY: &str = "BENCH_IROH_RELAY";

const CHALLENGE: u8 = 0;
const AUTHENTICATION: u8 = 1;
const CONFIRMATION: u8 = 2;
const DATAGRAM: u8 = 4;

/// What is signed is a key derived from the challenge.
const CONTEXT: &str = "iroh-relay handshake v1 challenge signature";

/// What an endpoint proves to be.
pub(crate) struct Key(Ed25519KeyPair);

impl Key {
    pub(crate) fn generate() -> anyhow::Result<Self> {
        Ok(Self(Ed25519KeyPair::generate()?))
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        let key = self.0.public_key().as_ref();
        key.try_into().expect("a key of 32 bytes")
    }
}

/// The program, when there is one.
pub(crate) fn binary() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(BINARY)?);
    path.is_file().then_some(path)
}

/// Starts the relay on `address`, without TLS, with its limits as they are by default.
pub(crate) fn serve(folder: &Path, address: SocketAddr) -> anyhow::Result<Child> {
    let config = folder.join("iroh-relay.toml");
    let text = format!("http_bind_addr = \"{address}\"\nmetrics_bind_addr = \"127.0.0.1:0\"\n");
    std::fs::write(&config, text)?;
    let binary = binary().with_context(|| format!("{BINARY}: use integration-tests/benches/run"))?;
    let child = Command::new(binary)
        .env("RUST_LOG", "error")
        .args(["--dev", "--config-path"])
        .arg(config)
        .stdout(Stdio::null())
        .spawn()?;
    Ok(child)
}

/// Opens a connection as the endpoint of `key`.
pub(crate) fn open<S: Read + Write>(stream: S, key: &Key) -> anyhow::Result<S> {
    let mut stream = upgrade(stream, "/relay", Some("iroh-relay-v2"))?;
    let challenge = read_frame(&mut stream)?;
    ensure!(challenge.first() == Some(&CHALLENGE), "no challenge: {challenge:?}");
    let signature = key.0.sign(&blake3::derive_key(CONTEXT, &challenge[1..]));
    let mut answer = vec![AUTHENTICATION];
    answer.extend(key.public());
    answer.push(64);
    answer.extend(signature.as_ref());
    stream.write_all(&masked(&answer, 1))?;
    let verdict = read_frame(&mut stream)?;
    ensure!(verdict.first() == Some(&CONFIRMATION), "refused: {verdict:?}");
    Ok(stream)
}

/// A datagram for the endpoint of `key`; `len` bytes with its header.
pub(crate) fn datagram(key: &[u8; 32], len: usize) -> Bytes {
    let mut message = vec![DATAGRAM];
    message.extend(key);
    // No congestion was noticed.
    message.push(0);
    let header = message.len();
    message.extend((header..len).map(|i| (i * 31 % 251) as u8));
    message.into()
}
