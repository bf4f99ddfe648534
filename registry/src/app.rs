//! What every part of a running registry shares.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rendezvous_wire::id::CredentialId;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::address::TrustedProxies;
use crate::clock::Clock;
use crate::rate::{Limiter, MAX_ADDRESSES, MAX_CREDENTIALS, Rate};
use crate::store::Store;
use crate::ticket::Signer;

/// Requests that wait at once for an executor, a relay or the answer to a probe; one more is answered at once.
pub const MAX_WAITING: usize = 1024;
/// How often a waiting request looks at the database, for what happens in other processes.
pub const LOOK: Duration = Duration::from_millis(200);
/// Control connections of relays at once.
pub const MAX_CONTROL_CONNECTIONS: usize = 256;

/// What an operator may set.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls of one credential.
    pub rate: Rate,
    /// Failed authentications from one address.
    pub failed_rate: Rate,
    /// Proxies that may say whom they speak for.
    pub trusted_proxies: TrustedProxies,
}

/// The running registry.
#[derive(Debug)]
pub struct App {
    /// Everything remembered.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Clock,
    /// Signs tickets.
    pub signer: Signer,
    /// Proxies that may say whom they speak for.
    pub trusted_proxies: TrustedProxies,
    /// Calls by credential.
    pub calls: Limiter<CredentialId>,
    /// Failed authentications by address.
    pub failures: Limiter<IpAddr>,
    /// Wakes whoever waits for presence, answers or messages, when they change in this process.
    pub changed: Notify,
    /// Slots of waiting requests.
    pub waiting: Semaphore,
    /// Slots of control connections.
    pub control_connections: Semaphore,
    /// The control connections, which a stop waits for.
    pub control_tasks: TaskTracker,
    /// Cancelled when the registry stops.
    pub shutdown: CancellationToken,
}

impl App {
    /// Puts the parts together.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        signer: Signer,
        options: Options,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            signer,
            trusted_proxies: options.trusted_proxies,
            calls: Limiter::new(options.rate, MAX_CREDENTIALS),
            failures: Limiter::new(options.failed_rate, MAX_ADDRESSES),
            changed: Notify::new(),
            waiting: Semaphore::new(MAX_WAITING),
            control_connections: Semaphore::new(MAX_CONTROL_CONNECTIONS),
            control_tasks: TaskTracker::new(),
            shutdown,
        })
    }
}
