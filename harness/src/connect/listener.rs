use std::time::Duration;

use rendezvous_transport::connector;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::direct;

use super::StreamLink;
use crate::endpoint::Listener;
use crate::error::{AttemptError, HarnessError};
use crate::session::driver::Connector;

/// Connects to an exec-server that listens on a WebSocket.
pub(crate) struct ListenerConnector {
    listener: Listener,
    dialer: Dialer,
}

impl ListenerConnector {
    pub(crate) fn new(listener: Listener) -> Result<Self, HarnessError> {
        let connector = connector::Connector::from_env(listener.ca_file.as_deref())?;
        let dialer = Dialer::new(connector, listener.clear_text).with_timeout(listener.connect_timeout);
        Ok(Self { listener, dialer })
    }
}

impl Connector for ListenerConnector {
    type Link = StreamLink;

    async fn connect(&mut self) -> Result<StreamLink, AttemptError> {
        let Listener { url, bearer, .. } = &self.listener;
        let link = self.dialer.dial_direct(url, bearer.as_ref()).await;
        Ok(direct::over_link(link.map_err(AttemptError::Listener)?).into())
    }

    fn initialize_timeout(&self) -> Duration {
        self.listener.initialize_timeout
    }
}
