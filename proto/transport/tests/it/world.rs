//! Servers that do as they are told, with certificates of their own.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rendezvous_transport::connector::Connector;
use rendezvous_transport::tls::Trust;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// Longest time that any step of a test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

pub(crate) trait Conversation: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Conversation for T {}

/// A certificate authority with one server certificate for `localhost` and 127.0.0.1.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    server: Arc<ServerConfig>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("key");
        let root = params.self_signed(&key).expect("root");
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().expect("key");
        let leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])
            .expect("params")
            .signed_by(&key, &issuer)
            .expect("leaf");
        let server = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf.der().clone()],
                PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("key"),
            )
            .expect("pair");
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("ca.pem"), root.pem()).expect("write");
        Self {
            folder,
            server: Arc::new(server),
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Connects to servers with certificates of this authority.
    pub(crate) fn connector(&self) -> Connector {
        Connector::direct(Trust::new(Some(&self.file())).expect("trust"))
    }
}

/// Trusts the machine's roots only.
pub(crate) fn connector() -> Connector {
    Connector::direct(Trust::new(None).expect("trust"))
}

/// A server that runs `talk` on every connection; it ends with the test's runtime.
pub(crate) async fn serve<T, F>(tls: Option<&Authority>, talk: T) -> SocketAddr
where
    T: Fn(Box<dyn Conversation>) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let addr = listener.local_addr().expect("address");
    let acceptor = tls.map(|authority| TlsAcceptor::from(authority.server.clone()));
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.expect("accept");
            let stream: io::Result<Box<dyn Conversation>> = match &acceptor {
                None => Ok(Box::new(tcp)),
                Some(acceptor) => acceptor.accept(tcp).await.map(|tls| Box::new(tls) as _),
            };
            if let Ok(stream) = stream {
                tokio::spawn(talk(stream));
            }
        }
    });
    addr
}

/// One request: its head, and as much body as `content-length` says.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().expect("length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).expect("text")))
}

/// A server that answers every request with the same bytes, then keeps the connection open or closes it. What it was asked
/// comes out of the channel.
pub(crate) async fn answering(
    tls: Option<&Authority>,
    answer: impl Into<Vec<u8>>,
    close: bool,
) -> (SocketAddr, mpsc::UnboundedReceiver<(String, String)>) {
    let answer: Arc<[u8]> = answer.into().into();
    let (sender, receiver) = mpsc::unbounded_channel();
    let addr = serve(tls, move |mut stream| {
        let (answer, sender) = (answer.clone(), sender.clone());
        async move {
            while let Some(request) = read_request(&mut stream).await {
                let _ = sender.send(request);
                if stream.write_all(&answer).await.is_err() || stream.flush().await.is_err() || close {
                    break;
                }
            }
            let _ = stream.shutdown().await;
        }
    })
    .await;
    (addr, receiver)
}

/// A response with a JSON body.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
