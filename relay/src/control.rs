//! What the registry and the relay tell each other.
//!
//! The messages are the same for an embedded relay, whose registry holds the other end of a [`ControlChannel`], and for a
//! relay of its own, where [`client`] carries them over a WebSocket. While nobody is at the other end, live streams go on
//! and the last known keys and revocations hold.

pub mod client;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rendezvous_wire::control::{FromRelay, RENEW_SECONDS, ToRelay};
use rendezvous_wire::id::RegistrationId;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::server::Relay;
use crate::ticket::KeySet;

/// How long an executor may take to answer a probe.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Probes at once; more are answered "not alive" at once.
pub const MAX_PROBES: usize = 256;
/// A good length for the channels of a [`ControlChannel`].
pub const CHANNEL: usize = 256;

/// The relay's ends of the channels between it and its registry.
#[derive(Debug)]
pub struct ControlChannel {
    /// To the registry.
    pub to_registry: mpsc::Sender<FromRelay>,
    /// From the registry.
    pub from_registry: mpsc::Receiver<ToRelay>,
}

/// Serves one channel until the registry's end is gone.
pub(crate) async fn run(relay: &Relay, mut channel: ControlChannel) {
    let hub = relay.hub();
    hub.metrics.control(true);
    let mut probes = JoinSet::new();
    let mut renew = interval(Duration::from_secs(RENEW_SECONDS));
    renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut draining = false;
    if tell_everything(relay, &channel).await.is_ok() {
        loop {
            let alive = tokio::select! {
                message = channel.from_registry.recv() => match message {
                    Some(message) => {
                        take(relay, message, &mut probes);
                        true
                    }
                    None => false,
                },
                () = hub.told.notified() => {
                    let told = tell_events(relay, &channel).await.is_ok();
                    // The registry stops sending harnesses here as soon as it knows.
                    if told && relay.is_draining() && !draining {
                        draining = true;
                        channel.to_registry.send(renewal(relay)).await.is_ok()
                    } else {
                        told
                    }
                }
                _ = renew.tick() => channel.to_registry.send(renewal(relay)).await.is_ok(),
                Some(result) = probes.join_next() => match result {
                    Ok((probe, alive)) => channel.to_registry.send(FromRelay::ProbeResult { probe, alive }).await.is_ok(),
                    Err(_) => true,
                },
            };
            if !alive {
                break;
            }
        }
    }
    hub.metrics.control(false);
}

/// The registry's end is gone.
#[derive(Debug)]
struct Gone;

async fn send(channel: &ControlChannel, message: FromRelay) -> Result<(), Gone> {
    channel.to_registry.send(message).await.map_err(|_| Gone)
}

async fn tell_everything(relay: &Relay, channel: &ControlChannel) -> Result<(), Gone> {
    let hello = FromRelay::Hello {
        boot_id: relay.boot_id().clone(),
        public_url: relay.hub().config.public_url.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    send(channel, hello).await?;
    for presence in relay.hub().presences() {
        send(channel, FromRelay::ExecutorUp(presence)).await?;
    }
    tell_events(relay, channel).await
}

async fn tell_events(relay: &Relay, channel: &ControlChannel) -> Result<(), Gone> {
    loop {
        match relay.hub().next_event() {
            Ok(Some(event)) => send(channel, event).await?,
            Ok(None) => return Ok(()),
            // A new hello makes the registry forget what it was told before.
            Err(_) => Box::pin(tell_everything(relay, channel)).await?,
        }
    }
}

fn renewal(relay: &Relay) -> FromRelay {
    let (executors, _) = relay.connections();
    relay
        .hub()
        .metrics
        .queued
        .set(relay.hub().totals.queued.load(Ordering::Relaxed) as f64);
    FromRelay::Renew {
        executors: executors as u64,
        accepting: !relay.is_draining(),
    }
}

fn take(relay: &Relay, message: ToRelay, probes: &mut JoinSet<(u64, bool)>) {
    let now = Instant::now();
    let hub = relay.hub();
    match message {
        ToRelay::Welcome { keys, revoked } => {
            // Before the keys, without which nobody is let in.
            hub.core(|core| core.set_revoked(&revoked, now));
            relay.set_keys(KeySet::new(&keys));
        }
        ToRelay::Keys { keys } => relay.set_keys(KeySet::new(&keys)),
        ToRelay::Revoke { credential } => {
            tracing::info!(%credential, "credential revoked");
            hub.core(|core| core.revoke(&credential, now));
        }
        ToRelay::Supersede {
            environment,
            generation,
        } => hub.core(|core| core.supersede(&environment, generation)),
        ToRelay::Forget {
            environment,
            generation,
        } => hub.core(|core| core.forget(&environment, generation)),
        ToRelay::Probe { probe, registration } => {
            if probes.len() < MAX_PROBES {
                let relay = relay.clone();
                probes.spawn(async move { (probe, is_alive(&relay, &registration).await) });
            } else {
                probes.spawn(std::future::ready((probe, false)));
            }
        }
        // A newer registry may say more.
        _ => tracing::debug!("unknown control message"),
    }
}

/// Whether the registration's executor answers a ping in time.
async fn is_alive(relay: &Relay, registration: &RegistrationId) -> bool {
    let connection = relay.hub().core(|core| core.executor_of(registration));
    let Some(link) = connection.and_then(|connection| relay.hub().link(connection)) else {
        return false;
    };
    let pong = link.pongs.notified();
    let mut pong = std::pin::pin!(pong);
    pong.as_mut().enable();
    link.ping();
    timeout(PROBE_TIMEOUT, pong).await.is_ok()
}
