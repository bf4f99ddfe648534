//! Sessions: the processes of one client, which outlive its stream.

mod holder;
mod kept;
pub(crate) mod policy;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use rendezvous_host::process::{Event, Outlet, Process, Processes};
use rendezvous_host::proxy::Slots;
use rendezvous_host::snapshot::Snapshots;
use rendezvous_rpc::RpcError;
use rendezvous_wire::key::KeyDigest;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

pub(crate) use self::holder::{Holder, Presence};
pub use self::kept::DetachedSessions;
use self::kept::Kept;
use self::policy::Desk;
use crate::server::Config;

/// Sessions at once, detached ones included.
pub const MAX_SESSIONS: usize = 1024;
/// Sessions at once that one harness key opened, so that no harness takes every place.
pub const MAX_SESSIONS_PER_HARNESS: usize = MAX_SESSIONS / 2;

/// All sessions of a server.
#[derive(Debug)]
pub(crate) struct Sessions {
    config: Config,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<String, Arc<Session>>,
    is_shut: bool,
}

/// The processes of one client.
#[derive(Debug)]
pub(crate) struct Session {
    /// A bearer secret: whoever knows it may resume the session. It is never logged.
    id: String,
    /// The harness that opened it; none on connections that name no key.
    owner: Option<KeyDigest>,
    processes: Processes,
    snapshots: Snapshots,
    outlet: Outlet,
    desk: Arc<Desk>,
    proxy_slots: Slots,
    opened: Instant,
    /// Held by the call that decides how it is kept.
    retaining: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Grows with every attachment, so that late news of an old one cannot disturb a new one.
    instance: u64,
    detached_at: Option<Instant>,
    /// The stream that holds it, if one does.
    holder: Option<Holder>,
    /// Ends it when nobody comes back.
    expiry: Option<AbortOnDropHandle<()>>,
    kept: Option<Kept>,
    /// Whether it counts as kept already: its place for output is being made.
    has_kept_place: bool,
}

/// A stream that wants a session.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    /// Its hold on what it gets.
    pub(crate) holder: Holder,
    /// The session to resume; none: a new one.
    pub(crate) resume: Option<&'a str>,
    /// Whether to take it from another stream.
    pub(crate) takes_over: bool,
    /// Takes events of processes.
    pub(crate) listener: mpsc::Sender<Event>,
    /// Takes messages of the session's own.
    pub(crate) messages: mpsc::Sender<Bytes>,
}

impl Session {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn processes(&self) -> &Processes {
        &self.processes
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Where the client is asked about the network.
    pub(crate) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Room for connections of the proxies of its processes.
    pub(crate) fn proxy_slots(&self) -> &Slots {
        &self.proxy_slots
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when nobody has been there: it is detached, or its stream waits for a client that is away.
    pub(crate) fn unattended_since(&self) -> Option<Instant> {
        let state = self.state();
        let away_since = || state.holder.as_ref()?.away_since().map(Instant::from);
        state.detached_at.or_else(away_since)
    }

    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }

    /// Ends the stream that holds it, and what waits for its expiry.
    fn let_go(&self) {
        let mut state = self.state();
        state.let_go();
        state.expiry = None;
    }
}

impl State {
    /// Ends the stream that holds it.
    fn let_go(&self) {
        if let Some(present) = &self.holder {
            present.let_go();
        }
    }
}

impl Sessions {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            table: Mutex::default(),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Opens a session, or resumes one.
    ///
    /// A session that another stream holds is refused unless it is taken over. But a stream whose client is away gives way:
    /// whoever asks again finds the session detached, as it would have been without a stream that outlives its connection.
    ///
    /// # Errors
    ///
    /// When there is no such session, or another stream holds it, or there are too many.
    pub(crate) fn attach(self: &Arc<Self>, arrival: Arrival<'_>) -> Result<Attachment, RpcError> {
        let harness = arrival.holder.harness();
        let mut table = self.table();
        if table.is_shut {
            return Err(RpcError::internal("the executor is stopping"));
        }
        let session = match arrival.resume {
            Some(id) => {
                let found = table.sessions.get(id).cloned();
                found
                    .filter(|session| session.admits(harness))
                    .ok_or_else(|| unknown(id))?
            }
            None => table.open(&self.config, harness)?,
        };
        let instance = {
            let mut state = session.state();
            if state.detached_at.take().is_none() {
                if !arrival.takes_over {
                    if let Some(present) = &state.holder
                        && present.away_since().is_some()
                    {
                        present.let_go();
                    }
                    return Err(RpcError::session_attached(&session.id));
                }
                state.let_go();
            }
            state.instance += 1;
            state.holder = Some(arrival.holder);
            state.expiry = None;
            session.outlet.attach(arrival.listener);
            session.desk.attach(arrival.messages);
            session.processes.read_anew();
            state.instance
        };
        Ok(Attachment {
            sessions: Arc::downgrade(self),
            session,
            instance,
            lost_since: OnceLock::new(),
        })
    }

    /// Kills the processes of all sessions and refuses new ones.
    pub(crate) fn shut(&self) {
        let sessions = {
            let mut table = self.table();
            table.is_shut = true;
            std::mem::take(&mut table.sessions)
        };
        for session in sessions.into_values() {
            session.processes.shut();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table().sessions.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a session that was detached under `instance`, unless somebody resumed it meanwhile.
    fn expire(&self, session: &Session, instance: u64) {
        {
            // Resuming looks the session up under the same lock.
            let mut table = self.table();
            let state = session.state();
            if state.instance != instance || state.detached_at.is_none() {
                return;
            }
            table.sessions.remove(&session.id);
        }
        session.processes.shut();
    }
}

impl Table {
    fn open(&mut self, config: &Config, owner: Option<KeyDigest>) -> Result<Arc<Session>, RpcError> {
        if owner.is_some() {
            let is_own = |session: &Session| session.owner == owner;
            let own = self.sessions.values().filter(|session| is_own(session)).count();
            if own >= config.max_sessions_per_harness && !self.evict(is_own) {
                return Err(RpcError::internal("too many sessions of this harness"));
            }
        }
        if self.sessions.len() >= config.max_sessions && !self.evict(|_| true) {
            return Err(RpcError::internal("too many sessions"));
        }
        let id = Uuid::new_v4().to_string();
        let outlet = Outlet::default();
        let session = Arc::new(Session {
            id: id.clone(),
            owner,
            processes: Processes::new(outlet.clone(), Arc::clone(&config.budget)),
            snapshots: Snapshots::new(Arc::clone(&config.budget), config.snapshots.clone()),
            outlet,
            desk: Arc::default(),
            proxy_slots: config.proxy_slots.session(),
            opened: Instant::now(),
            retaining: tokio::sync::Mutex::default(),
            state: Mutex::new(State {
                instance: 0,
                detached_at: Some(Instant::now()),
                holder: None,
                expiry: None,
                kept: None,
                has_kept_place: false,
            }),
        });
        self.sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Gives up the session that has been detached for longest among those of a kind in which nothing runs and that nobody
    /// wants to be kept.
    fn evict(&mut self, is_of_kind: impl Fn(&Session) -> bool) -> bool {
        let oldest = self
            .sessions
            .values()
            .filter(|session| is_of_kind(session) && session.processes.running() == 0 && !session.is_kept())
            .filter_map(|session| Some((session.state().detached_at?, session.id.clone())))
            .min();
        oldest.is_some_and(|(_, id)| self.sessions.remove(&id).is_some())
    }
}

/// A stream's hold on its session; dropped, it detaches the session and starts its last grace.
#[derive(Debug)]
pub(crate) struct Attachment {
    sessions: Weak<Sessions>,
    session: Arc<Session>,
    instance: u64,
    /// When its client was gone, if the stream outlived that.
    lost_since: OnceLock<Instant>,
}

impl Attachment {
    /// The stream is over; its client was gone since this time already.
    pub(crate) fn lost_since(&self, since: std::time::Instant) {
        // Told once, when the stream ends.
        let _ = self.lost_since.set(since.into());
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The client has taken everything of a process up to `seq`. Once another stream has the session, that says nothing.
    pub(crate) fn consumed(&self, process: &Process, seq: u64) {
        let state = self.session.state();
        if state.instance == self.instance {
            process.consume(seq);
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let (session, instance) = (&self.session, self.instance);
        let detached_at = self.lost_since.get().copied().unwrap_or_else(Instant::now);
        {
            let mut state = session.state();
            if state.instance != instance {
                return;
            }
            state.detached_at = Some(detached_at);
            state.holder = None;
            session.outlet.detach();
            session.desk.detach();
        }
        let Some(sessions) = self.sessions.upgrade() else {
            return;
        };
        if session.is_kept() {
            session.processes.look_again();
        }
        let retention = session.retention(sessions.config.session_retention);
        match Handle::try_current() {
            Ok(runtime) if !retention.is_zero() => {
                let (sessions, detached) = (Weak::clone(&self.sessions), Arc::downgrade(session));
                let expiry = runtime.spawn(async move {
                    sleep_until(detached_at + retention).await;
                    if let (Some(sessions), Some(session)) = (sessions.upgrade(), detached.upgrade()) {
                        sessions.expire(&session, instance);
                    }
                });
                let mut state = session.state();
                if state.instance == instance {
                    state.expiry = Some(AbortOnDropHandle::new(expiry));
                } else {
                    expiry.abort();
                }
            }
            _ => sessions.expire(session, instance),
        }
    }
}

fn unknown(id: &str) -> RpcError {
    RpcError::invalid_request(format!("unknown session id {id}"))
}
