//! Opening the control connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use rendezvous_wire::control::{MAX_CONTROL_MESSAGE, PATH};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, http::StatusCode};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::{Host, Url};

use super::Options;

/// Longest time to open the connection, TLS and upgrade included.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A socket of either kind.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

pub(super) type WebSocket = WebSocketStream<Box<dyn Socket>>;

/// Why a registry cannot be spoken to; the configuration is at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Not an `http` or `https` URL with a host, or one with a query or fragment.
    #[error("the registry's URL must be http://HOST[:PORT][/PATH] or https://…, without query")]
    Url,
    /// The credential would cross a network in clear text.
    #[error("refusing to send the credential to {0} in clear text; use https or --allow-insecure")]
    ClearText(String),
    /// The credential does not fit into a header.
    #[error("the credential is not printable ASCII text")]
    Credential,
    /// The CA file cannot be used.
    #[error("cannot use the CA file {path}")]
    CaFile {
        /// The file.
        path: String,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// There are no certification authorities to check the registry with.
    #[error("no certification authorities: {0}")]
    NoRoots(String),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// Why the connection could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// Not within ten seconds.
    #[error("the registry did not answer in time")]
    Timeout,
    /// No TCP connection.
    #[error("the registry cannot be reached")]
    Connect(#[source] io::Error),
    /// The registry's certificate is not accepted.
    #[error("the registry's certificate is not trusted; name the authority that issued it with --ca-file")]
    Certificate(#[source] io::Error),
    /// No TLS connection for another reason.
    #[error("no TLS connection to the registry; does it serve https at this address?")]
    Tls(#[source] io::Error),
    /// The registry refused the credential.
    #[error("the registry refused the relay's credential; it wants a live one of role relay")]
    NotAuthorized,
    /// The registry refused the upgrade.
    #[error("the registry answered {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
    /// The upgrade failed.
    #[error("the upgrade failed")]
    Upgrade(#[source] Box<WsError>),
}

/// What to look at when a service at the registry's address answers with this status.
fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::UPGRADE_REQUIRED | StatusCode::OK => {
            "; is --registry the base URL of a registry, and does a proxy in between let WebSockets pass?"
        }
        _ => "",
    }
}

impl DialError {
    fn tls(error: io::Error) -> Self {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        match cause {
            Some(rustls::Error::InvalidCertificate(_)) => Self::Certificate(error),
            _ => Self::Tls(error),
        }
    }
}

/// A registry that can be dialled.
pub struct Registry {
    host: String,
    port: u16,
    url: String,
    origin: String,
    authorization: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registry").field(&self.origin).finish()
    }
}

impl Registry {
    /// Checks the options and loads certificates.
    ///
    /// # Errors
    ///
    /// When they cannot work.
    pub fn new(options: &Options) -> Result<Self, RegistryError> {
        let url = &options.registry;
        let host = url.host().ok_or(RegistryError::Url)?;
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(RegistryError::Url),
        };
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err(RegistryError::Url);
        }
        if !tls && !options.allow_insecure && !is_loopback(&host) {
            return Err(RegistryError::ClearText(host.to_string()));
        }
        let port = url.port_or_known_default().ok_or(RegistryError::Url)?;
        let scheme = if tls { "wss" } else { "ws" };
        let path = url.path().trim_end_matches('/');
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", options.credential.expose().trim()))
            .map_err(|_| RegistryError::Credential)?;
        authorization.set_sensitive(true);
        let name = match &host {
            Host::Domain(name) => (*name).to_owned(),
            Host::Ipv4(ip) => ip.to_string(),
            Host::Ipv6(ip) => ip.to_string(),
        };
        let tls = if tls {
            let server = ServerName::try_from(name.clone()).map_err(|_| RegistryError::Url)?;
            Some((connector(options)?, server))
        } else {
            None
        };
        Ok(Self {
            url: format!("{scheme}://{host}:{port}{path}/{PATH}"),
            origin: origin(url),
            host: name,
            port,
            authorization,
            tls,
        })
    }

    /// The registry's address for logs.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    pub(super) async fn dial(&self) -> Result<WebSocket, DialError> {
        timeout(DIAL_TIMEOUT, self.open())
            .await
            .map_err(|_| DialError::Timeout)?
    }

    async fn open(&self) -> Result<WebSocket, DialError> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await;
        let tcp = tcp.map_err(DialError::Connect)?;
        tcp.set_nodelay(true).map_err(DialError::Connect)?;
        let socket: Box<dyn Socket> = match &self.tls {
            None => Box::new(tcp),
            Some((connector, name)) => {
                let encrypted = connector.connect(name.clone(), tcp).await;
                Box::new(encrypted.map_err(DialError::tls)?)
            }
        };
        let upgrade = |error| DialError::Upgrade(Box::new(error));
        let mut request = self.url.as_str().into_client_request().map_err(upgrade)?;
        request.headers_mut().insert(AUTHORIZATION, self.authorization.clone());
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_CONTROL_MESSAGE))
            .max_frame_size(Some(MAX_CONTROL_MESSAGE));
        match client_async_with_config(request, socket, Some(config)).await {
            Ok((socket, _)) => Ok(socket),
            Err(WsError::Http(response)) => Err(match response.status() {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => DialError::NotAuthorized,
                status => DialError::Status(status),
            }),
            Err(error) => Err(upgrade(error)),
        }
    }
}

fn connector(options: &Options) -> Result<TlsConnector, RegistryError> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if let Some(path) = &options.ca_file {
        let unusable = |source| RegistryError::CaFile {
            path: path.display().to_string(),
            source,
        };
        for certificate in CertificateDer::pem_file_iter(path).map_err(unusable)? {
            roots.add(certificate.map_err(unusable)?)?;
        }
    }
    if roots.is_empty() {
        let errors: Vec<_> = native.errors.iter().map(ToString::to_string).collect();
        return Err(RegistryError::NoRoots(errors.join("; ")));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rendezvous_wire::secret::Secret;

    #[expect(clippy::unwrap_in_result, reason = "the URL is the test's own")]
    fn registry(url: &str, allow_insecure: bool) -> Result<Registry, RegistryError> {
        Registry::new(&Options {
            registry: url.parse().expect("a URL"),
            credential: Secret::new("token"),
            ca_file: None,
            allow_insecure,
        })
    }

    #[test]
    fn the_path_of_the_control_connection() {
        for (base, url) in [
            ("http://127.0.0.1:8080", "ws://127.0.0.1:8080/v1/relay/control"),
            ("http://localhost/base/", "ws://localhost:80/base/v1/relay/control"),
            ("http://[::1]:1", "ws://[::1]:1/v1/relay/control"),
        ] {
            assert_eq!(registry(base, false).unwrap().url, url);
        }
    }

    #[test]
    fn the_credential_stays_off_clear_text() {
        assert!(matches!(
            registry("http://10.0.0.1", false),
            Err(RegistryError::ClearText(_))
        ));
        assert!(matches!(
            registry("http://example.test", false),
            Err(RegistryError::ClearText(_))
        ));
        assert!(registry("http://10.0.0.1", true).is_ok());
        assert!(matches!(registry("ftp://localhost", false), Err(RegistryError::Url)));
        assert!(matches!(
            registry("http://localhost/?a=b", false),
            Err(RegistryError::Url)
        ));
        assert!(!format!("{:?}", registry("http://localhost", false)).contains("token"));
    }
}
