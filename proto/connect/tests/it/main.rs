//! Connections through proxies, to servers with certificates of an authority of the test's own.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rendezvous_connect::connector::{ConnectError, Connector, ProxyError, TUNNEL_TIMEOUT, Target};
use rendezvous_connect::proxy::{Proxies, TunnelError};
use rendezvous_connect::tls::Trust;
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

const NAME: &str = "server.test";

/// An authority's file, and a server configuration with a certificate for [`NAME`] and 127.0.0.1.
fn authority() -> (tempfile::NamedTempFile, Arc<ServerConfig>) {
    let mut params = CertificateParams::new(Vec::new()).expect("params");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("key");
    let root = params.self_signed(&key).expect("root");
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("key");
    let leaf = CertificateParams::new(vec![NAME.to_owned(), "127.0.0.1".to_owned()]).expect("params");
    let leaf = leaf.signed_by(&key, &issuer).expect("leaf");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("key"),
        )
        .expect("pair");
    let file = tempfile::NamedTempFile::new().expect("file");
    std::fs::write(file.path(), root.pem()).expect("write");
    (file, Arc::new(server))
}

/// A TLS server that sends back what comes.
async fn echo(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.expect("accept");
            let acceptor = TlsAcceptor::from(Arc::clone(&config));
            tokio::spawn(async move {
                // Whoever does not trust it goes away.
                if let Ok(stream) = acceptor.accept(tcp).await {
                    let (mut source, mut sink) = tokio::io::split(stream);
                    let _ = tokio::io::copy(&mut source, &mut sink).await;
                }
            });
        }
    });
    address
}

/// A proxy whose every tunnel leads to `server`; what it is asked comes out of the channel.
async fn proxy(tls: Option<Arc<ServerConfig>>, server: SocketAddr) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let (asked, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.expect("accept");
            let (tls, asked) = (tls.clone().map(TlsAcceptor::from), asked.clone());
            tokio::spawn(async move {
                match tls {
                    None => tunnel(tcp, server, &asked).await,
                    Some(acceptor) => tunnel(acceptor.accept(tcp).await.expect("TLS"), server, &asked).await,
                }
            });
        }
    });
    (address, receiver)
}

async fn tunnel(
    mut client: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    server: SocketAddr,
    asked: &mpsc::UnboundedSender<String>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.expect("head"));
    }
    asked.send(String::from_utf8(head).expect("text")).expect("a test");
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("answer");
    let mut server = TcpStream::connect(server).await.expect("server");
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

fn proxies(set: &[(&str, String)]) -> Proxies {
    Proxies::from_lookup(|name| set.iter().find(|(key, _)| *key == name).map(|(_, url)| url.clone()))
}

fn target(url: &str) -> Target {
    Target::of(&url.parse().expect(url)).expect(url)
}

#[tokio::test]
async fn tls_goes_end_to_end_through_either_kind_of_proxy() {
    let (file, config) = authority();
    let server = echo(Arc::clone(&config)).await;
    let target = target(&format!("wss://{NAME}/relay?ticket=secret"));
    for (tls, scheme) in [(None, "http"), (Some(config), "https")] {
        let (address, mut asked) = proxy(tls, server).await;
        let proxies = proxies(&[("HTTPS_PROXY", format!("{scheme}://user:word@{address}"))]);
        let trust = Trust::new(Some(file.path())).expect("trust");
        let mut socket = Connector::through(trust, proxies).connect(&target).await.expect(scheme);
        socket.write_all(b"hello").await.expect("write");
        socket.flush().await.expect("flush");
        let mut echoed = [0; 5];
        socket.read_exact(&mut echoed).await.expect("read");
        assert_eq!(&echoed, b"hello");
        let asked = asked.recv().await.expect("a tunnel");
        assert!(asked.starts_with("CONNECT server.test:443 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("Proxy-Authorization: Basic dXNlcjp3b3Jk\r\n"), "{asked}");
        assert!(!asked.contains("ticket"), "{asked}");
    }
}

#[tokio::test]
async fn a_proxy_does_not_vouch_for_the_server() {
    let (_file, config) = authority();
    let (other, _) = authority();
    let server = echo(config).await;
    let (address, _asked) = proxy(None, server).await;
    let trust = Trust::new(Some(other.path())).expect("trust");
    let connector = Connector::through(trust, proxies(&[("ALL_PROXY", format!("http://{address}"))]));
    let error = connector.connect(&target(&format!("https://{NAME}"))).await.err();
    assert!(matches!(error, Some(ConnectError::Tls(_))), "{error:?}");
}

/// What `openssl req -x509` makes unless it is told otherwise.
#[tokio::test]
async fn a_server_with_the_certificate_of_an_authority_is_told_what_it_needs() {
    let mut params = CertificateParams::new(vec![NAME.to_owned(), "127.0.0.1".to_owned()]).expect("params");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("key");
    let certificate = params.self_signed(&key).expect("certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("key"),
        )
        .expect("pair");
    let file = tempfile::NamedTempFile::new().expect("file");
    std::fs::write(file.path(), certificate.pem()).expect("write");
    let address = echo(Arc::new(server)).await;
    let connector = Connector::direct(Trust::new(Some(file.path())).expect("trust"));
    let error = connector.connect(&target(&format!("https://{address}"))).await.err();
    let text = error.expect("no server's certificate").to_string();
    assert!(text.contains("CA:FALSE"), "{text}");
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named() {
    // Bound, so that nobody else gets the port, and not listening.
    let closed = tokio::net::TcpSocket::new_v4().expect("socket");
    closed.bind(([127, 0, 0, 1], 0).into()).expect("bind");
    let address = closed.local_addr().expect("address");
    let trust = Trust::new(None).expect("trust");
    let connector = Connector::through(trust, proxies(&[("all_proxy", format!("http://user:word@{address}"))]));
    let error = connector
        .connect(&target("http://server.test"))
        .await
        .expect_err("no proxy");
    assert_eq!(error.to_string(), format!("no way through the proxy http://{address}"));
    let cause = error.source().expect("a cause").to_string();
    assert_eq!(cause, "cannot connect");
    assert!(
        error.is_retryable() && !format!("{error:?}").contains("word"),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_proxy_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let trust = Trust::new(None).expect("trust");
    let connector = Connector::through(trust, proxies(&[("all_proxy", address.to_string())]));
    let start = tokio::time::Instant::now();
    let error = connector
        .connect(&target("http://server.test"))
        .await
        .expect_err("silence");
    assert!(
        matches!(&error, ConnectError::Proxy { proxy, source: ProxyError::Timeout } if *proxy == format!("http://{address}")),
        "{error:?}"
    );
    assert_eq!(start.elapsed(), TUNNEL_TIMEOUT);
    assert!(error.is_retryable());
}

#[tokio::test]
async fn loopback_is_never_reached_through_a_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    let trust = Trust::new(None).expect("trust");
    let proxies = proxies(&[("http_proxy", "http://192.0.2.1:1".to_owned())]);
    let connector = Connector::through(trust, proxies);
    for host in ["localhost", "127.0.0.1"] {
        let socket = connector.connect(&target(&format!("ws://{host}:{port}"))).await;
        socket.expect(host);
    }
    drop(listener);
}

#[tokio::test]
async fn a_refusal_is_a_tunnels() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.expect("accept");
        let _ = tcp.write_all(b"HTTP/1.1 407 Who?\r\n\r\n").await;
        let _ = tcp.read_to_end(&mut Vec::new()).await;
    });
    let trust = Trust::new(None).expect("trust");
    let connector = Connector::through(trust, proxies(&[("http_proxy", address.to_string())]));
    let error = connector.connect(&target("http://server.test")).await.expect_err("407");
    assert!(error.is_proxy_unauthorized() && !error.is_retryable());
    let ConnectError::Proxy {
        source: ProxyError::Tunnel(TunnelError::Unauthorized { variable, offered }),
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!((variable, offered), ("http_proxy", None));
}
