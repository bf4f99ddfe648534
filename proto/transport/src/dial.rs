//! Opens WebSockets to relays, and to exec-servers that listen.
//!
//! The URL is the only credential for a relay: no `Authorization`, `Origin`, `User-Agent` or subprotocol is sent.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, HeaderValue, Request, header};
use rendezvous_wire::limits::RELAY_CONNECT_TIMEOUT;
use rendezvous_wire::secret::Secret;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Error as WebSocketError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_util::either::Either;
use url::{Host, Url};

use crate::link::{Dialect, Link};
use crate::policy::{self, ClearText, UrlError};
use crate::registry::retry_after;
use crate::signer::{SignError, Signer};
use crate::text::clean;
use crate::tls::{Trust, TrustError};

/// Most addresses of one host that are tried.
pub const MAX_ADDRESSES: usize = 16;
/// How long an address may take before the next one is tried beside it.
pub const STAGGER: Duration = Duration::from_millis(250);
/// Longest rejection reason that is kept, in characters.
const MAX_REASON: usize = 128;
/// Header in which a relay says why it refuses an upgrade.
const REJECTION_HEADER: &str = "x-codex-rendezvous-rejection-reason";

/// The socket below a link, in clear text or TLS.
pub type Socket = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Why a relay, or another exec-server, could not be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The URL cannot be used.
    #[error("unusable URL")]
    Url(#[from] UrlError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The host has no address.
    #[error("cannot resolve the host name")]
    Resolve(#[source] io::Error),
    /// No address took the connection.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The TLS handshake failed, mostly because of an untrusted certificate.
    #[error("TLS handshake failed")]
    Tls(#[source] io::Error),
    /// The relay answered the upgrade with another status than 101.
    #[error("the upgrade was refused with status {status}{}", suffix(reason))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the relay says about it, made fit to show.
        reason: Option<String>,
        /// How long it wants not to be asked.
        retry_after: Option<Duration>,
    },
    /// The answer was no WebSocket upgrade.
    #[error("the answer is no WebSocket upgrade: {0}")]
    Handshake(String),
    /// It took more than ten seconds.
    #[error("no answer in time")]
    Timeout,
    /// The upgrade could not be signed, so that nothing was sent.
    #[error(transparent)]
    Sign(#[from] SignError),
}

fn suffix(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
}

impl DialError {
    /// Whether the same URL may work later. A refused ticket and a URL that must not be used stay refused.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Url(_) | Self::Trust(_) | Self::Sign(_) => false,
            Self::Refused { .. } => !self.is_ticket_refused(),
            Self::Resolve(_) | Self::Connect(_) | Self::Tls(_) | Self::Handshake(_) | Self::Timeout => true,
        }
    }

    /// Whether the relay says that the ticket in the URL is no good any more (401, 403, 404, 410), so that a fresh URL is
    /// needed. Other statuses, 408 and 429 among them, do not spoil a ticket.
    pub fn is_ticket_refused(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 401 | 403 | 404 | 410,
                ..
            }
        )
    }

    /// How long the relay wants not to be asked.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// What proves to the server of a URL that we may use it.
#[derive(Clone, Copy)]
enum Proof<'a> {
    /// The URL itself does.
    Url,
    Bearer(&'a Secret),
    Signature(&'a dyn Signer),
}

impl Proof<'_> {
    /// The headers to add to an upgrade.
    fn headers(self, upgrade: &Request<()>) -> Result<HeaderMap, DialError> {
        match self {
            Self::Url => Ok(HeaderMap::new()),
            Self::Bearer(bearer) => {
                let value = HeaderValue::try_from(format!("Bearer {}", bearer.expose()));
                let mut value = value.map_err(|error| DialError::Handshake(error.to_string()))?;
                value.set_sensitive(true);
                Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
            }
            Self::Signature(signer) => {
                // Gateways rewrite the headers of an upgrade; of those only the host is signed.
                let mut unsigned = Request::new([].as_slice());
                *unsigned.uri_mut() = upgrade.uri().clone();
                if let Some(host) = upgrade.headers().get(header::HOST) {
                    unsigned.headers_mut().insert(header::HOST, host.clone());
                }
                Ok(signer.sign(&unsigned)?)
            }
        }
    }
}

/// Opens links.
#[derive(Clone)]
pub struct Dialer {
    trust: Arc<Trust>,
    clear_text: ClearText,
    timeout: Duration,
}

impl Dialer {
    /// Trusts `trust` for `wss`, and dials `ws` as far as `clear_text` goes.
    pub fn new(trust: Arc<Trust>, clear_text: ClearText) -> Self {
        Self {
            trust,
            clear_text,
            timeout: RELAY_CONNECT_TIMEOUT,
        }
    }

    /// Replaces the ten seconds that a dial may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Opens a link: name, TCP, TLS and upgrade together within ten seconds.
    ///
    /// # Errors
    ///
    /// See [`DialError`].
    pub async fn dial(&self, url: &Secret) -> Result<Link, DialError> {
        self.dial_as(url, Proof::Url, Dialect::Relay).await
    }

    /// Opens a direct connection to an exec-server, within the same time and as far as the same rule for clear text goes.
    /// `bearer` is sent in the header `Authorization`.
    ///
    /// # Errors
    ///
    /// See [`DialError`]; a refused credential is [`DialError::Refused`] with status 401.
    pub async fn dial_direct(&self, url: &Secret, bearer: Option<&Secret>) -> Result<Link, DialError> {
        self.dial_as(url, bearer.map_or(Proof::Url, Proof::Bearer), Dialect::Direct)
            .await
    }

    /// Opens a direct connection to serve on: the upgrade is signed, for this moment, and the peer has to answer pings like a relay.
    ///
    /// # Errors
    ///
    /// See [`DialError`].
    pub async fn dial_signed(&self, url: &Secret, signer: &impl Signer) -> Result<Link, DialError> {
        let link = self.dial_as(url, Proof::Signature(signer), Dialect::Direct).await?;
        Ok(link.expecting_pongs())
    }

    async fn dial_as(&self, url: &Secret, proof: Proof<'_>, dialect: Dialect) -> Result<Link, DialError> {
        let url = policy::relay_url(url, self.clear_text)?;
        timeout(self.timeout, self.open(&url, proof, dialect))
            .await
            .unwrap_or(Err(DialError::Timeout))
    }

    async fn open(&self, url: &Url, proof: Proof<'_>, dialect: Dialect) -> Result<Link, DialError> {
        let mut request = url.as_str().into_client_request().map_err(handshake_error)?;
        let headers = proof.headers(&request)?;
        request.headers_mut().extend(headers);
        let tcp = connect(resolve(url).await?).await.map_err(DialError::Connect)?;
        // Fails only for a socket that is dead already; the handshake finds that out.
        let _ = tcp.set_nodelay(true);
        let socket = if url.scheme() == "wss" {
            let connector = TlsConnector::from(self.trust.config()?);
            let stream = connector
                .connect(server_name(url)?, tcp)
                .await
                .map_err(DialError::Tls)?;
            Either::Right(Box::new(stream))
        } else {
            Either::Left(tcp)
        };
        let upgraded = tokio_tungstenite::client_async_with_config(request, socket, Some(dialect.config()));
        let (socket, _) = upgraded.await.map_err(handshake_error)?;
        Ok(Link::new(socket, dialect))
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("clear_text", &self.clear_text)
            .finish_non_exhaustive()
    }
}

async fn resolve(url: &Url) -> Result<Vec<SocketAddr>, DialError> {
    let port = url.port_or_known_default().unwrap_or_default();
    match url.host() {
        Some(Host::Ipv4(ip)) => Ok(vec![(ip, port).into()]),
        Some(Host::Ipv6(ip)) => Ok(vec![(ip, port).into()]),
        Some(Host::Domain(name)) => {
            let found = tokio::net::lookup_host((name, port))
                .await
                .map_err(DialError::Resolve)?;
            Ok(interleave(found.take(MAX_ADDRESSES)))
        }
        None => Err(UrlError::Host.into()),
    }
}

/// The resolver's order, but with the two families taking turns.
fn interleave(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let addresses: Vec<_> = addresses.collect();
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut same, mut other): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .rev()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut order = Vec::new();
    while let Some(address) = same.pop() {
        order.push(address);
        order.extend(other.pop());
    }
    order.extend(other.into_iter().rev());
    order
}

/// The first connection that comes up. A slow or failed address lets the next one start.
async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    attempts.extend(waiting.next().map(TcpStream::connect));
    loop {
        let next = tokio::select! {
            biased;
            Some(attempt) = attempts.next() => {
                match attempt {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
                waiting.next()
            }
            () = sleep(STAGGER), if waiting.len() > 0 => waiting.next(),
            else => return Err(last),
        };
        attempts.extend(next.map(TcpStream::connect));
    }
}

fn server_name(url: &Url) -> Result<ServerName<'static>, DialError> {
    match url.host() {
        Some(Host::Domain(name)) => ServerName::try_from(name.to_owned()).map_err(|_| UrlError::Host.into()),
        Some(Host::Ipv4(ip)) => Ok(ServerName::IpAddress(std::net::IpAddr::V4(ip).into())),
        Some(Host::Ipv6(ip)) => Ok(ServerName::IpAddress(std::net::IpAddr::V6(ip).into())),
        None => Err(UrlError::Host.into()),
    }
}

fn handshake_error(error: WebSocketError) -> DialError {
    match error {
        WebSocketError::Http(response) => refused(&response),
        WebSocketError::Io(error) => DialError::Connect(error),
        error => DialError::Handshake(clean(&error.to_string(), MAX_REASON)),
    }
}

fn refused(response: &Response) -> DialError {
    let reason = response
        .headers()
        .get(REJECTION_HEADER)
        .and_then(|value| value.to_str().ok())
        .map(|text| clean(text, MAX_REASON))
        .filter(|text| !text.is_empty());
    DialError::Refused {
        status: response.status().as_u16(),
        reason,
        retry_after: retry_after(response.headers()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse =
            |texts: &[&str]| -> Vec<SocketAddr> { texts.iter().map(|text| text.parse().expect("address")).collect() };
        let found = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]);
        let order = parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]);
        assert_eq!(interleave(found.into_iter()), order);
        let found = parse(&["1.1.1.1:1", "[::1]:1", "[::2]:1"]);
        assert_eq!(interleave(found.clone().into_iter()), found);
    }

    #[tokio::test]
    async fn a_dead_address_does_not_hide_a_good_one() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let good = listener.local_addr().expect("address");
        // Bound, so that nobody else gets the port, and not listening.
        let closed = tokio::net::TcpSocket::new_v4().expect("socket");
        closed.bind(([127, 0, 0, 1], 0).into()).expect("bind");
        let refused = closed.local_addr().expect("address");
        connect(vec![refused, good]).await.expect("the second address");
        let error = connect(vec![refused]).await.expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = connect(Vec::new()).await.expect_err("nothing");
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn statuses_decide_what_to_do() {
        let refused = |status| DialError::Refused {
            status,
            reason: None,
            retry_after: None,
        };
        for status in [401, 403, 404, 410] {
            assert!(refused(status).is_ticket_refused() && !refused(status).is_retryable());
        }
        for status in [302, 400, 408, 429, 500, 503] {
            assert!(!refused(status).is_ticket_refused() && refused(status).is_retryable());
        }
        assert!(!DialError::from(UrlError::Host).is_retryable());
    }
}
