//! One relay's control connection, whatever carries it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rendezvous_wire::control::{FromRelay, Presence, ToRelay};
use rendezvous_wire::id::{BootId, CredentialId, EnvironmentId};
use rendezvous_wire::limits::{EXECUTOR_TICKET_LIFETIME, PRESENCE_LEASE};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::QUEUE;
use crate::app::App;
use crate::store::{MAX_PAGE, RelayHello, Standing, StoreError};
use crate::token;

/// Longest wait for a relay's first message.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// Longest time that a relay may leave its messages untaken.
const SEND_WAIT: Duration = Duration::from_secs(10);
/// How often the relay's queue is looked at, for what other processes put there.
const LOOK: Duration = Duration::from_millis(200);
/// How often a lost database is tried again, and the relay's credential looked at.
const UPKEEP: Duration = Duration::from_secs(1);
/// Messages taken from the relay's queue at once.
const BATCH: u32 = 64;
/// Messages that wait for the relay; beyond it counts as stuck. Correcting each executor that a relay names must fit.
const MAX_OUTGOING: usize = 2 * MAX_EXECUTORS;
/// Executors that one relay may name.
const MAX_EXECUTORS: usize = 262_144;
/// Longest public URL.
const MAX_URL: usize = 1024;
/// Longest version text.
const MAX_VERSION: usize = 64;

/// Why a control connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The relay broke the protocol.
    #[error("the relay broke the control protocol: {0}")]
    Protocol(&'static str),
    /// The relay took no messages.
    #[error("the relay does not take its messages")]
    Stuck,
    /// Another control connection of the same run took over, or the boot id belongs to another credential.
    #[error("the relay's run is held by another control connection")]
    Displaced,
    /// The relay's credential ended.
    #[error("the relay's credential was revoked or expired")]
    Revoked,
}

/// Who is at the other end.
#[derive(Clone, Debug)]
pub enum Relay {
    /// A stand-alone relay with this credential.
    Standalone(CredentialId),
    /// The relay in this process.
    Embedded,
}

/// Speaks with a relay until one side ends. The database may be away meanwhile: what the relay says is remembered here
/// and told to the database as a whole when it is back.
///
/// # Errors
///
/// Says why the registry ended it.
pub async fn run(
    app: Arc<App>,
    relay: Relay,
    mut from_relay: mpsc::Receiver<FromRelay>,
    to_relay: mpsc::Sender<ToRelay>,
) -> Result<(), SessionError> {
    let hello = timeout(HELLO_WAIT, from_relay.recv())
        .await
        .map_err(|_| SessionError::Protocol("no hello in time"))?;
    let Some(hello) = hello else { return Ok(()) };
    let mut session = Session::new(app, relay, hello)?;
    let mut heard = Vec::with_capacity(QUEUE);
    let mut look = every(LOOK);
    let mut upkeep = every(UPKEEP);
    tracing::info!(relay = %session.hello.boot_id, url = session.hello.public_url, "relay connected");
    loop {
        let app = session.app.clone();
        // Neither side ever waits for the other to read before it reads itself.
        tokio::select! {
            slot = to_relay.reserve(), if !session.outgoing.is_empty() => match slot {
                Ok(slot) => session.send(slot),
                Err(_) => break,
            },
            () = sleep_until(session.stuck_at), if !session.outgoing.is_empty() => return Err(SessionError::Stuck),
            count = from_relay.recv_many(&mut heard, QUEUE) => match count {
                0 => break,
                _ => session.hear(&mut heard).await?,
            },
            () = app.changed.notified() => session.deliver().await?,
            _ = look.tick() => session.deliver().await?,
            _ = upkeep.tick() => session.upkeep().await?,
        }
    }
    tracing::info!(relay = %session.hello.boot_id, "relay disconnected");
    Ok(())
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Checks what a relay says of itself.
fn introduction(relay: &Relay, hello: FromRelay) -> Result<RelayHello, SessionError> {
    let FromRelay::Hello {
        boot_id,
        public_url,
        version,
    } = hello
    else {
        return Err(SessionError::Protocol("the first message must be hello"));
    };
    let websocket = public_url.starts_with("ws://") || public_url.starts_with("wss://");
    if !websocket || public_url.len() > MAX_URL || url::Url::parse(&public_url).is_err() {
        return Err(SessionError::Protocol("public_url must be a ws:// or wss:// URL"));
    }
    if version.len() > MAX_VERSION || version.chars().any(char::is_control) {
        return Err(SessionError::Protocol("version is too long"));
    }
    let credential = match relay {
        Relay::Standalone(credential) => credential.clone(),
        Relay::Embedded => {
            CredentialId::new("embedded").map_err(|_| SessionError::Protocol("no name for the embedded relay"))?
        }
    };
    Ok(RelayHello {
        boot_id,
        public_url,
        version,
        credential,
        session: token::id(""),
        accepting: true,
        executors: 0,
    })
}

struct Session {
    app: Arc<App>,
    relay: Relay,
    hello: RelayHello,
    /// What waits for the relay.
    outgoing: VecDeque<ToRelay>,
    /// When the relay counts as stuck, if it takes nothing until then.
    stuck_at: Instant,
    /// Every executor that the relay holds.
    held: HashMap<EnvironmentId, Presence>,
    /// Whether the database knows all of this.
    stored: bool,
    welcomed: bool,
}

impl Session {
    fn new(app: Arc<App>, relay: Relay, hello: FromRelay) -> Result<Self, SessionError> {
        let hello = introduction(&relay, hello)?;
        Ok(Self {
            app,
            relay,
            hello,
            outgoing: VecDeque::new(),
            stuck_at: Instant::now(),
            held: HashMap::new(),
            stored: false,
            welcomed: false,
        })
    }

    fn boot_id(&self) -> &BootId {
        &self.hello.boot_id
    }

    /// Takes what came, executors that follow one another in one transaction: a relay that comes back names thousands.
    async fn hear(&mut self, messages: &mut Vec<FromRelay>) -> Result<(), SessionError> {
        let mut up = Vec::new();
        for message in messages.drain(..) {
            if let FromRelay::ExecutorUp(presence) = message {
                self.hold(&presence)?;
                up.push(presence);
                continue;
            }
            self.store_up(std::mem::take(&mut up)).await?;
            match message {
                FromRelay::ExecutorDown(presence) => self.down(&presence).await,
                FromRelay::Renew { executors, accepting } => self.renew(executors, accepting).await?,
                FromRelay::ProbeResult { probe, alive } => self.answer(probe, alive).await,
                hello @ FromRelay::Hello { .. } => self.start_over(hello).await?,
                _ => tracing::debug!(relay = %self.boot_id(), "a control message of an unknown type was skipped"),
            }
        }
        self.store_up(up).await
    }

    /// A relay that lost track of what it told says hello again and names every executor.
    async fn start_over(&mut self, hello: FromRelay) -> Result<(), SessionError> {
        let hello = introduction(&self.relay, hello)?;
        if hello.boot_id != self.hello.boot_id {
            return Err(SessionError::Protocol("a relay cannot become another one"));
        }
        self.hello = hello;
        self.held.clear();
        self.welcomed = false;
        self.store_all().await
    }

    fn hold(&mut self, presence: &Presence) -> Result<(), SessionError> {
        if self.held.len() >= MAX_EXECUTORS && !self.held.contains_key(&presence.environment) {
            return Err(SessionError::Protocol("too many executors"));
        }
        self.held.insert(presence.environment.clone(), presence.clone());
        Ok(())
    }

    async fn answer(&mut self, probe: u64, alive: bool) {
        let Ok(probe) = i64::try_from(probe) else { return };
        let answered = self.app.store.answer(probe, alive).await;
        self.note(answered);
        self.app.changed.notify_waiters();
    }

    async fn down(&mut self, presence: &Presence) {
        let held = self.held.get(&presence.environment);
        if held.is_some_and(|held| held.registration == presence.registration && held.connection <= presence.connection)
        {
            self.held.remove(&presence.environment);
        }
        if self.stored {
            let now = self.app.clock.now();
            let gone = self.app.store.executor_down(&self.hello.boot_id, presence, now).await;
            self.note(gone);
        }
    }

    /// Tells the database of executors, and the relay how those stand that are not current.
    async fn store_up(&mut self, mut executors: Vec<Presence>) -> Result<(), SessionError> {
        if executors.is_empty() || !self.stored {
            return Ok(());
        }
        // Every registry locks rows in the same order.
        executors.sort_by(|one, two| one.environment.cmp(&two.environment));
        let now = self.app.clock.now();
        let standings = self.app.store.executors_up(&self.hello.boot_id, &executors, now).await;
        let standings = self.note(standings).unwrap_or_default();
        self.app.changed.notify_waiters();
        for (presence, standing) in executors.into_iter().zip(standings) {
            let environment = presence.environment;
            match standing {
                Standing::Superseded { generation } => self.say(ToRelay::Supersede {
                    environment,
                    generation,
                })?,
                Standing::Unknown => self.say(ToRelay::Forget {
                    environment,
                    generation: presence.generation,
                })?,
                Standing::Current => {}
            }
        }
        Ok(())
    }

    async fn renew(&mut self, executors: u64, accepting: bool) -> Result<(), SessionError> {
        self.hello.executors = executors;
        self.hello.accepting = accepting;
        if !self.stored {
            return Ok(());
        }
        let lease = self.app.clock.now().after(PRESENCE_LEASE);
        let hello = &self.hello;
        let renewed = self
            .app
            .store
            .relay_renew(&hello.boot_id, &hello.session, executors, accepting, lease)
            .await;
        match self.note(renewed) {
            Some(false) => Err(SessionError::Displaced),
            Some(true) | None => Ok(()),
        }
    }

    /// Takes over what waits in the database for the relay, unless it has enough to take already.
    async fn deliver(&mut self) -> Result<(), SessionError> {
        while self.stored && self.outgoing.len() < QUEUE {
            let pending = self.app.store.pending(&self.hello.boot_id, BATCH).await;
            let Some(pending) = self.note(pending) else {
                return Ok(());
            };
            let more = pending.len() == BATCH as usize;
            for (number, message) in pending {
                if let Some(message) = message {
                    self.say(message)?;
                }
                let delivered = self.app.store.delivered(number).await;
                if self.note(delivered).is_none() {
                    return Ok(());
                }
            }
            if !more {
                break;
            }
        }
        Ok(())
    }

    async fn upkeep(&mut self) -> Result<(), SessionError> {
        if let Relay::Standalone(credential) = &self.relay {
            let credential = self.app.store.credential(credential).await;
            let now = self.app.clock.now();
            if let Some(found) = self.note(credential)
                && !found.is_some_and(|credential| credential.is_live(now))
            {
                return Err(SessionError::Revoked);
            }
        }
        if !self.stored {
            self.store_all().await?;
        }
        Ok(())
    }

    /// Tells the database everything.
    async fn store_all(&mut self) -> Result<(), SessionError> {
        let lease = self.app.clock.now().after(PRESENCE_LEASE);
        match self.app.store.relay_hello(&self.hello, lease).await {
            Ok(()) => self.stored = true,
            Err(StoreError::Conflict) => return Err(SessionError::Displaced),
            Err(error) => {
                tracing::warn!(%error, relay = %self.boot_id(), "the relay waits for the database");
                return Ok(());
            }
        }
        let held: Vec<Presence> = self.held.values().cloned().collect();
        for executors in held.chunks(QUEUE) {
            self.store_up(executors.to_vec()).await?;
        }
        if !self.welcomed && self.stored {
            self.welcome().await?;
        }
        self.app.changed.notify_waiters();
        Ok(())
    }

    /// Sends keys and revocations. More revocations than one page follow one by one, so that no message grows too large.
    async fn welcome(&mut self) -> Result<(), SessionError> {
        let since = self.app.clock.now().before(EXECUTOR_TICKET_LIFETIME);
        let mut after = String::new();
        loop {
            let page = self.app.store.revoked_since(since, &after, MAX_PAGE).await;
            let Some(revoked) = self.note(page) else { return Ok(()) };
            let last = revoked.last().map(|id| id.as_str().to_owned());
            if self.welcomed {
                for credential in revoked {
                    self.say(ToRelay::Revoke { credential })?;
                }
            } else {
                let keys = self.app.signer.keys().to_vec();
                self.say(ToRelay::Welcome { keys, revoked })?;
                self.welcomed = true;
            }
            match last {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }

    /// Notes whether the database still knows everything; a failure makes it be told again.
    fn note<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!(%error, relay = %self.boot_id(), "a relay's news was not stored; it will be told again");
                self.stored = false;
                None
            }
        }
    }

    fn say(&mut self, message: ToRelay) -> Result<(), SessionError> {
        if self.outgoing.len() >= MAX_OUTGOING {
            return Err(SessionError::Stuck);
        }
        if self.outgoing.is_empty() {
            self.stuck_at = Instant::now() + SEND_WAIT;
        }
        self.outgoing.push_back(message);
        Ok(())
    }

    fn send(&mut self, slot: mpsc::Permit<'_, ToRelay>) {
        if let Some(message) = self.outgoing.pop_front() {
            slot.send(message);
            self.stuck_at = Instant::now() + SEND_WAIT;
        }
    }
}
