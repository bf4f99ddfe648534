//! A certificate authority and a server's files.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rendezvous_service::tls::ServerConfigLoader;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Files {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

/// One leaf certificate with its key, in PEM and DER.
pub(crate) struct Leaf {
    pub(crate) cert: String,
    pub(crate) key: String,
    pub(crate) der: CertificateDer<'static>,
}

impl Files {
    /// An authority, and a pair on disk.
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("key");
        let root = params.self_signed(&key).expect("root").der().clone();
        let files = Self {
            folder: tempfile::tempdir().expect("folder"),
            issuer: Issuer::new(params, key),
            root,
        };
        let leaf = files.leaf();
        files.write("cert", &leaf.cert);
        files.write("key", &leaf.key);
        files
    }

    pub(crate) fn leaf(&self) -> Leaf {
        let key = KeyPair::generate().expect("key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("params");
        let cert = params.signed_by(&key, &self.issuer).expect("leaf");
        Leaf {
            cert: cert.pem(),
            key: key.serialize_pem(),
            der: cert.der().clone(),
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("write");
    }

    pub(crate) fn load(&self) -> Result<ServerConfigLoader, rendezvous_service::tls::TlsError> {
        ServerConfigLoader::load(self.folder.path().join("cert"), self.folder.path().join("key"))
    }

    pub(crate) fn loader(&self) -> Arc<ServerConfigLoader> {
        Arc::new(self.load().expect("pair"))
    }

    pub(crate) async fn connect(&self, addr: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).expect("root");
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("name");
        let tcp = TcpStream::connect(addr).await?;
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await
    }

    /// The certificate that the server shows now.
    pub(crate) async fn shown(&self, addr: SocketAddr) -> CertificateDer<'static> {
        let stream = self.connect(addr).await.expect("handshake");
        stream.get_ref().1.peer_certificates().expect("certificates")[0].clone()
    }
}
