//! The executor's side of the registry and the relay: registers, keeps one relay connection, and hands every admitted
//! stream on.
//!
//! One registration serves the whole life of the process: after a lost connection the same URL is dialled again, and if that
//! fails those of the other relays that the registry named. A relay that calls the ticket no good any more (401, 403, 404, 410), or
//! relays that stay out of reach, lead to a new registration, with the same key and the same sessions. `schedule` has the rules.
//! Besides the registry, a file may say who is served.

pub mod direct;
mod error;
mod schedule;
mod tally;
mod turns;
mod validator;
mod wanted;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::reliable::{Config, Pool};
use rendezvous_identity::{AuthorizedHarnesses, Keyring};
use rendezvous_transport::acceptor::{self, Accepted, Streams};
use rendezvous_transport::dial::{DialError, Dialer};
use rendezvous_transport::link::Link;
use rendezvous_transport::registry::{CallError, Client, Registration};
use rendezvous_transport::stream::Backlog;
use rendezvous_wire::id::EnvironmentId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use error::RemoteError;
use schedule::Failure;
use turns::Way;
use validator::RegistryValidator;
pub use wanted::revoked;

use crate::aws::AwsError;
use crate::relays;
use crate::server::{RECEIVED_MEMORY, UNFINISHED_MEMORY, WINDOW_MEMORY};

/// Where and as what the executor serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The environment that it serves.
    pub environment: EnvironmentId,
    /// The registry, with the executor's credential.
    pub registry: Client,
    /// Opens relay connections.
    pub dialer: Dialer,
    /// How long a stream of a harness of ours waits for its harness behind a lost connection, at most
    /// [`MAX_STREAM_GRACE`]. Zero: streams end with their connection, as those of stock harnesses always do.
    pub stream_grace: Duration,
    /// Who the executor is.
    pub keys: Keyring,
    /// The only harnesses that are admitted; without it, all that the registry admits.
    pub authorized: Option<Arc<AuthorizedHarnesses>>,
}

/// Longest time that a stream may wait for its harness.
pub const MAX_STREAM_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether new harnesses can be served; clones watch the same executor.
#[derive(Clone, Debug, Default)]
pub struct Status(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_connected: AtomicBool,
    is_refused: AtomicBool,
}

impl Status {
    /// Whether the relay connection is up.
    pub fn is_connected(&self) -> bool {
        self.0.is_connected.load(Ordering::Relaxed)
    }

    /// Whether the registry took this executor's credential when it was shown last. While it does not, no new harness is
    /// admitted; those that are there stay.
    pub fn is_credential_accepted(&self) -> bool {
        !self.0.is_refused.load(Ordering::Relaxed)
    }

    /// What keeps new harnesses away; for `/readyz`.
    pub fn obstacles(&self) -> Vec<String> {
        let obstacles = [
            (self.is_connected(), "not connected"),
            (
                self.is_credential_accepted(),
                "the registry refuses this executor's credential",
            ),
        ];
        let obstacles = obstacles.into_iter().filter(|(is_well, _)| !is_well);
        obstacles.map(|(_, what)| what.to_owned()).collect()
    }

    fn set_connected(&self, connected: bool) {
        self.0.is_connected.store(connected, Ordering::Relaxed);
        metrics::gauge!("executor_relay_connected").set(f64::from(u8::from(connected)));
    }

    fn set_credential_accepted(&self, accepted: bool) {
        self.0.is_refused.store(!accepted, Ordering::Relaxed);
        metrics::gauge!("executor_credential_accepted").set(f64::from(u8::from(accepted)));
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
pub async fn run(
    options: Options,
    status: Status,
    on_stream: impl FnMut(Accepted),
    on_registered: impl FnMut(&Registration),
    shutdown: CancellationToken,
) -> Result<(), RemoteError> {
    status.set_connected(false);
    status.set_credential_accepted(true);
    let (fingerprint, persistent) = (options.keys.fingerprint(), options.keys.is_persistent());
    tracing::info!(%fingerprint, persistent, earlier = options.keys.previous().len(), "this executor's key");
    let remote = Remote {
        budget: Budget::new(UNFINISHED_MEMORY),
        backlog: Backlog::new(RECEIVED_MEMORY),
        windows: Pool::new(WINDOW_MEMORY),
        options,
        status,
        on_stream,
        on_registered,
        shutdown: shutdown.clone(),
    };
    turns::run(remote, Kept::default(), shutdown).await
}

/// What outlives a relay connection.
#[derive(Default)]
struct Kept {
    /// There are none before the first connection.
    streams: Option<Streams>,
    metrics: tally::Metrics,
}

struct Remote<S, R> {
    options: Options,
    budget: Budget,
    backlog: Backlog,
    windows: Pool,
    status: Status,
    on_stream: S,
    on_registered: R,
    shutdown: CancellationToken,
}

impl<S: FnMut(Accepted), R: FnMut(&Registration)> Way for Remote<S, R> {
    type Place = Registration;
    /// The ticket in the URL is what counts.
    type Signer = ();
    type Kept = Kept;
    const PEER: &'static str = "the relay";

    fn environment(&self) -> &EnvironmentId {
        &self.options.environment
    }

    async fn signer(&mut self) -> Result<(), AwsError> {
        Ok(())
    }

    async fn register(&mut self, (): &()) -> Result<Registration, CallError> {
        let Options {
            registry,
            environment,
            keys,
            ..
        } = &self.options;
        let claim = keys.claim();
        let registering = registry.register_as(environment, keys.current().public(), &claim);
        let mut registration = registering.await?;
        self.status.set_credential_accepted(true);
        relays::leave_out_unusable(&mut registration, &self.options.dialer);
        Ok(registration)
    }

    fn relays(registration: &Registration) -> usize {
        1 + registration.alternatives.len()
    }

    async fn dial(&mut self, registration: &Registration, relay: usize, (): &()) -> Result<Link, DialError> {
        let alternative = relay
            .checked_sub(1)
            .and_then(|number| registration.alternatives.get(number));
        self.options.dialer.dial(alternative.unwrap_or(&registration.url)).await
    }

    fn judge(error: DialError) -> Result<(Failure, DialError), RemoteError> {
        let failure = match &error {
            DialError::Url(_) => return Err(RemoteError::Relay(error)),
            DialError::Connect(cause) if cause.is_configuration() => return Err(RemoteError::Relay(error)),
            error if error.is_ticket_refused() => Failure::TicketRefused,
            _ => Failure::Passing,
        };
        Ok((failure, error))
    }

    fn announce(&mut self, registration: &Registration) {
        (self.on_registered)(registration);
    }

    async fn keep(kept: &mut Kept) -> Infallible {
        match &mut kept.streams {
            Some(streams) => streams.keep(|tally| kept.metrics.update(tally)).await,
            None => std::future::pending().await,
        }
    }

    async fn serve(&mut self, kept: &mut Kept, registration: &Registration, link: Link) {
        self.status.set_connected(true);
        tracing::info!(registration = %registration.id, "relay connection is up");
        let validator = RegistryValidator::new(
            self.options.registry.clone(),
            self.options.environment.clone(),
            registration.id.clone(),
            self.options.authorized.clone(),
            self.status.clone(),
        );
        let streams = kept
            .streams
            .get_or_insert_with(|| Streams::new(self.streams(registration)));
        let on_stream = &mut self.on_stream;
        let on_stream = |accepted: Accepted| {
            metrics::counter!("executor_streams_total").increment(1);
            tracing::info!(stream = %accepted.stream.id(), harness = %accepted.harness_key.fingerprint(), "harness admitted");
            on_stream(accepted);
        };
        let on_tally = |tally: &_| kept.metrics.update(tally);
        let (id, validator) = (registration.id.clone(), Arc::new(validator));
        let stop = self.shutdown.cancelled();
        let end = streams.serve(link, id, validator, on_stream, on_tally, stop).await;
        self.status.set_connected(false);
        if let Err(error) = end {
            metrics::counter!("executor_disconnects_total", "reason" => error.kind()).increment(1);
            tracing::warn!(reason = error.kind(), error = %chain(&*error), "relay connection is lost");
        }
    }
}

impl<S, R> Remote<S, R> {
    fn streams(&self, registration: &Registration) -> acceptor::Options {
        let grace = self.options.stream_grace.min(MAX_STREAM_GRACE);
        acceptor::Options {
            identity: self.options.keys.current().clone(),
            previous: self.options.keys.previous().to_vec(),
            environment: self.options.environment.clone(),
            registration: registration.id.clone(),
            budget: self.budget.clone(),
            backlog: self.backlog.clone(),
            offer: (!grace.is_zero()).then(|| Config {
                pool: self.windows.clone(),
                grace,
            }),
        }
    }
}

/// Answers that a working registry does not give: another server in its place, or a certificate that ran out. A proxy's refusals
/// count among them.
fn is_registrys_fault(error: &CallError) -> bool {
    match error {
        CallError::Tls(_) | CallError::TooLarge | CallError::Malformed(_) | CallError::Mismatch(_) => true,
        CallError::Connect(error) => !error.is_configuration(),
        error => error.status().is_some_and(|status| status.is_redirection()),
    }
}

/// Somebody has the environment. While we hold a place there, that may be the connection which we have lost already and the
/// registry not yet.
fn is_conflict(error: &CallError) -> bool {
    error.status() == Some(StatusCode::CONFLICT)
}

/// The clock of the runtime.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

fn random() -> u64 {
    // Without randomness the delays only lose their spread.
    getrandom::u64().unwrap_or_default()
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
