//! How an address becomes a socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rendezvous_wire::limits::{PING_INTERVAL, PONG_TIMEOUT};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use url::{Host, Url};

use crate::proxy::tunnel::{self, TunnelError};
use crate::proxy::{Proxies, Proxy, ProxyVariableError};
use crate::tls::{Trust, TrustError};
use crate::{race, socket};

/// How long a peer may acknowledge nothing, or take nothing, before the kernel gives the connection up: as long as an
/// unanswered ping may take to end it.
pub const USER_TIMEOUT: Duration = Duration::from_secs(PING_INTERVAL.as_secs() + PONG_TIMEOUT.as_secs());

/// Longest time until a proxy gives a tunnel. Less than the ten seconds of a whole call or dial, so that the error says who was slow.
pub const TUNNEL_TIMEOUT: Duration = Duration::from_secs(8);

/// A socket to the next machine: a proxy or the target.
type Hop = Either<TcpStream, Box<TlsStream<TcpStream>>>;
/// A socket to the target, in clear text or TLS.
pub type Socket = Either<Hop, Box<TlsStream<Hop>>>;

/// Where to connect to. [`fmt::Display`] shows `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: Host<String>,
    port: u16,
    tls: bool,
}

impl Target {
    /// A host's port, to be spoken to in TLS or not.
    pub fn new(host: Host<String>, port: u16, tls: bool) -> Self {
        Self { host, port, tls }
    }

    /// What a URL of `http`, `https`, `ws` or `wss` points to; none for others.
    pub fn of(url: &Url) -> Option<Self> {
        let tls = match url.scheme() {
            "https" | "wss" => true,
            "http" | "ws" => false,
            _ => return None,
        };
        let host = url.host()?.to_owned();
        Some(Self::new(host, url.port_or_known_default()?, tls))
    }

    /// The host.
    pub fn host(&self) -> &Host<String> {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether TLS is spoken.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.host {
            Host::Ipv4(ip) => Ok(vec![(*ip, self.port).into()]),
            Host::Ipv6(ip) => Ok(vec![(*ip, self.port).into()]),
            Host::Domain(name) => {
                let found = tokio::net::lookup_host((name.as_str(), self.port)).await?;
                Ok(race::interleave(found))
            }
        }
    }

    fn server_name(&self) -> Option<ServerName<'static>> {
        match &self.host {
            Host::Domain(name) => ServerName::try_from(name.clone()).ok(),
            Host::Ipv4(ip) => Some(ServerName::IpAddress(IpAddr::V4(*ip).into())),
            Host::Ipv6(ip) => Some(ServerName::IpAddress(IpAddr::V6(*ip).into())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host has no address.
    #[error("cannot resolve the host name")]
    Resolve(#[source] io::Error),
    /// No address took the connection.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// TLS cannot be set up.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The TLS handshake failed, mostly because of an untrusted certificate.
    #[error("TLS handshake failed{}", advice(.0))]
    Tls(#[source] io::Error),
    /// No certificate can be for a host of this name.
    #[error("the host's name is no DNS name")]
    Name,
    /// The environment names a proxy that cannot be used.
    #[error(transparent)]
    ProxyVariable(#[from] ProxyVariableError),
    /// The proxy that the environment names does not lead there.
    #[error("no way through the proxy {proxy}")]
    Proxy {
        /// The proxy's URL, without user name and password.
        proxy: String,
        /// What is wrong with it.
        #[source]
        source: ProxyError,
    },
}

/// What to do about a failed handshake, where its cause does not tell.
fn advice(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            "; what answers there does not speak TLS"
        }
        // The library has no name for it.
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)))
            if format!("{other:?}").contains("CaUsedAsEndEntity") =>
        {
            "; the server uses a certificate for authorities: a self-signed one must have CA:FALSE (`openssl req -x509 … \
             -addext basicConstraints=critical,CA:FALSE`)"
        }
        _ => "",
    }
}

/// What is wrong with a proxy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// It was not reached.
    #[error(transparent)]
    Connect(Box<ConnectError>),
    /// It gives no tunnel.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// It gave none within [`TUNNEL_TIMEOUT`].
    #[error("it does not answer in time")]
    Timeout,
}

impl ConnectError {
    /// Whether the same attempt may succeed later with nothing changed here. A failed TLS handshake may: the
    /// peer may get another certificate.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Resolve(_) | Self::Connect(_) | Self::Tls(_) => true,
            Self::Trust(_) | Self::Name | Self::ProxyVariable(_) => false,
            Self::Proxy { source, .. } => match source {
                ProxyError::Connect(error) => error.is_retryable(),
                ProxyError::Tunnel(error) => error.is_retryable(),
                ProxyError::Timeout => true,
            },
        }
    }

    /// What TLS itself complains of, at the target or at the proxy: a certificate, or bytes that are no TLS. None where there
    /// was no TLS, and where the connection broke during the handshake, which may be gone the next time.
    pub fn tls_error(&self) -> Option<&rustls::Error> {
        match self {
            Self::Tls(error) => error.get_ref()?.downcast_ref(),
            Self::Proxy {
                source: ProxyError::Connect(error),
                ..
            } => error.tls_error(),
            _ => None,
        }
    }

    /// Whether the certificate of the target or of the proxy is not accepted.
    pub fn is_untrusted(&self) -> bool {
        matches!(
            self.tls_error(),
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
        )
    }

    /// Whether only a change of the configuration here helps.
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Trust(_) | Self::Name | Self::ProxyVariable(_) => true,
            Self::Proxy {
                source: ProxyError::Connect(error),
                ..
            } => error.is_configuration(),
            Self::Resolve(_) | Self::Connect(_) | Self::Tls(_) | Self::Proxy { .. } => false,
        }
    }

    /// Whether a proxy refuses the user name and password that it was given, or their absence.
    pub fn is_proxy_unauthorized(&self) -> bool {
        let Self::Proxy { source, .. } = self else {
            return false;
        };
        matches!(source, ProxyError::Tunnel(TunnelError::Unauthorized { .. }))
    }
}

/// Opens connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connector {
    trust: Arc<Trust>,
    proxies: Arc<Proxies>,
    user_timeout: Duration,
}

impl Connector {
    /// Trusts `trust` where TLS is spoken, and goes directly everywhere.
    pub fn direct(trust: Trust) -> Self {
        Self::through(trust, Proxies::none())
    }

    /// What a command-line program uses: a file of further authorities to trust, and the proxies of the environment.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn from_env(ca_file: Option<&Path>) -> Result<Self, TrustError> {
        Ok(Self::through(Trust::new(ca_file)?, Proxies::from_env()))
    }

    /// Trusts `trust` where TLS is spoken, and uses these proxies.
    pub fn through(trust: Trust, proxies: Proxies) -> Self {
        Self {
            trust: Arc::new(trust),
            proxies: Arc::new(proxies),
            user_timeout: USER_TIMEOUT,
        }
    }

    /// Replaces [`USER_TIMEOUT`].
    #[must_use]
    pub fn with_user_timeout(mut self, timeout: Duration) -> Self {
        self.user_timeout = timeout;
        self
    }

    /// Whom it trusts.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Whether a connection to the target can be tried at all.
    ///
    /// # Errors
    ///
    /// What only a change of the configuration, or of the target, mends.
    pub fn check(&self, target: &Target) -> Result<(), ConnectError> {
        self.proxies.of(target)?;
        match target.is_tls() && target.server_name().is_none() {
            true => Err(ConnectError::Name),
            false => Ok(()),
        }
    }

    /// Connects: name, TCP, proxy and TLS. Takes as long as they take; the caller sets the limit.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub async fn connect(&self, target: &Target) -> Result<Socket, ConnectError> {
        let hop = match self.proxies.of(target)? {
            None => Either::Left(self.tcp(target).await?),
            Some(proxy) => {
                let tunnel = timeout(TUNNEL_TIMEOUT, self.tunnel(proxy, target)).await;
                let failed = |source| ConnectError::Proxy {
                    proxy: proxy.to_string(),
                    source,
                };
                tunnel.unwrap_or(Err(ProxyError::Timeout)).map_err(failed)?
            }
        };
        if target.is_tls() {
            Ok(Either::Right(Box::new(self.encrypt(target, hop).await?)))
        } else {
            Ok(Either::Left(hop))
        }
    }

    async fn tunnel(&self, proxy: &Proxy, target: &Target) -> Result<Hop, ProxyError> {
        let unreached = |error| ProxyError::Connect(Box::new(error));
        let tcp = self.tcp(proxy.target()).await.map_err(unreached)?;
        let hop = if proxy.target().is_tls() {
            let stream = self.encrypt(proxy.target(), tcp).await.map_err(unreached)?;
            Either::Right(Box::new(stream))
        } else {
            Either::Left(tcp)
        };
        Ok(tunnel::open(hop, proxy, target).await?)
    }

    async fn tcp(&self, target: &Target) -> Result<TcpStream, ConnectError> {
        let addresses = target.resolve().await.map_err(ConnectError::Resolve)?;
        let tcp = race::connect(addresses).await.map_err(ConnectError::Connect)?;
        socket::prepare(&tcp, self.user_timeout);
        Ok(tcp)
    }

    async fn encrypt<S>(&self, target: &Target, stream: S) -> Result<TlsStream<S>, ConnectError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let name = target.server_name().ok_or(ConnectError::Name)?;
        let connector = TlsConnector::from(self.trust.config()?);
        connector.connect(name, stream).await.map_err(ConnectError::Tls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Option<Target> {
        Target::of(&url.parse().expect(url))
    }

    #[test]
    fn urls_point_to_targets() {
        for (url, shown, tls) in [
            ("https://a.example/x", "a.example:443", true),
            ("wss://a.example:8443/x?y", "a.example:8443", true),
            ("http://192.0.2.1", "192.0.2.1:80", false),
            ("ws://[2001:db8::1]:7/", "[2001:db8::1]:7", false),
        ] {
            let target = target(url).expect(url);
            assert_eq!((target.to_string().as_str(), target.is_tls()), (shown, tls));
        }
        assert_eq!(target("ftp://a.example"), None);
        assert_eq!(target("unix:/run/x"), None);
    }

    #[test]
    fn complaints_of_tls_are_told_from_broken_connections() {
        let failed = |error: rustls::Error| ConnectError::Tls(io::Error::new(io::ErrorKind::InvalidData, error));
        let far = |error| ConnectError::Proxy {
            proxy: "https://p:1".to_owned(),
            source: ProxyError::Connect(Box::new(error)),
        };
        let expired = || failed(rustls::CertificateError::Expired.into());
        assert!(expired().is_untrusted() && far(expired()).is_untrusted());
        assert!(failed(rustls::Error::NoCertificatesPresented).is_untrusted());
        let no_tls = || failed(rustls::InvalidMessage::InvalidContentType.into());
        assert!(no_tls().tls_error().is_some() && far(no_tls()).tls_error().is_some());
        assert!(!no_tls().is_untrusted());
        let broken = |kind: io::ErrorKind| ConnectError::Tls(kind.into());
        assert!(broken(io::ErrorKind::UnexpectedEof).tls_error().is_none());
        assert!(far(broken(io::ErrorKind::ConnectionReset)).tls_error().is_none());
        assert!(ConnectError::Name.tls_error().is_none());
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let refused = |status| ConnectError::Proxy {
            proxy: "http://p:1".to_owned(),
            source: ProxyError::Tunnel(TunnelError::Refused {
                target: "a:1".to_owned(),
                status,
                reason: String::new(),
            }),
        };
        let broken = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let far = |error| ConnectError::Proxy {
            proxy: "http://p:1".to_owned(),
            source: ProxyError::Connect(Box::new(error)),
        };
        assert!(ConnectError::Resolve(broken()).is_retryable());
        assert!(far(ConnectError::Connect(broken())).is_retryable());
        assert!(refused(503).is_retryable() && !refused(403).is_retryable());
        assert!(!far(ConnectError::Name).is_retryable());
        assert!(far(ConnectError::Tls(broken())).is_retryable());
        let unauthorized = ConnectError::Proxy {
            proxy: String::new(),
            source: ProxyError::Tunnel(TunnelError::Unauthorized {
                variable: "ALL_PROXY",
                offered: None,
            }),
        };
        assert!(unauthorized.is_proxy_unauthorized() && !refused(401).is_proxy_unauthorized());
        assert!(!unauthorized.is_configuration() && far(ConnectError::Name).is_configuration());
    }
}
