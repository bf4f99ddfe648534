//! Sees everything that passes a TLS server in clear text: takes its clients' TLS off, records, and puts TLS on again.
//!
//! WebSocket clients mask what they send, so the recorder takes the masks off; otherwise a search for clear text would
//! find nothing however much there was.

pub mod search;
mod unmask;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::netns::{Namespace, Server};
use unmask::Unmask;

/// A recording proxy in front of one server.
#[derive(Debug)]
pub struct Capture {
    folder: PathBuf,
    server: Server,
}

/// What the proxy needs for TLS on both sides.
#[derive(Clone)]
pub struct Tls {
    /// Towards clients.
    pub server: Arc<ServerConfig>,
    /// Towards the server.
    pub client: Arc<ClientConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Capture {
    /// Starts a proxy inside `namespace` that leads from `listen` to `target` and records into `folder`.
    ///
    /// # Errors
    ///
    /// The address could not be bound.
    pub fn start(
        namespace: &Namespace,
        listen: SocketAddr,
        target: SocketAddr,
        tls: Tls,
        folder: &Path,
    ) -> Result<Self> {
        let job = Job {
            target,
            tls,
            folder: folder.to_owned(),
            number: AtomicU64::new(0),
        };
        Ok(Self {
            folder: folder.to_owned(),
            server: namespace.serve(listen, |listener| job.serve(listener))?,
        })
    }

    /// Where clients dial.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Ends the proxy and everything that goes through it; gives the recorded files.
    ///
    /// # Errors
    ///
    /// The folder could not be read.
    pub fn finish(self) -> Result<Vec<PathBuf>> {
        drop(self.server);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            files.push(entry?.path());
        }
        Ok(files)
    }
}

struct Job {
    target: SocketAddr,
    tls: Tls,
    folder: PathBuf,
    number: AtomicU64,
}

impl Job {
    async fn serve(self, listener: TcpListener) {
        let job = Arc::new(self);
        loop {
            if let Ok((client, _)) = listener.accept().await {
                let job = Arc::clone(&job);
                tokio::spawn(async move {
                    let _ = job.forward(client).await;
                });
            }
        }
    }

    async fn forward(&self, client: TcpStream) -> Result<()> {
        client.set_nodelay(true)?;
        let client = TlsAcceptor::from(Arc::clone(&self.tls.server)).accept(client).await?;
        let server = TcpStream::connect(self.target).await?;
        server.set_nodelay(true)?;
        let name = ServerName::from(self.target.ip());
        let server = TlsConnector::from(Arc::clone(&self.tls.client))
            .connect(name, server)
            .await?;

        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let file = |direction: &str| Recorder::create(&self.folder.join(format!("{number:06}-{direction}")));
        let (up, down) = (file("up")?, file("down")?);
        let (from_client, to_client) = tokio::io::split(client);
        let (from_server, to_server) = tokio::io::split(server);
        tokio::select! {
            result = pump(from_client, to_server, up) => result,
            result = pump(from_server, to_client, down) => result,
        }
    }
}

async fn pump(
    mut source: impl AsyncRead + Unpin,
    mut sink: impl AsyncWrite + Unpin,
    mut recorder: Recorder,
) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = source.read(&mut buffer).await?;
        if n == 0 {
            sink.shutdown().await?;
            return Ok(());
        }
        sink.write_all(&buffer[..n]).await?;
        sink.flush().await?;
        recorder.record(&mut buffer[..n])?;
    }
}

/// Writes one direction of one connection to a file, without masks.
struct Recorder {
    file: BufWriter<File>,
    unmask: Unmask,
}

impl Recorder {
    fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).with_context(|| format!("{}", path.display()))?;
        Ok(Self {
            file: BufWriter::new(file),
            unmask: Unmask::default(),
        })
    }

    fn record(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.unmask.apply(bytes);
        Ok(self.file.write_all(bytes)?)
    }
}
