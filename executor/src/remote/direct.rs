//! Serving without relay and channel: the executor registers, dials a WebSocket that the registry names, and answers
//! JSON-RPC on it. Both requests are signed; the rules are in `proto/README.md`, "Serving by dialling out".

use bytes::Bytes;
use rendezvous_transport::dial::{DialError, Dialer};
use rendezvous_transport::direct;
use rendezvous_transport::link::Link;
use rendezvous_transport::registry::{CallError, DirectClient, DirectRegistration};
use rendezvous_transport::stream::{MessageReceiver, StreamEnd};
use rendezvous_wire::id::EnvironmentId;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::schedule::{Failure, Next, Schedule, Turn};
use super::{RemoteError, Status, chain, is_conflict, is_registrys_fault, now, random};
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
    status.set(false);
    let mut direct = Direct {
        options,
        status,
        server,
        on_registered,
        shutdown,
        registration: None,
    };
    direct.run().await
}

struct Direct<'a, R> {
    options: Options,
    status: Status,
    server: &'a Server,
    on_registered: R,
    shutdown: CancellationToken,
    /// The last one. Once there was one the configuration is right, so that more can be hoped to pass.
    registration: Option<DirectRegistration>,
}

/// What a turn led to.
enum Outcome {
    Up(Box<Link>),
    Down(Next),
}

impl<R: FnMut(&DirectRegistration)> Direct<'_, R> {
    async fn run(&mut self) -> Result<(), RemoteError> {
        let shutdown = self.shutdown.clone();
        let (mut schedule, mut next) = Schedule::new(now());
        loop {
            let outcome = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                outcome = self.take_turn(&mut schedule, next) => outcome?,
            };
            next = match outcome {
                Outcome::Down(next) => next,
                Outcome::Up(link) => {
                    let start = Instant::now();
                    self.serve(*link).await;
                    if shutdown.is_cancelled() {
                        return Ok(());
                    }
                    let next = schedule.lost(now(), start.elapsed(), random());
                    tracing::info!(delay = ?next.pause, "connecting again");
                    next
                }
            };
        }
    }

    async fn take_turn(&mut self, schedule: &mut Schedule, next: Next) -> Result<Outcome, RemoteError> {
        sleep(next.pause).await;
        let signer = match self.options.aws.signer().await {
            Ok(signer) => signer,
            Err(error) => return self.unsigned(schedule, next.turn, error),
        };
        match (next.turn, self.registration.clone()) {
            (Turn::Dial, Some(registration)) => self.dial(schedule, &registration, &signer).await,
            (Turn::Dial, None) | (Turn::Register, _) => self.register(schedule, &signer).await.map(Outcome::Down),
        }
    }

    /// The identity worked before: whoever renews it may be late.
    fn unsigned(&self, schedule: &mut Schedule, turn: Turn, error: AwsError) -> Result<Outcome, RemoteError> {
        if self.registration.is_none() {
            return Err(RemoteError::Aws(error));
        }
        let none = std::time::Duration::ZERO;
        let next = match turn {
            Turn::Register => schedule.register_failed(now(), none, random()),
            Turn::Dial => schedule.dial_failed(now(), Failure::Passing, none, random()),
        };
        tracing::warn!(error = %chain(&error), delay = ?next.pause, "no AWS credentials, trying again");
        Ok(Outcome::Down(next))
    }

    async fn dial(
        &mut self,
        schedule: &mut Schedule,
        registration: &DirectRegistration,
        signer: &SigV4,
    ) -> Result<Outcome, RemoteError> {
        let error = match self.options.dialer.dial_signed(&registration.url, signer).await {
            Ok(link) => {
                if schedule.connected() {
                    (self.on_registered)(registration);
                }
                metrics::counter!("executor_relay_connections_total", "result" => "up").increment(1);
                tracing::info!(registration = %registration.id, "connection is up");
                return Ok(Outcome::Up(Box::new(link)));
            }
            Err(error) => error,
        };
        metrics::counter!("executor_relay_connections_total", "result" => "failed").increment(1);
        let failure = match &error {
            DialError::Url(_) | DialError::Trust(_) | DialError::Sign(_) => return Err(RemoteError::Relay(error)),
            DialError::Refused { status: 409, .. } => Failure::TicketRefused,
            DialError::Refused { status: 408 | 429, .. } => Failure::Passing,
            DialError::Refused { status: 400..=499, .. } => return Err(RemoteError::Refused(error)),
            _ => Failure::Passing,
        };
        let retry_after = error.retry_after().unwrap_or_default();
        let next = schedule.dial_failed(now(), failure, retry_after, random());
        let (delay, error) = (next.pause, chain(&error));
        match next.turn {
            Turn::Dial => tracing::warn!(error, ?delay, "cannot connect, trying again"),
            Turn::Register => tracing::warn!(error, ?delay, "cannot connect, registering again"),
        }
        Ok(Outcome::Down(next))
    }

    async fn register(&mut self, schedule: &mut Schedule, signer: &SigV4) -> Result<Next, RemoteError> {
        let environment = &self.options.environment;
        let error = match self.options.registry.register(environment, signer).await {
            Ok(registration) => {
                metrics::counter!("executor_registrations_total", "result" => "ok").increment(1);
                self.registration = Some(registration);
                return Ok(schedule.registered(now(), random()));
            }
            Err(error) => error,
        };
        metrics::counter!("executor_registrations_total", "result" => "failed").increment(1);
        if !self.passes(schedule, &error) {
            return Err(RemoteError::Register {
                environment: environment.clone(),
                source: error,
            });
        }
        let retry_after = error.retry_after().unwrap_or_default();
        let next = schedule.register_failed(now(), retry_after, random());
        tracing::warn!(error = %chain(&error), delay = ?next.pause, "cannot register, trying again");
        Ok(next)
    }

    fn passes(&self, schedule: &Schedule, error: &CallError) -> bool {
        error.is_retryable()
            || self.registration.is_some() && is_registrys_fault(error)
            || schedule.has_place() && is_conflict(error)
    }

    async fn serve(&mut self, link: Link) {
        self.status.set(true);
        let (sender, mut receiver) = direct::over_link(link).split();
        let mut inlet = Inlet {
            receiver: &mut receiver,
            end: None,
        };
        tokio::select! {
            () = self.server.serve_stream(sender, &mut inlet) => {}
            () = self.shutdown.cancelled() => {}
        }
        self.status.set(false);
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
