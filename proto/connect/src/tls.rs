//! Whom a client trusts.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// Largest file of certificate authorities, in bytes.
pub const MAX_CA_FILE: u64 = 4 * 1024 * 1024;

/// Why a `--ca-file` cannot be used; the configuration is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Larger than [`MAX_CA_FILE`].
    #[error("{} is larger than {MAX_CA_FILE} bytes", .0.display())]
    TooLarge(PathBuf),
    /// Not PEM, or without a certificate.
    #[error("{} holds no usable PEM certificate", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// TLS cannot be set up at all.
    #[error("cannot set up TLS")]
    Setup(#[from] rustls::Error),
}

/// The certificate authorities that a client trusts: the machine's own (or `SSL_CERT_FILE`, `SSL_CERT_DIR`), and those
/// of a file.
pub struct Trust {
    extra: Vec<CertificateDer<'static>>,
    /// Made at the first use: loading the machine's roots takes longer than a whole session over loopback.
    config: OnceLock<Arc<ClientConfig>>,
}

impl Trust {
    /// Trusts the machine's roots, and the certificates of a PEM file.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, TrustError> {
        Ok(Self {
            extra: ca_file.map(read).transpose()?.unwrap_or_default(),
            config: OnceLock::new(),
        })
    }

    /// The certificates of the file.
    pub fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.extra
    }

    /// The configuration of TLS connections, HTTP/1.1 only.
    ///
    /// # Errors
    ///
    /// When TLS cannot be set up at all.
    pub fn config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let mut roots = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::debug!(%error, "a certificate store of this machine cannot be read");
        }
        let (taken, _) = roots.add_parsable_certificates(native.certs);
        roots.add_parsable_certificates(self.extra.iter().cloned());
        tracing::debug!(native = taken, extra = self.extra.len(), "certificate authorities");
        let config = client_config(roots)?;
        Ok(self.config.get_or_init(|| config).clone())
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("extra", &self.extra.len())
            .finish_non_exhaustive()
    }
}

fn client_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let unreadable = |source| TrustError::Read {
        path: path.to_owned(),
        source,
    };
    let unusable = |source| TrustError::Pem {
        path: path.to_owned(),
        source,
    };
    let mut pem = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_CA_FILE + 1).read_to_end(&mut pem).map_err(unreadable)?;
    if pem.len() as u64 > MAX_CA_FILE {
        return Err(TrustError::TooLarge(path.to_owned()));
    }
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(error.into()))?;
    if certificates.is_empty() {
        return Err(unusable(rustls_pki_types::pem::Error::NoItemsFound.into()));
    }
    // A certificate that is no authority would be trusted by nothing and surprise later.
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|error| unusable(error.into()))?;
    }
    Ok(certificates)
}
