//! Serving without relay and channel: the executor registers, dials a WebSocket that the registry names, and answers
//! JSON-RPC on it. Both requests are signed; the rules are in `proto/README.md`, "Serving by dialling out".

use std::convert::Infallible;

use bytes::Bytes;
use rendezvous_transport::dial::{DialError, Dialer};
use rendezvous_transport::direct;
use rendezvous_transport::link::Link;
use rendezvous_transport::registry::{CallError, DirectClient, DirectRegistration};
use rendezvous_transport::stream::{MessageReceiver, StreamEnd};
use rendezvous_wire::id::EnvironmentId;
use tokio_util::sync::CancellationToken;

use super::schedule::Failure;
use super::turns::{self, Way};
use super::{RemoteError, Status, chain};
use crate::aws::{Aws, AwsError, SigV4};
use crate::server::{Server, Source};

/// Where and as what the executor serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The environment that it serves.
    pub environment: EnvironmentId,
    /// The registry.
    pub registry: DirectClient,
    /// Opens the connections to serve on.
    pub dialer: Dialer,
    /// Who signs.
    pub aws: Aws,
}

/// Serves with `server` until `shutdown`; `on_registered` is told each registration once, when its connection is up.
///
/// Failures that may pass are retried for ever, with a line in the log each time. Sessions outlive connections.
///
/// # Errors
///
/// What only a person can mend.
pub async fn run(
    options: Options,
    status: Status,
    server: &Server,
    on_registered: impl FnMut(&DirectRegistration),
    shutdown: CancellationToken,
) -> Result<(), RemoteError> {
    status.set_connected(false);
    let direct = Direct {
        options,
        status,
        server,
        on_registered,
        shutdown: shutdown.clone(),
    };
    turns::run(direct, (), shutdown).await
}

struct Direct<'a, R> {
    options: Options,
    status: Status,
    server: &'a Server,
    on_registered: R,
    shutdown: CancellationToken,
}

impl<R: FnMut(&DirectRegistration)> Way for Direct<'_, R> {
    type Place = DirectRegistration;
    type Signer = SigV4;
    /// A connection is a stream here.
    type Kept = ();
    const PEER: &'static str = "the registered server";

    fn environment(&self) -> &EnvironmentId {
        &self.options.environment
    }

    /// Anew for each turn: credentials are renewed behind our back.
    async fn signer(&mut self) -> Result<SigV4, AwsError> {
        self.options.aws.signer().await
    }

    async fn register(&mut self, signer: &SigV4) -> Result<DirectRegistration, CallError> {
        self.options.registry.register(&self.options.environment, signer).await
    }

    fn relays(_registration: &DirectRegistration) -> usize {
        1
    }

    async fn dial(
        &mut self,
        registration: &DirectRegistration,
        _relay: usize,
        signer: &SigV4,
    ) -> Result<Link, DialError> {
        self.options.dialer.dial_signed(&registration.url, signer).await
    }

    fn judge(error: DialError) -> Result<(Failure, DialError), RemoteError> {
        let failure = match &error {
            DialError::Url(_) | DialError::Sign(_) => return Err(RemoteError::Relay(error)),
            DialError::Connect(cause) if cause.is_configuration() => return Err(RemoteError::Relay(error)),
            DialError::Refused { status: 409, .. } => Failure::TicketRefused,
            DialError::Refused { status: 408 | 429, .. } => Failure::Passing,
            DialError::Refused { status: 400..=499, .. } => return Err(RemoteError::Refused(error)),
            _ => Failure::Passing,
        };
        Ok((failure, error))
    }

    fn announce(&mut self, registration: &DirectRegistration) {
        (self.on_registered)(registration);
    }

    async fn keep((): &mut ()) -> Infallible {
        std::future::pending().await
    }

    async fn serve(&mut self, (): &mut (), registration: &DirectRegistration, link: Link) {
        self.status.set_connected(true);
        tracing::info!(registration = %registration.id, "connection is up");
        let (sender, mut receiver) = direct::over_link(link).split();
        let mut inlet = Inlet {
            receiver: &mut receiver,
            end: None,
        };
        tokio::select! {
            () = self.server.serve_stream(sender, &mut inlet) => {}
            () = self.shutdown.cancelled() => {}
        }
        self.status.set_connected(false);
        match inlet.end {
            Some(StreamEnd::Disconnected(error)) => {
                metrics::counter!("executor_disconnects_total", "reason" => error.kind()).increment(1);
                tracing::warn!(reason = error.kind(), error = %chain(&*error), "connection is lost");
            }
            Some(end) => tracing::warn!(error = %chain(&end), "connection is lost"),
            None if self.shutdown.is_cancelled() => {}
            None => tracing::warn!("connection is closed, because the client broke the protocol"),
        }
        // With a close frame, behind what was sent before.
        receiver.close().await;
    }
}

/// The messages of a connection; remembers why there are no more.
struct Inlet<'a> {
    receiver: &'a mut MessageReceiver,
    end: Option<StreamEnd>,
}

impl Source for &mut Inlet<'_> {
    async fn recv(&mut self) -> Option<Bytes> {
        match self.receiver.recv().await? {
            Ok(message) => Some(message),
            Err(end) => {
                self.end = Some(end);
                None
            }
        }
    }
}
