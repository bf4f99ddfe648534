//! One attempt to reach an executor, in each of the ways that there are.
//!
//! Through a relay: a fresh way from the registry, a WebSocket to the relay, an end-to-end channel to the executor.

mod listener;
mod program;
mod way_back;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use rendezvous_channel::Identity;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::reliable::{Config, MAX_WINDOW, Pool};
use rendezvous_channel::stream::Target;
use rendezvous_transport::connector;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::registry;
use rendezvous_transport::stream::{self, Continuity, MessageReceiver, MessageSender, MessageStream, Offer, StreamEnd};
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::limits::{MAX_MESSAGE, REORDER_BYTES};
use tokio::sync::watch;

pub(crate) use self::listener::ListenerConnector;
pub(crate) use self::program::ProgramConnector;
pub use self::program::ProgramError;
use self::way_back::WayBack;
use crate::error::{AttemptError, HarnessError};
use crate::options::Options;
use crate::session::core::Peer;
use crate::session::driver::{Connector, Link};
use crate::trust::{Guard, own_key};

/// Memory for one unfinished message and what arrives too early.
const BUDGET: usize = MAX_MESSAGE + REORDER_BYTES;
/// Memory for the windows of a reliable stream: each of the two may have half of what the other leaves.
const WINDOWS: usize = 4 * MAX_WINDOW;

/// Connects through registry and relay. Its key lives as long as the session.
pub(crate) struct RelayConnector {
    registry: registry::Client,
    dialer: Dialer,
    identity: Identity,
    /// Whether the key outlives the session.
    is_lasting: bool,
    guard: Guard,
    environment: EnvironmentId,
    budget: Budget,
    windows: Pool,
    stream_grace: Duration,
}

impl RelayConnector {
    pub(crate) fn new(options: Options) -> Result<Self, HarnessError> {
        let connector = connector::Connector::from_env(options.ca_file.as_deref())?;
        Ok(Self {
            registry: client(&options, connector.clone())?,
            dialer: Dialer::new(connector, options.clear_text),
            identity: own_key(options.identity.as_ref()),
            is_lasting: options.identity.is_some(),
            guard: Guard::new(options.executors, options.registry.as_str(), &options.environment),
            environment: options.environment,
            budget: Budget::new(BUDGET),
            windows: Pool::new(WINDOWS),
            stream_grace: options.stream_grace,
        })
    }

    /// What a failed handshake means.
    fn failed(&mut self, end: StreamEnd) -> AttemptError {
        if end.is_not_listed() {
            return AttemptError::NotListed {
                key: self.identity.public().fingerprint(),
                is_lasting: self.is_lasting,
            };
        }
        self.guard.failed(end)
    }
}

/// Calls the registry of these options.
pub(crate) fn registry_client(options: &Options) -> Result<registry::Client, HarnessError> {
    client(options, connector::Connector::from_env(options.ca_file.as_deref())?)
}

fn client(options: &Options, connector: connector::Connector) -> Result<registry::Client, HarnessError> {
    Ok(registry::Client::new(&registry::Options {
        url: options.registry.clone(),
        credential: options.token.clone(),
        account: options.account.clone(),
        connector,
    })?)
}

impl Connector for RelayConnector {
    type Link = StreamLink;

    async fn connect(&mut self) -> Result<StreamLink, AttemptError> {
        let bundle = self.registry.connect(&self.environment, self.identity.public()).await?;
        let key = self.guard.choose(&bundle).await?;
        let link = self.dialer.dial(&bundle.url).await?;
        let target = Target {
            environment: &self.environment,
            registration: &bundle.registration,
            executor_key: &key,
            authorization: &bundle.authorization,
        };
        if self.stream_grace.is_zero() {
            let stream = stream::connect(link, &self.identity, &target, &self.budget).await;
            return Ok(stream.map_err(|end| self.failed(end))?.into());
        }
        let offer = Offer {
            config: Config {
                pool: self.windows.clone(),
                grace: self.stream_grace,
            },
            redial: WayBack {
                registry: self.registry.clone(),
                dialer: self.dialer.clone(),
                environment: self.environment.clone(),
                own_key: self.identity.public().clone(),
                executor_key: bundle.executor_key.clone(),
                registration: bundle.registration.clone(),
                found: None,
            },
        };
        let stream = stream::connect_reliable(link, &self.identity, &target, &self.budget, offer).await;
        Ok(stream.map_err(|end| self.failed(end))?.into())
    }

    async fn confirm(&mut self, peer: &mut Peer) -> Result<(), AttemptError> {
        self.guard.confirm(peer.extensions.identity().as_ref()).await?;
        peer.key = self.guard.taken();
        Ok(())
    }
}

/// An open stream of messages to the executor.
pub(crate) struct StreamLink {
    sender: MessageSender,
    receiver: MessageReceiver,
}

impl From<MessageStream> for StreamLink {
    fn from(stream: MessageStream) -> Self {
        let (sender, receiver) = stream.split();
        Self { sender, receiver }
    }
}

impl StreamLink {
    async fn send_all(&self, outbox: &mut VecDeque<Bytes>) -> Result<(), StreamEnd> {
        while let Some(message) = outbox.front() {
            self.sender.send(message.clone()).await?;
            outbox.pop_front();
        }
        Ok(())
    }
}

impl Link for StreamLink {
    async fn exchange(&mut self, outbox: &mut VecDeque<Bytes>, take: bool) -> Result<Bytes, AttemptError> {
        let Self { sender, receiver } = self;
        let sending = async {
            while let Some(message) = outbox.front() {
                sender.send(message.clone()).await?;
                outbox.pop_front();
            }
            std::future::pending::<Result<Bytes, StreamEnd>>().await
        };
        let receiving = async {
            if take {
                receiver.recv().await
            } else {
                std::future::pending().await
            }
        };
        let result = tokio::select! {
            biased;
            failed = sending => match failed {
                // The receiver knows why.
                Err(StreamEnd::Closed | StreamEnd::Stopped) => receiver.recv().await.unwrap_or(Err(StreamEnd::Stopped)),
                result => result,
            },
            received = receiving => received.unwrap_or(Err(StreamEnd::Stopped)),
        };
        Ok(result?)
    }

    fn continuity(&self) -> Option<watch::Receiver<Continuity>> {
        Some(self.sender.continuity())
    }

    fn settle(&self, agreed: bool) {
        self.sender.settle(agreed);
    }

    async fn close(self, mut outbox: VecDeque<Bytes>) {
        if self.send_all(&mut outbox).await.is_ok() {
            self.receiver.close().await;
        }
    }
}
