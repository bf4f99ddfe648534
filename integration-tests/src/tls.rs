//! A certification authority of the test's own.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::Context;

/// The authority, and the folder that it writes files to.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

/// A server's certificate chain and key, as PEM files.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key, readable by the owner only.
    pub key: PathBuf,
}

impl Authority {
    /// A new authority; [`Self::file`] is what clients trust.
    ///
    /// # Errors
    ///
    /// Its file could not be written.
    pub fn new(cx: &Context) -> Result<Self> {
        Self::named(cx, "tls")
    }

    /// A further authority; its files are in a folder of this name.
    ///
    /// # Errors
    ///
    /// Its file could not be written.
    pub fn named(cx: &Context, name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "Rendezvous test authority");
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let folder = cx.subfolder(name)?;
        std::fs::write(folder.join("ca.pem"), certificate.pem())?;
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, folder })
    }

    /// The authority's certificate as a PEM file.
    pub fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A certificate for a server at `addresses`.
    ///
    /// # Errors
    ///
    /// The files could not be written.
    pub fn server(&self, cx: &Context, name: &str, addresses: &[IpAddr]) -> Result<ServerFiles> {
        self.server_named(cx, name, &[], addresses)
    }

    /// A certificate for a server with these host names, and at `addresses`.
    ///
    /// # Errors
    ///
    /// The files could not be written.
    pub fn server_named(&self, cx: &Context, name: &str, hosts: &[&str], addresses: &[IpAddr]) -> Result<ServerFiles> {
        let hosts: Vec<String> = hosts.iter().copied().map(str::to_owned).collect();
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, name);
        let addresses = addresses.iter().copied().map(SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let path = self.folder.join(format!("{name}.pem"));
        std::fs::write(&path, certificate.pem())?;
        let secret = self.folder.join(format!("{name}.key"));
        let secret = secret.strip_prefix(cx.folder())?.to_string_lossy();
        Ok(ServerFiles {
            certificate: path,
            key: cx.secret_file(&secret, &key.serialize_pem())?,
        })
    }

    /// A TLS client that trusts this authority only.
    ///
    /// # Errors
    ///
    /// The authority's file is broken.
    pub fn client(&self) -> Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.file())? {
            roots.add(certificate)?;
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

impl ServerFiles {
    /// Puts the content of `newer` in place of this one's, as a renewal does.
    ///
    /// # Errors
    ///
    /// The files could not be moved.
    pub fn replace_with(&self, newer: &Self) -> Result<()> {
        std::fs::rename(&newer.certificate, &self.certificate)?;
        Ok(std::fs::rename(&newer.key, &self.key)?)
    }

    /// The server's own certificate.
    ///
    /// # Errors
    ///
    /// The file is broken.
    pub fn leaf(&self) -> Result<CertificateDer<'static>> {
        certificates(&self.certificate)?
            .into_iter()
            .next()
            .context("a certificate")
    }

    /// A TLS server with these files.
    ///
    /// # Errors
    ///
    /// The files are broken.
    pub fn server(&self) -> Result<Arc<ServerConfig>> {
        let key = PrivateKeyDer::from_pem_file(&self.key).context("private key")?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates(&self.certificate)?, key)?;
        Ok(Arc::new(config))
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).with_context(|| format!("{}", file.display()))?;
    Ok(read.collect::<Result<_, _>>()?)
}
