//! Opening the control connection.

use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use rendezvous_connect::connector::{ConnectError, Connector, Socket, Target};
use rendezvous_connect::tls::TrustError;
use rendezvous_wire::control::{MAX_CONTROL_MESSAGE, PATH};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, http::StatusCode};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::{Host, Url};

use super::Options;

/// Longest time to open the connection, TLS and upgrade included.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the registry may acknowledge nothing before the kernel gives the connection up. It pings all the time.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) type WebSocket = WebSocketStream<Socket>;

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
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Why the connection could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// Not within ten seconds.
    #[error("the registry did not answer in time")]
    Timeout,
    /// No connection: no address, no TCP, no way through a proxy.
    #[error("the registry cannot be reached")]
    Connect(#[source] ConnectError),
    /// The registry's certificate is not accepted.
    #[error("the registry's certificate is not trusted; name the authority that issued it with --ca-file")]
    Certificate(#[source] ConnectError),
    /// No TLS connection for another reason.
    #[error("no TLS connection to the registry; does it serve https at this address?")]
    Tls(#[source] ConnectError),
    /// The registry refused the credential.
    #[error("the registry refused the relay's credential; it wants a live one of role relay")]
    NotAuthorized,
    /// The registry refused the upgrade.
    #[error("the registry answered {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
    /// What answered in clear text is no HTTP.
    #[error("the registry does not speak HTTP at this address; does it serve https there?")]
    ClearText(#[source] Box<WsError>),
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
    /// Whether it will fail again until somebody changes something: the configuration here, or what a credential may do.
    pub(super) fn is_final(&self) -> bool {
        self.is_configuration() || self.is_not_authorized()
    }

    /// Whether the registry refuses the relay's credential, or a proxy its user name and password.
    pub fn is_not_authorized(&self) -> bool {
        match self {
            Self::NotAuthorized => true,
            Self::Connect(error) => error.is_proxy_unauthorized(),
            _ => false,
        }
    }

    fn is_configuration(&self) -> bool {
        matches!(self, Self::Connect(error) if error.is_configuration())
    }
}

impl From<ConnectError> for DialError {
    fn from(error: ConnectError) -> Self {
        match &error {
            ConnectError::Tls(_) if error.is_untrusted() => Self::Certificate(error),
            ConnectError::Tls(_) => Self::Tls(error),
            _ => Self::Connect(error),
        }
    }
}

/// A registry that can be dialled.
pub struct Registry {
    target: Target,
    url: String,
    origin: String,
    authorization: HeaderValue,
    connector: Connector,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registry").field(&self.origin).finish()
    }
}

impl Registry {
    /// Checks the options, reads the file of authorities, and takes the proxies of the environment.
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
        let connector = Connector::from_env(options.ca_file.as_deref())?.with_user_timeout(USER_TIMEOUT);
        Ok(Self {
            url: format!("{scheme}://{host}:{port}{path}/{PATH}"),
            origin: origin(url),
            target: Target::new(host.to_owned(), port, tls),
            authorization,
            connector,
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
        let socket = self.connector.connect(&self.target).await?;
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
            Err(error @ WsError::Protocol(ProtocolError::HttparseError(_))) if !self.target.is_tls() => {
                Err(DialError::ClearText(Box::new(error)))
            }
            Err(error) => Err(upgrade(error)),
        }
    }
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
