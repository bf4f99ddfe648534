//! The control connection of a relay that runs as its own process.

mod dial;

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_connect::backoff::Backoff;
use rendezvous_connect::wake;
use rendezvous_wire::control::{FromRelay, ToRelay};
use rendezvous_wire::limits::PRESENCE_LEASE;
use rendezvous_wire::reason::{self, close};
use rendezvous_wire::secret::Secret;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{CHANNEL, ControlChannel};
use crate::server::Relay;
use dial::WebSocket;

pub use dial::{DialError, Registry, RegistryError};

/// First and longest pause between two attempts; each is drawn from its upper half. The registry believes in a relay for
/// [`PRESENCE_LEASE`] only.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), PRESENCE_LEASE);
/// Longest time for one message to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two pings to the registry; after twice that without a word the connection is given up.
const PING: Duration = Duration::from_secs(5);

/// Longest goodbye to the registry.
const FAREWELL: Duration = Duration::from_secs(2);
/// After so long without a message there is nothing left to tell.
const QUIET: Duration = Duration::from_millis(100);

/// Where the registry is and how to speak to it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Base URL.
    pub registry: Url,
    /// The relay's credential.
    pub credential: Secret,
    /// PEM file of a further certification authority.
    pub ca_file: Option<PathBuf>,
    /// Whether the credential may go over clear text to another machine.
    pub allow_insecure: bool,
}

/// Why one connection ended. All but the relay's own stop are worth another attempt.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("no control connection could be opened")]
    Dial(#[from] DialError),
    #[error("the control connection broke")]
    Broken(#[from] WsError),
    #[error("the registry ended the control connection")]
    Closed,
    #[error("the relay stops")]
    Stopped,
    #[error("the registry does not answer")]
    Silent,
    #[error("this machine slept for {0:?}, and the registry has forgotten it")]
    Slept(Duration),
    #[error("the registry sent a malformed message")]
    Malformed(#[from] serde_json::Error),
}

/// Keeps `relay` connected to its registry until `stop`.
///
/// # Errors
///
/// The registry, or a proxy, refused the credential of a relay that has never been welcomed, or its configuration cannot work.
/// Later refusals are waited out: live streams go on, and the operator may give the credential its rights back.
pub async fn run(relay: Relay, registry: Registry, stop: CancellationToken) -> Result<(), DialError> {
    let mut backoff = Backoff::between(BACKOFF.0, BACKOFF.1);
    // Live streams and last known keys are there once the registry has welcomed the relay, and not before.
    let mut was_welcome = false;
    loop {
        let started = Instant::now();
        let Err(ended) = connection(&relay, &registry, &stop).await;
        if stop.is_cancelled() {
            return Ok(());
        }
        was_welcome |= relay.is_ready();
        let ended = match ended {
            Ended::Dial(error) if !was_welcome && error.is_final() => return Err(error),
            ended => ended,
        };
        backoff.lasted(started.elapsed());
        let wait = backoff.delay(random());
        tell(&ended, registry.origin(), was_welcome, wait);
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = wake::sleep(wait) => {}
        }
    }
}

/// Says what failed, and what that means.
fn tell(ended: &Ended, registry: &str, was_welcome: bool, wait: Duration) {
    let error: &dyn std::error::Error = ended;
    if was_welcome {
        tracing::warn!(error, ?wait, "no control connection; live streams go on");
    } else {
        tracing::warn!(
            error,
            registry,
            ?wait,
            "nobody can use this relay before it has reached its registry"
        );
    }
}

/// Random where it counts: the lowest bits say that the number is random.
fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

async fn connection(relay: &Relay, registry: &Registry, stop: &CancellationToken) -> Result<Infallible, Ended> {
    let socket = tokio::select! {
        () = stop.cancelled() => return Err(Ended::Stopped),
        socket = registry.dial() => socket?,
    };
    tracing::info!(registry = registry.origin(), "control connection is up");
    let (to_registry, outgoing) = mpsc::channel(CHANNEL);
    let (incoming, from_registry) = mpsc::channel(CHANNEL);
    let channel = ControlChannel {
        to_registry,
        from_registry,
    };
    tokio::select! {
        () = relay.clone().attach(channel) => Err(Ended::Closed),
        result = pump(socket, outgoing, incoming, stop) => result,
    }
}

/// Carries messages between the socket and the channels.
async fn pump(
    mut socket: WebSocket,
    mut outgoing: mpsc::Receiver<FromRelay>,
    incoming: mpsc::Sender<ToRelay>,
    stop: &CancellationToken,
) -> Result<Infallible, Ended> {
    let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
    let mut heard = Instant::now();
    let mut woken = pin!(wake::woken());
    loop {
        let message = tokio::select! {
            () = stop.cancelled() => {
                // A registry that does not take it learns the same when the lease ends.
                let _ = timeout(FAREWELL, farewell(socket, outgoing)).await;
                return Err(Ended::Stopped);
            }
            message = socket.next() => {
                heard = Instant::now();
                if let Some(message) = understand(message)? {
                    incoming.send(message).await.map_err(|_| Ended::Closed)?;
                }
                continue;
            }
            message = outgoing.recv() => Message::text(serde_json::to_string(&message.ok_or(Ended::Closed)?)?),
            slept = &mut woken => {
                if slept >= PRESENCE_LEASE {
                    return Err(Ended::Slept(slept));
                }
                woken.set(wake::woken());
                Message::Ping(Bytes::new())
            }
            _ = ping.tick() => {
                if heard.elapsed() > 2 * PING {
                    return Err(Ended::Silent);
                }
                Message::Ping(Bytes::new())
            }
        };
        timeout(WRITE_TIMEOUT, socket.send(message))
            .await
            .map_err(|_| Ended::Silent)??;
    }
}

/// Tells what is still to be told, the executors that left among it, and closes.
async fn farewell(mut socket: WebSocket, mut outgoing: mpsc::Receiver<FromRelay>) -> Result<(), Ended> {
    while let Ok(Some(message)) = timeout(QUIET, outgoing.recv()).await {
        socket.send(Message::text(serde_json::to_string(&message)?)).await?;
    }
    let frame = CloseFrame {
        code: close::GOING_AWAY.into(),
        reason: reason::DRAINING.into(),
    };
    socket.close(Some(frame)).await?;
    while socket.next().await.is_some_and(|message| message.is_ok()) {}
    Ok(())
}

fn understand(message: Option<Result<Message, WsError>>) -> Result<Option<ToRelay>, Ended> {
    match message {
        None | Some(Ok(Message::Close(_))) => Err(Ended::Closed),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
            Ok(message) => Ok(Some(message)),
            // A kind of message that only a newer registry sends.
            Err(error) if error.is_data() => {
                tracing::debug!(%error, "control message not understood");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        },
        Some(Ok(_)) => Ok(None),
    }
}
