//! A hop on loopback for a stock executor whose API key goes to loopback only, and a registry elsewhere.
//!
//! The executor registers here. Its calls are made again at the registry, over TLS, with the credential that it sent; the relay
//! URL in the answer is kept, and replaced by one of this program, whose frames are passed on unread. The channel is
//! the executor's: nothing of it ends here.

mod http;
mod places;

use std::net::SocketAddr;
use std::sync::Arc;

use rendezvous_host::own::Listening;
use rendezvous_service::listener::{self, BindError};
use rendezvous_transport::connector::Connector;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::policy::RegistryUrl;
use tokio_util::sync::CancellationToken;

pub use self::http::MAX_CONNECTIONS;
pub use self::places::MAX_PLACES;

/// Where the registry is, and how to reach it and its relays.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The registry.
    pub registry: RegistryUrl,
    /// How to reach it.
    pub connector: Connector,
    /// Opens relay connections.
    pub dialer: Dialer,
}

/// A bound gateway.
#[derive(Debug)]
pub struct Gateway {
    http: listener::Server,
    /// Programs of this executor must not come here through its proxies.
    own: Listening,
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Credentials would come in clear text from other machines.
    #[error("{0} is no loopback address, and credentials come in clear text")]
    NotLoopback(SocketAddr),
    /// The address is taken, or not ours.
    #[error(transparent)]
    Bind(#[from] BindError),
}

impl Gateway {
    /// Binds a loopback address, port 0 for any free one. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// When it is no loopback address, or cannot be bound.
    pub fn bind(addr: SocketAddr) -> Result<Self, GatewayError> {
        if !addr.ip().is_loopback() {
            return Err(GatewayError::NotLoopback(addr));
        }
        let http = listener::Server::bind(addr, None)?;
        let own = Listening::at(http.local_addr());
        Ok(Self { http, own })
    }

    /// The URL for `--remote`, with the real port.
    pub fn url(&self) -> String {
        format!("http://{}", self.http.local_addr())
    }

    /// Serves until `stop`; then relay connections are closed.
    pub async fn serve(self, upstream: Upstream, stop: CancellationToken) {
        let handler = Arc::new(http::Handler::new(upstream, self.http.local_addr(), stop.clone()));
        let handle = {
            let handler = Arc::clone(&handler);
            move |request, _| Arc::clone(&handler).answer(request)
        };
        let _own = self.own;
        self.http.serve(handle, stop).await;
        handler.finish().await;
    }
}
