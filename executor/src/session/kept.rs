//! Sessions that are kept for long without a stream.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rendezvous_host::process::Spooling;
use rendezvous_rpc::RpcError;
use rendezvous_rpc::method::session::{MAX_NAME, RetainParams};
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::quantity::show_duration;
use tokio::task::spawn_blocking;

use super::{Session, Sessions};

/// How long a session is kept when its client does not say.
const USUAL_RETENTION: Duration = Duration::from_secs(2 * 86_400);

/// What sessions may be kept for long.
#[derive(Clone, Debug)]
pub struct DetachedSessions {
    /// The longest time without a stream that a client may ask for.
    pub max_retention: Duration,
    /// Sessions that are kept at once.
    pub max_sessions: usize,
    /// Of them, those that one harness key opened.
    pub max_sessions_per_harness: usize,
    /// Where the output of their processes goes.
    pub spooling: Spooling,
}

/// What a client asked for.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) retention: Duration,
    name: Option<String>,
    is_bound: bool,
}

impl Session {
    /// Whether it is kept for long.
    pub(crate) fn is_kept(&self) -> bool {
        self.state().kept.is_some()
    }

    /// What its client calls it.
    pub(crate) fn name(&self) -> Option<String> {
        self.state().kept.as_ref()?.name.clone()
    }

    /// How long it outlives its stream.
    pub(crate) fn retention(&self, usual: Duration) -> Duration {
        self.state().kept.as_ref().map_or(usual, |kept| kept.retention)
    }

    /// Whether a harness with this key may take it up, if it knows its id.
    pub(super) fn admits(&self, harness: Option<KeyDigest>) -> bool {
        let is_bound = self.state().kept.as_ref().is_some_and(|kept| kept.is_bound);
        !is_bound || self.is_of(harness)
    }

    /// Whether this key opened it.
    fn is_of(&self, harness: Option<KeyDigest>) -> bool {
        harness.is_some() && self.owner == harness
    }
}

impl Sessions {
    /// The rules for sessions that are kept, if there may be any.
    pub(crate) fn detached(&self) -> Option<&DetachedSessions> {
        let rules = self.config().detached.as_ref();
        rules.filter(|rules| !rules.max_retention.is_zero())
    }

    /// Keeps a session as its client asks. Returns for how long without a stream.
    ///
    /// # Errors
    ///
    /// When it asks for too much, too many are kept, or there is no place for the output.
    pub(crate) async fn retain(
        self: &Arc<Self>,
        session: &Arc<Session>,
        params: RetainParams,
    ) -> Result<Duration, RpcError> {
        let rules = self
            .detached()
            .ok_or_else(|| RpcError::invalid_request("no session is kept here"))?;
        if let Some(name) = &params.name {
            check_name(name)?;
        }
        let retention = params.retention_ms.map(Duration::from_millis);
        if retention.is_some_and(|retention| retention > rules.max_retention) {
            let most = show_duration(rules.max_retention);
            return Err(RpcError::invalid_params(format!(
                "this executor keeps sessions for {most} at most (--max-session-retention)"
            )));
        }
        let retention = retention.unwrap_or_else(|| USUAL_RETENTION.min(rules.max_retention));
        let retention = retention.max(self.config().session_retention);
        let kept = Kept {
            retention,
            name: params.name,
            is_bound: params.bound_to_key && session.owner.is_some(),
        };
        // A task of its own, so that the end of the stream cannot leave it half done.
        let (sessions, session) = (Arc::clone(self), Arc::clone(session));
        match tokio::spawn(async move { sessions.keep(&session, kept).await }).await {
            Ok(done) => done.map(|()| retention),
            Err(_stopped) => Err(RpcError::internal("the executor is stopping")),
        }
    }

    /// Keeps a session, with the output of its processes; or changes how it is kept.
    async fn keep(&self, session: &Session, kept: Kept) -> Result<(), RpcError> {
        let _turn = session.retaining.lock().await;
        if session.is_kept() {
            session.state().kept = Some(kept);
            return Ok(());
        }
        let spooling = self.reserve(session)?;
        let opened = match spawn_blocking(move || spooling.session()).await {
            Ok(Ok(spool)) => session.processes().keep(spool).await,
            Ok(Err(error)) => Err(error),
            Err(_stopped) => Err(std::io::Error::other("the executor is stopping")),
        };
        let mut state = session.state();
        state.has_kept_place = false;
        if let Err(error) = opened {
            tracing::warn!(%error, "cannot keep output on disk");
            return Err(RpcError::internal(format!("cannot keep output on disk: {error}")));
        }
        // Nobody who has left meanwhile was told, and the session's usual time is running; whoever comes back asks again.
        if state.detached_at.is_none() {
            state.kept = Some(kept);
        }
        Ok(())
    }

    /// Takes a place among the sessions that are kept, if that is not one too many. Returns where output goes.
    fn reserve(&self, session: &Session) -> Result<Spooling, RpcError> {
        let rules = self.detached();
        let rules = rules.ok_or_else(|| RpcError::invalid_request("no session is kept here"))?;
        let table = self.table();
        let counts = |other: &Session| {
            let state = other.state();
            state.kept.is_some() || state.has_kept_place
        };
        let others = table.sessions.values().filter(|other| counts(other));
        let (mut all, mut own) = (0, 0);
        for other in others {
            all += 1;
            own += usize::from(other.is_of(session.owner));
        }
        if own >= rules.max_sessions_per_harness {
            return Err(RpcError::invalid_request(format!(
                "{own} sessions of this harness are kept already; end one"
            )));
        }
        if all >= rules.max_sessions {
            return Err(RpcError::internal(format!("{all} sessions are kept already")));
        }
        session.state().has_kept_place = true;
        Ok(rules.spooling.clone())
    }

    /// Kept sessions that this key opened, and those with these ids which admit it, oldest first.
    pub(crate) fn kept(&self, harness: Option<KeyDigest>, ids: &[String]) -> Vec<Arc<Session>> {
        let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
        let is_shown = |session: &&Arc<Session>| {
            let is_known = session.is_of(harness) || ids.contains(session.id());
            session.is_kept() && is_known && session.admits(harness)
        };
        let mut sessions: Vec<_> = self.table().sessions.values().filter(is_shown).cloned().collect();
        sessions.sort_unstable_by_key(|session| session.opened);
        sessions
    }

    /// The kept session with this id.
    ///
    /// # Errors
    ///
    /// When there is none, or none that admits this key.
    pub(crate) fn find(&self, harness: Option<KeyDigest>, id: &str) -> Result<Arc<Session>, RpcError> {
        let found = self.table().sessions.get(id).cloned();
        found
            .filter(|session| session.is_kept() && session.admits(harness))
            .ok_or_else(|| super::unknown(id))
    }

    /// Ends a session: kills its processes and forgets their output. The stream that holds it ends, too, unless it is the one
    /// that asks. Returns whether a process ran.
    pub(crate) fn end(&self, session: &Session, asks: &Session) -> bool {
        let is_running = session.processes.running() > 0;
        if session.id == asks.id {
            // It has to hear the answer; what is left of the session goes with it.
            session.state().kept = None;
        } else {
            self.table().sessions.remove(&session.id);
            session.let_go();
        }
        session.processes.shut();
        is_running
    }
}

fn check_name(name: &str) -> Result<(), RpcError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_allowed) {
        return Err(RpcError::invalid_params(format!(
            "the name of a session has 1 to {MAX_NAME} letters, digits, `.`, `-` or `_`"
        )));
    }
    Ok(())
}
