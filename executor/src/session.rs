//! Sessions: the processes of one client, which outlive its stream.

mod holder;
pub(crate) mod policy;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use rendezvous_host::process::{Event, Outlet, Processes};
use rendezvous_host::proxy::Slots;
use rendezvous_host::snapshot::Snapshots;
use rendezvous_rpc::RpcError;
use rendezvous_wire::key::KeyDigest;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

pub(crate) use self::holder::Holder;
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
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Grows with every attachment, so that late news of an old one cannot disturb a new one.
    instance: u64,
    detached_at: Option<Instant>,
    /// Who is attached, if it would give way to another stream of the same harness.
    holder: Option<Holder>,
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

    /// When it was detached, if it is.
    fn detached_at(&self) -> Option<Instant> {
        self.state().detached_at
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

    /// Opens a session for `holder`, or resumes a detached one, and sends its events to `listener` and other messages of its
    /// own to `messages` from now on.
    ///
    /// A session that another stream of the same harness holds is still refused, but one that would outlive its connection
    /// gives way: its harness would not ask if it had not given it up, and finds the session detached when it asks again.
    pub(crate) fn attach(
        self: &Arc<Self>,
        holder: Holder,
        resume: Option<&str>,
        listener: mpsc::Sender<Event>,
        messages: mpsc::Sender<Bytes>,
    ) -> Result<Attachment, RpcError> {
        let mut table = self.table();
        if table.is_shut {
            return Err(RpcError::internal("the executor is stopping"));
        }
        let session = match resume {
            Some(id) => table
                .sessions
                .get(id)
                .cloned()
                .ok_or_else(|| RpcError::invalid_request(format!("unknown session id {id}")))?,
            None => table.open(&self.config, holder.harness())?,
        };
        let instance = {
            let mut state = session.state();
            if state.detached_at.take().is_none() {
                if let Some(present) = &state.holder {
                    present.give_way_to(&holder);
                }
                return Err(RpcError::session_attached(&session.id));
            }
            state.holder = None;
            state.instance += 1;
            state.instance
        };
        session.outlet.attach(listener);
        session.desk.attach(messages);
        Ok(Attachment {
            sessions: Arc::downgrade(self),
            session,
            instance,
            holder,
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
            state: Mutex::new(State {
                instance: 0,
                detached_at: Some(Instant::now()),
                holder: None,
            }),
        });
        self.sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Gives up the session that has been detached for longest among those of a kind in which nothing runs.
    fn evict(&mut self, is_of_kind: impl Fn(&Session) -> bool) -> bool {
        let oldest = self
            .sessions
            .values()
            .filter(|session| is_of_kind(session) && session.processes.running() == 0)
            .filter_map(|session| Some((session.detached_at()?, session.id.clone())))
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
    holder: Holder,
    /// When its client was gone, if the stream outlived that.
    lost_since: OnceLock<Instant>,
}

impl Attachment {
    /// Another stream of the same harness may take its place.
    pub(crate) fn may_give_way(&self) {
        let mut state = self.session.state();
        if state.instance == self.instance {
            state.holder = Some(self.holder.clone());
        }
    }

    /// The stream is over; its client was gone since this time already.
    pub(crate) fn lost_since(&self, since: std::time::Instant) {
        // Told once, when the stream ends.
        let _ = self.lost_since.set(since.into());
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let session = Arc::clone(&self.session);
        let instance = self.instance;
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
        let retention = sessions.config.session_retention;
        match Handle::try_current() {
            Ok(runtime) if !retention.is_zero() => {
                runtime.spawn(async move {
                    sleep_until(detached_at + retention).await;
                    sessions.expire(&session, instance);
                });
            }
            _ => sessions.expire(&session, instance),
        }
    }
}
