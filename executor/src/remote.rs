//! The executor's side of the registry and the relay: registers, keeps one relay connection, and hands every admitted
//! stream on.
//!
//! One registration serves the whole life of the process: after a lost connection the same URL is dialled again. Only a
//! relay that calls the ticket no good any more (401, 403, 404, 410) leads to a new registration, with the same key.

mod error;
mod validator;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::Identity;
use rendezvous_channel::budget::Budget;
use rendezvous_transport::acceptor::{self, Accepted};
use rendezvous_transport::backoff::Backoff;
use rendezvous_transport::dial::{DialError, Dialer};
use rendezvous_transport::link::Link;
use rendezvous_transport::registry::{CallError, Client, Registration};
use rendezvous_wire::id::EnvironmentId;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub use error::RemoteError;
use validator::RegistryValidator;

/// Memory that unfinished messages and early records of all streams may occupy together.
pub const STREAM_MEMORY: usize = 256 * 1024 * 1024;

/// Where and as what the executor serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The environment that it serves.
    pub environment: EnvironmentId,
    /// The registry, with the executor's credential.
    pub registry: Client,
    /// Opens relay connections.
    pub dialer: Dialer,
}

/// Whether the relay connection is up; clones watch the same executor.
#[derive(Clone, Debug, Default)]
pub struct Status(Arc<AtomicBool>);

impl Status {
    /// Whether harnesses can reach this executor now.
    pub fn is_connected(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, connected: bool) {
        self.0.store(connected, Ordering::Relaxed);
        metrics::gauge!("executor_relay_connected").set(if connected { 1.0 } else { 0.0 });
    }
}

/// Serves until `shutdown`. Every admitted stream goes to `on_stream`; `on_registered` is told each registration once,
/// when its relay connection is up.
///
/// Failures that may pass are retried for ever, with a line in the log each time.
///
/// # Errors
///
/// What only a person can mend.
///
/// # Panics
///
/// If the system gives no random numbers.
pub async fn run(
    options: Options,
    status: Status,
    on_stream: impl FnMut(Accepted),
    on_registered: impl FnMut(&Registration),
    shutdown: CancellationToken,
) -> Result<(), RemoteError> {
    let mut remote = Remote {
        identity: Identity::generate(&mut UnwrapErr(SysRng)),
        budget: Budget::new(STREAM_MEMORY),
        options,
        status,
        on_stream,
        on_registered,
        shutdown: shutdown.clone(),
        is_settled: false,
    };
    remote.run().await
}

struct Remote<S, R> {
    options: Options,
    identity: Identity,
    budget: Budget,
    status: Status,
    on_stream: S,
    on_registered: R,
    shutdown: CancellationToken,
    /// A registration succeeded before: the configuration is right, so that more can be hoped to pass.
    is_settled: bool,
}

impl<S: FnMut(Accepted), R: FnMut(&Registration)> Remote<S, R> {
    async fn run(&mut self) -> Result<(), RemoteError> {
        let mut backoff = Backoff::new();
        let mut place = None;
        loop {
            let Some((registration, link)) = self.connect(&mut place, &mut backoff).await? else {
                return Ok(());
            };
            let start = Instant::now();
            self.serve(&registration, link).await;
            backoff.lasted(start.elapsed());
            if self.shutdown.is_cancelled() {
                return Ok(());
            }
            let delay = backoff.delay(random());
            tracing::info!(?delay, "connecting to the relay again");
            if self.pause(delay).await {
                return Ok(());
            }
        }
    }

    /// A relay connection, or nothing at the shutdown.
    async fn connect(
        &mut self,
        place: &mut Option<Place>,
        backoff: &mut Backoff,
    ) -> Result<Option<(Registration, Link)>, RemoteError> {
        let shutdown = self.shutdown.clone();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(None),
            connected = self.connect_uninterrupted(place, backoff) => connected.map(Some),
        }
    }

    async fn connect_uninterrupted(
        &mut self,
        place: &mut Option<Place>,
        backoff: &mut Backoff,
    ) -> Result<(Registration, Link), RemoteError> {
        loop {
            let current = match place.as_mut() {
                Some(place) => place,
                None => place.insert(Place {
                    registration: self.register().await?,
                    was_up: false,
                }),
            };
            let error = match self.options.dialer.dial(&current.registration.url).await {
                Ok(link) => {
                    if !current.was_up {
                        current.was_up = true;
                        (self.on_registered)(&current.registration);
                    }
                    metrics::counter!("executor_relay_connections_total", "result" => "up").increment(1);
                    return Ok((current.registration.clone(), link));
                }
                Err(error) => error,
            };
            metrics::counter!("executor_relay_connections_total", "result" => "failed").increment(1);
            if let DialError::Url(_) | DialError::Trust(_) = error {
                return Err(RemoteError::Relay(error));
            }
            let spoiled = error.is_ticket_refused();
            if spoiled && current.was_up {
                tracing::info!(%error, "registering again");
                *place = None;
                continue;
            }
            // A relay that refuses a ticket which the registry has just made would otherwise be asked without pause.
            let delay = backoff.delay(random()).max(error.retry_after().unwrap_or_default());
            tracing::warn!(error = %chain(&error), ?delay, "cannot connect to the relay, trying again");
            if spoiled {
                *place = None;
            }
            sleep(delay).await;
        }
    }

    async fn register(&mut self) -> Result<Registration, RemoteError> {
        let mut backoff = Backoff::new();
        loop {
            let environment = &self.options.environment;
            let error = match self
                .options
                .registry
                .register(environment, self.identity.public())
                .await
            {
                Ok(registration) => {
                    metrics::counter!("executor_registrations_total", "result" => "ok").increment(1);
                    self.is_settled = true;
                    return Ok(registration);
                }
                Err(error) => error,
            };
            metrics::counter!("executor_registrations_total", "result" => "failed").increment(1);
            if !(error.is_retryable() || self.is_settled && is_registrys_fault(&error)) {
                return Err(RemoteError::Register {
                    environment: environment.clone(),
                    source: error,
                });
            }
            let delay = backoff.delay(random()).max(error.retry_after().unwrap_or_default());
            tracing::warn!(error = %chain(&error), ?delay, "cannot register, trying again");
            sleep(delay).await;
        }
    }

    async fn serve(&mut self, registration: &Registration, link: Link) {
        self.status.set(true);
        tracing::info!(registration = %registration.id, "relay connection is up");
        let validator = RegistryValidator::new(
            self.options.registry.clone(),
            self.options.environment.clone(),
            registration.id.clone(),
        );
        let options = acceptor::Options {
            identity: self.identity.clone(),
            environment: self.options.environment.clone(),
            registration: registration.id.clone(),
            budget: self.budget.clone(),
        };
        let on_stream = &mut self.on_stream;
        let on_stream = |accepted: Accepted| {
            metrics::counter!("executor_streams_total").increment(1);
            tracing::info!(stream = %accepted.stream.id(), harness = %accepted.harness_key.digest(), "harness admitted");
            on_stream(accepted);
        };
        let shutdown = self.shutdown.clone();
        let end = acceptor::serve(link, options, Arc::new(validator), on_stream, shutdown.cancelled()).await;
        self.status.set(false);
        if let Err(error) = end {
            metrics::counter!("executor_disconnects_total", "reason" => error.kind()).increment(1);
            tracing::warn!(reason = error.kind(), error = %chain(&*error), "relay connection is lost");
        }
    }

    /// Waits; true at the shutdown.
    async fn pause(&self, delay: Duration) -> bool {
        tokio::select! {
            () = self.shutdown.cancelled() => true,
            () = sleep(delay) => false,
        }
    }
}

/// A registration, and whether its URL ever worked.
struct Place {
    registration: Registration,
    was_up: bool,
}

/// Answers that a working registry does not give: another server in its place, or a certificate that ran out.
fn is_registrys_fault(error: &CallError) -> bool {
    match error {
        CallError::Tls(_) | CallError::TooLarge | CallError::Malformed(_) | CallError::Mismatch(_) => true,
        error => error.status().is_some_and(|status| status.is_redirection()),
    }
}

fn random() -> u64 {
    // Without randomness the delays only lose their spread.
    getrandom::u64().unwrap_or_default()
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
