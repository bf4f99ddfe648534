//! Opens WebSockets to relays, and to exec-servers that listen.
//!
//! The URL is the only credential for a relay: no `Authorization`, `Origin`, `User-Agent` or subprotocol is sent.

use std::fmt;
use std::io;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, header};
use rendezvous_wire::limits::RELAY_CONNECT_TIMEOUT;
use rendezvous_wire::secret::Secret;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error as WebSocketError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use url::Url;

use crate::connector::{ConnectError, Connector, Target};
use crate::link::{Dialect, Link};
use crate::policy::{self, ClearText, UrlError};
use crate::registry::retry_after;
use crate::signer::{SignError, Signer};
use crate::text::clean;

pub use crate::connector::Socket;

/// Longest rejection reason that is kept, in characters.
const MAX_REASON: usize = 128;
/// Header in which a relay says why it refuses an upgrade.
const REJECTION_HEADER: &str = "x-codex-rendezvous-rejection-reason";

/// How long the peer of a direct connection may acknowledge nothing, or take nothing, before the kernel gives the connection
/// up. Its program may be busy for a while.
pub const DIRECT_USER_TIMEOUT: Duration = Duration::from_secs(300);

/// Why a relay, or another exec-server, could not be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The URL cannot be used.
    #[error("unusable URL")]
    Url(#[from] UrlError),
    /// There is no connection to its host.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection broke before there was an answer.
    #[error("the connection broke before there was an answer")]
    Broken(#[source] io::Error),
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
    /// Whether the same URL may work later. A refused ticket and a URL that must not be used stay refused, and so does what is
    /// wrong with the configuration here.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Url(_) | Self::Sign(_) => false,
            Self::Connect(error) => error.is_retryable(),
            Self::Refused { .. } => !self.is_ticket_refused(),
            Self::Broken(_) | Self::Handshake(_) | Self::Timeout => true,
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
    connector: Connector,
    clear_text: ClearText,
    timeout: Duration,
}

impl Dialer {
    /// Connects with `connector`, and dials `ws` as far as `clear_text` goes.
    pub fn new(connector: Connector, clear_text: ClearText) -> Self {
        Self {
            connector,
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

    /// Whether [`Self::dial`] can try this URL at all. Nothing is sent.
    ///
    /// # Errors
    ///
    /// What only another URL or another configuration mends.
    pub fn check(&self, url: &Secret) -> Result<(), DialError> {
        let url = policy::relay_url(url, self.clear_text)?;
        let target = Target::of(&url).ok_or(UrlError::Host)?;
        Ok(self.connector.check(&target)?)
    }

    /// Opens a link: name, proxy, TCP, TLS and upgrade together within ten seconds.
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
        let target = Target::of(url).ok_or(UrlError::Host)?;
        let socket = match dialect {
            Dialect::Relay => self.connector.connect(&target).await?,
            Dialect::Direct => {
                let connector = self.connector.clone().with_user_timeout(DIRECT_USER_TIMEOUT);
                connector.connect(&target).await?
            }
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

fn handshake_error(error: WebSocketError) -> DialError {
    match error {
        WebSocketError::Http(response) => refused(&response),
        WebSocketError::Io(error) => DialError::Broken(error),
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
