//! Certificates of a listener, read again when their files change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;

/// Time between two looks at the files.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Largest certificate or key file.
pub const MAX_FILE: u64 = 1024 * 1024;

/// Why a certificate and key cannot be used; the configuration is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is larger than [`MAX_FILE`].
    #[error("{} is larger than {MAX_FILE} bytes", .0.display())]
    TooLarge(PathBuf),
    /// A file is not PEM, or lacks what it should hold.
    #[error("{} holds no usable {what}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// Why.
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate and the key do not belong together, or are of an unknown kind.
    #[error("certificate {} and key {} cannot be used together", cert.display(), key.display())]
    Pair {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// The TLS configuration of a listener.
#[derive(Debug)]
pub struct ServerConfigLoader {
    cert: PathBuf,
    key: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    config: Arc<ServerConfig>,
    /// What the files looked like at the last attempt, good or bad.
    seen: [Option<Fingerprint>; 2],
}

/// Changes whenever a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    inode: (u64, u64),
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ServerConfigLoader {
    /// Reads a PEM certificate chain (leaf first) and a PEM private key.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or the two are no pair.
    pub fn load(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let (cert, key) = (cert.into(), key.into());
        // Before the read: a change in between is then seen as a change.
        let seen = [fingerprint(&cert), fingerprint(&key)];
        let config = read(&cert, &key)?;
        Ok(Self {
            cert,
            key,
            state: Mutex::new(State { config, seen }),
        })
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.lock().config.clone()
    }

    /// Reads the files again if they changed since the last attempt. Says whether there is a new configuration; after
    /// an error the old one stays.
    ///
    /// # Errors
    ///
    /// When the changed files cannot be used. The same state of the files is reported once.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let seen = [fingerprint(&self.cert), fingerprint(&self.key)];
        if self.lock().seen == seen {
            return Ok(false);
        }
        let config = read(&self.cert, &self.key);
        let mut state = self.lock();
        state.seen = seen;
        state.config = config?;
        Ok(true)
    }

    /// Looks at the files every [`POLL_INTERVAL`] until `stop`.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let loader = self.clone();
            // A network file system may block.
            match tokio::task::spawn_blocking(move || loader.reload()).await {
                Ok(Ok(false)) | Err(_) => {}
                Ok(Ok(true)) => tracing::info!(cert = %self.cert.display(), "TLS certificate reloaded"),
                Ok(Err(error)) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "TLS certificate not reloaded, the old one stays in use");
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fingerprint(path: &Path) -> Option<Fingerprint> {
    let metadata = fs::metadata(path).ok()?;
    Some(Fingerprint {
        inode: (metadata.dev(), metadata.ino()),
        len: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let no = |path: &Path, what| {
        let path = path.to_owned();
        move |source| TlsError::Pem { path, what, source }
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read_file(cert)?)
        .collect::<Result<_, _>>()
        .map_err(no(cert, "certificate"))?;
    if chain.is_empty() {
        return Err(no(cert, "certificate")(rustls_pki_types::pem::Error::NoItemsFound));
    }
    let secret = zeroize::Zeroizing::new(read_file(key)?);
    let private = PrivateKeyDer::from_pem_slice(&secret).map_err(no(key, "private key"))?;
    let pair = |source| TlsError::Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        source,
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    io::Read::read_to_end(&mut io::Read::take(file, MAX_FILE + 1), &mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(TlsError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}
