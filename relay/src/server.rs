//! The relay as a value that a hyper server mounts.

mod answer;
mod limiter;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::upgrade::{OnUpgrade, Upgraded};
use rendezvous_service::net::{self, Peer};
use rendezvous_wire::id::{BootId, EnvironmentId};
use rendezvous_wire::reason::{self, close};
use rendezvous_wire::ticket::{Claims, PARAMETER, PATH, Role};
use socket2::SockRef;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::config::Config;
use crate::connection::executor::ExecutorSide;
use crate::connection::halves::{ReadHalf, split};
use crate::connection::harness::HarnessSide;
use crate::connection::link::Link;
use crate::connection::outbox::{Bounds, Outbox};
use crate::connection::task::{Side, Task};
use crate::control::{self, ControlChannel};
use crate::hub::Hub;
use crate::rendezvous::core::{ConnectionId, Refusal};
use crate::ticket::{KeySet, UseError, UsedTickets};
use crate::websocket::{HandshakeError, accept_key, check};

use answer::{Rejection, switching};
use limiter::Limiter;

/// What may wait in the kernel and not be on its way, in bytes; more stays in the relay, where streams take turns.
const UNSENT: u32 = 256 * 1024;
/// Longest time between our 101 and the socket being ours.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest query of a relay URL.
const MAX_QUERY: usize = rendezvous_wire::ticket::MAX_TICKET + 64;

/// A relay. Clones are the same relay.
#[derive(Clone, Debug)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    hub: Arc<Hub>,
    keys: RwLock<Arc<KeySet>>,
    used: Mutex<UsedTickets>,
    limiter: Limiter,
    held: Semaphore,
    tasks: TaskTracker,
    draining: AtomicBool,
}

impl Relay {
    /// A relay whose registry is at the other end of `channel`. Must be called inside a Tokio runtime.
    pub fn new(config: Config, channel: ControlChannel) -> Self {
        let relay = Self::detached(config);
        tokio::spawn(relay.clone().attach(channel));
        relay
    }

    /// A relay that waits for [`Relay::attach`]; until then it knows no keys and lets nobody in.
    pub fn detached(config: Config) -> Self {
        let limits = &config.limits;
        let inner = Inner {
            keys: RwLock::default(),
            used: Mutex::new(UsedTickets::new(limits.used_tickets)),
            limiter: Limiter::new(limits),
            held: Semaphore::new(limits.held_upgrades),
            tasks: TaskTracker::new(),
            draining: AtomicBool::new(false),
            hub: Arc::new(Hub::new(config, new_boot_id())),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Exchanges control messages over `channel` until the other end closes it. Says hello and names every executor first.
    pub async fn attach(self, channel: ControlChannel) {
        control::run(&self, channel).await;
    }

    /// This run of the relay; harness tickets are made out to it.
    pub fn boot_id(&self) -> &BootId {
        &self.inner.hub.boot_id
    }

    /// Whether upgrades can be accepted: keys are known, and the relay is not stopping.
    pub fn is_ready(&self) -> bool {
        !self.is_draining() && !self.keys().is_empty()
    }

    /// Waits until upgrades can be accepted for the first time; for ever if the relay stops before.
    pub async fn ready(&self) {
        loop {
            let changed = self.hub().changed.notified();
            let mut changed = std::pin::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            if self.is_ready() {
                return;
            }
            changed.await;
        }
    }

    /// Whether [`Relay::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.inner.draining.load(Ordering::Acquire)
    }

    /// Numbers of executors and harnesses that are connected.
    pub fn connections(&self) -> (usize, usize) {
        self.hub().core(|core| core.counts())
    }

    /// Refuses new connections from now on, tells the registry, closes every connection with 1001 over a short time, and
    /// waits until they are gone.
    pub async fn drain(&self) {
        self.inner.draining.store(true, Ordering::Release);
        self.hub().core(|core| core.drain());
        self.hub().told.notify_one();
        self.hub().changed.notify_waiters();
        let links = self.hub().links();
        let times = &self.hub().config.times;
        let pause = times.drain_spread / u32::try_from(links.len().max(1)).unwrap_or(u32::MAX);
        for link in links {
            link.close(close::GOING_AWAY, reason::DRAINING);
            // Below the timer's resolution there is no pause to be had.
            if pause >= Duration::from_millis(1) {
                tokio::time::sleep(pause).await;
            }
        }
        self.inner.tasks.close();
        let _ = timeout(times.close + UPGRADE_TIMEOUT, self.inner.tasks.wait()).await;
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }

    pub(crate) fn set_keys(&self, keys: KeySet) {
        *self.inner.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        self.hub().changed.notify_waiters();
    }

    fn keys(&self) -> Arc<KeySet> {
        self.inner.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers a request under `/relay/`. A harness whose executor is away is held for
    /// [`crate::config::Times::absent_executor`].
    pub async fn handle<B>(&self, mut request: Request<B>, peer: Peer) -> Response<Full<Bytes>> {
        match self.admit(&request).await {
            Ok((claims, accept)) => {
                let upgrade = hyper::upgrade::on(&mut request);
                let relay = self.clone();
                self.inner.tasks.spawn(Box::pin(async move {
                    relay.open(upgrade, claims, peer).await;
                }));
                self.hub().metrics.upgrade(101, "accepted");
                switching(&accept)
            }
            Err(rejection) => {
                tracing::debug!(peer = %peer.addr, status = rejection.status.as_u16(), reason = rejection.reason, "upgrade refused");
                self.hub().metrics.upgrade(rejection.status.as_u16(), rejection.reason);
                rejection.response()
            }
        }
    }

    async fn admit<B>(&self, request: &Request<B>) -> Result<(Claims, String), Rejection> {
        let environment = environment(request.uri().path())?;
        let key = check(request.method(), request.version(), request.headers())?;
        let ticket = ticket(request.uri().query())?;
        if self.is_draining() {
            return Err(Refusal::Draining.into());
        }
        let keys = self.keys();
        if keys.is_empty() {
            return Err(Rejection::unavailable("route_unavailable"));
        }
        let now = unix_now();
        let claims = keys.verify(ticket, &environment, self.boot_id(), now)?;
        // Only now: who has no ticket must not use up what is there for the others.
        if !self.inner.limiter.any() {
            return Err(Rejection::unavailable("too_many_upgrades"));
        }
        if claims.role == Role::Harness {
            if !self.inner.limiter.credential(&claims.sub) {
                return Err(Rejection::too_many(Duration::from_secs(1), "too_many_upgrades"));
            }
            self.use_up(&claims, now)?;
        }
        self.wait_for_executor(&claims).await?;
        Ok((claims, accept_key(key)))
    }

    fn use_up(&self, claims: &Claims, now: u64) -> Result<(), Rejection> {
        let mut used = self.inner.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.take(&claims.jti, claims.exp, now).map_err(|error| match error {
            UseError::Used => crate::ticket::TicketError::Used.into(),
            UseError::Full => Rejection::unavailable("route_unavailable"),
        })
    }

    async fn wait_for_executor(&self, claims: &Claims) -> Result<(), Refusal> {
        let admit = || self.hub().core(|core| core.admit(claims, Instant::now()));
        let held = match admit() {
            Err(Refusal::Absent) => self.inner.held.try_acquire(),
            result => return result,
        };
        let Ok(_held) = held else { return Err(Refusal::Absent) };
        let wait = async {
            loop {
                let changed = self.hub().changed.notified();
                let mut changed = std::pin::pin!(changed);
                // From here on no change is missed.
                changed.as_mut().enable();
                match admit() {
                    Err(Refusal::Absent) => changed.await,
                    result => return result,
                }
            }
        };
        let limit = self.hub().config.times.absent_executor;
        timeout(limit, wait).await.unwrap_or(Err(Refusal::Absent))
    }

    /// Takes the socket over from the HTTP server.
    async fn open(self, upgrade: OnUpgrade, claims: Claims, peer: Peer) {
        let upgraded = match timeout(UPGRADE_TIMEOUT, upgrade).await {
            Ok(Ok(upgraded)) => upgraded,
            Ok(Err(error)) => {
                tracing::debug!(peer = %peer.addr, %error, "upgrade failed");
                return;
            }
            Err(_) => return,
        };
        if let Err(upgraded) = self.start(upgraded, &claims) {
            tracing::error!(
                ?upgraded,
                "the HTTP server in front of the relay has an unknown kind of socket"
            );
        }
    }

    fn start(&self, upgraded: Upgraded, claims: &Claims) -> Result<(), Upgraded> {
        let (stream, early) = net::downcast(upgraded)?;
        let hub = self.hub().clone();
        // What the kernel holds can no longer be passed by another stream. Kernels that cannot do this forward all the same.
        let _ = SockRef::from(stream.tcp()).set_tcp_notsent_lowat(UNSENT);
        let (read, write) = split(stream);
        let limits = &hub.config.limits;
        let bounds = Bounds {
            lane: match claims.role {
                Role::Executor => limits.executor_stream_queue,
                Role::Harness => limits.harness_queue,
            },
            connection: match claims.role {
                Role::Executor => limits.executor_queue,
                Role::Harness => limits.harness_queue,
            },
            total: limits.total_queue,
        };
        let id = hub.next_connection();
        let outbox = Outbox::new(write, bounds);
        let link = Arc::new(Link::new(id, claims.role, outbox, hub.totals.clone()));
        hub.register(link.clone());
        hub.metrics.opened(claims.role);
        let now = Instant::now();
        match claims.role {
            Role::Executor => {
                let result = hub.core(|core| core.executor_up(id, claims, now));
                // An executor outlives its credential: its processes would be lost with the connection.
                self.spawn(result, &link, read, &early, ExecutorSide::new(hub, link.clone()), None);
            }
            Role::Harness => {
                let result = hub.core(|core| core.harness_up(id, claims, now));
                let executor = result.and_then(|executor| hub.link(executor).ok_or(Refusal::Absent));
                // Without an executor the connection only lives to be closed.
                let other = executor.clone().unwrap_or_else(|_| link.clone());
                let side = HarnessSide::new(hub, link.clone(), other);
                self.spawn(executor.map(|_| ()), &link, read, &early, side, claims.ends);
            }
        }
        Ok(())
    }

    fn spawn<S: Side + Send + Unpin + 'static>(
        &self,
        admitted: Result<(), Refusal>,
        link: &Arc<Link>,
        read: ReadHalf,
        early: &Bytes,
        side: S,
        ends: Option<u64>,
    ) {
        let hub = self.hub().clone();
        let task = Task::new(hub.clone(), link.clone(), read, early, side);
        match admitted {
            Ok(()) => tracing::info!(connection = link.id.0, role = ?link.role, "connected"),
            Err(refusal) => {
                let (code, reason) = answer::close_for(refusal);
                link.close(code, reason);
            }
        }
        let (id, role) = (link.id, link.role);
        let expiry = ends.map(|end| AbortOnDropHandle::new(tokio::spawn(expire(hub.clone(), id, end))));
        self.inner.tasks.spawn(async move {
            let _expiry = expiry;
            let reason = task.await;
            tracing::info!(connection = id.0, ?role, reason, "disconnected");
            hub.metrics.ended(role, reason);
        });
    }
}

/// Cuts a harness when its credential ends at `end`. The relay does so by itself, since its registry may be away by then.
async fn expire(hub: Arc<Hub>, connection: ConnectionId, end: u64) {
    tokio::time::sleep(time_left(end, unix_now())).await;
    hub.core(|core| core.cut(connection, close::POLICY, reason::REVOKED, Instant::now()));
}

/// From `now` until `end`, in seconds since the Unix epoch.
const fn time_left(end: u64, now: u64) -> Duration {
    Duration::from_secs(end.saturating_sub(now))
}

/// `/relay/{environment}`.
fn environment(path: &str) -> Result<EnvironmentId, Rejection> {
    let unknown = || Rejection::not_found("unknown_route");
    let mut segments = path.strip_prefix('/').ok_or_else(unknown)?.split('/');
    let (first, second, rest) = (segments.next(), segments.next(), segments.next());
    match (first, second, rest) {
        (Some(PATH), Some(environment), None) => EnvironmentId::new(environment).map_err(|_| unknown()),
        _ => Err(unknown()),
    }
}

/// The only parameter of the query.
fn ticket(query: Option<&str>) -> Result<&str, Rejection> {
    let query = query.unwrap_or_default();
    if query.is_empty() {
        return Err(Rejection::bad_request("missing_signature"));
    }
    if query.len() > MAX_QUERY {
        return Err(Rejection::bad_request("malformed_query"));
    }
    if query.contains('&') {
        return Err(Rejection::bad_request("extra_query_param"));
    }
    match query.split_once('=') {
        Some((PARAMETER, ticket)) if !ticket.is_empty() => Ok(ticket),
        _ => Err(Rejection::bad_request("malformed_query")),
    }
}

fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

fn new_boot_id() -> BootId {
    let text = uuid::Uuid::new_v4().simple().to_string();
    BootId::new(text).expect("hexadecimal digits make a boot id")
}

impl From<HandshakeError> for Rejection {
    fn from(error: HandshakeError) -> Self {
        Self::handshake(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[tokio::test(start_paused = true)]
    async fn a_credential_that_lives_for_days_ends_on_time() {
        let hub = Arc::new(Hub::new(Config::new("ws://relay.test"), new_boot_id()));
        let start = tokio::time::Instant::now();
        let end = unix_now() + 1000 * DAY.as_secs();
        expire(hub, ConnectionId(1), end).await;
        let late = start.elapsed() - 999 * DAY;
        assert!(
            late > DAY - Duration::from_secs(60) && late < DAY + Duration::from_secs(60),
            "{late:?}"
        );
        assert_eq!(time_left(5, 7), Duration::ZERO);
    }
}
