//! Sessions that the executor keeps while nobody is connected, for hours or days.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use rendezvous_harness::detached::{Begin, Keep};
//! use rendezvous_harness::{Endpoint, Harness, HarnessError, ProcessSpec};
//!
//! # async fn example(to: Endpoint) -> Result<(), HarnessError> {
//! // Today: the build goes on when this program ends.
//! let harness = Harness::connect(to.clone()).await?;
//! let session = harness.retain(Keep::for_at_most(Duration::from_secs(2 * 86_400))).await?.session;
//! harness.start(ProcessSpec::new(["make", "-j8"])).await?;
//! drop(harness);
//!
//! // Tomorrow, with `session` kept in a safe place:
//! let harness = Harness::resume(to, &session, false).await?;
//! for info in harness.processes().await?.unwrap_or_default() {
//!     let mut process = harness.attach(&info, Begin::Start).await?;
//!     while let Some(event) = process.next().await? {
//!         println!("{event:?}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What the processes write is kept too, up to limits of the executor; what was dropped is told
//! ([`crate::ProcessEvent::Dropped`]). A session ends with its retention, with [`Harness::end_session`], or with its executor.

use std::time::Duration;

use rendezvous_rpc::method::process::ProcessInfo;
use rendezvous_rpc::method::session::{End, List, ListParams, Retain, RetainParams, SessionParams, SignalParams};
pub use rendezvous_rpc::method::session::{MAX_LISTED, MAX_NAME};
use rendezvous_wire::secret::Secret;

use crate::client::Harness;
use crate::error::HarnessError;
use crate::process::Signal;
use crate::session::Class;

/// How a session is to be kept.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    /// How long without a connection; none: two days, or what the executor allows if that is less.
    pub retention: Option<Duration>,
    /// What people call it: 1 to [`MAX_NAME`] letters, digits, `.`, `-` and `_`.
    pub name: Option<String>,
    /// Whether only this harness's key may take it up, whoever else knows its id. Needs a key that lasts.
    pub bound_to_key: bool,
}

impl Keep {
    /// For so long without a connection.
    pub fn for_at_most(retention: Duration) -> Self {
        Self {
            retention: Some(retention),
            ..Self::default()
        }
    }
}

/// A session that is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its id: who knows it may take it up.
    pub session: Secret,
    /// How long it is kept without a connection.
    pub retention: Duration,
}

/// What there is to say about a kept session.
#[derive(Clone, Debug)]
pub struct KeptSession {
    /// Its id.
    pub session: Secret,
    /// What it is called.
    pub name: Option<String>,
    /// Time since it was opened.
    pub age: Duration,
    /// Whether somebody is connected to it.
    pub is_attached: bool,
    /// How long it is kept without a connection.
    pub retention: Duration,
    /// What is left of that, while nobody is connected.
    pub expires_in: Option<Duration>,
    /// Its processes, oldest first.
    pub processes: Vec<ProcessInfo>,
}

/// Where to begin with the output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the oldest that is kept.
    Start,
    /// About so many bytes before the end, at most 256 KiB earlier.
    Tail(u64),
}

impl Harness {
    /// Has the executor keep the session when the connection ends, with its processes and their output. To be called before
    /// processes are started: of what one wrote before, only the last MiB is kept.
    ///
    /// From now on processes are killed by [`crate::ProcessControl::terminate`] and with their session only, not with their
    /// handles.
    ///
    /// # Errors
    ///
    /// [`HarnessError::NoDetachedSessions`]; a refusal when the retention is too long or too many sessions are kept; otherwise
    /// as any call.
    pub async fn retain(&self, keep: Keep) -> Result<Kept, HarnessError> {
        self.require_detached()?;
        let params = RetainParams {
            retention_ms: keep
                .retention
                .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            name: keep.name,
            bound_to_key: keep.bound_to_key,
        };
        let result = self.call_as::<Retain>(&params, Class::Repeatable).await?;
        let session = self.peer_session().cloned().ok_or(HarnessError::NoDetachedSessions)?;
        Ok(Kept {
            session,
            retention: Duration::from_millis(result.retention_ms),
        })
    }

    /// Kept sessions that this harness's key has opened, and those among `known` that there still are, oldest first. At most
    /// [`MAX_LISTED`] may be asked for.
    ///
    /// # Errors
    ///
    /// [`HarnessError::NoDetachedSessions`]; otherwise as any call.
    pub async fn kept_sessions(&self, known: &[Secret]) -> Result<Vec<KeptSession>, HarnessError> {
        self.require_detached()?;
        let params = ListParams {
            session_ids: known.iter().map(|id| id.expose().to_owned()).collect(),
        };
        let listed = self.call_as::<List>(&params, Class::Repeatable).await?;
        let sessions = listed.sessions.into_iter().map(|info| KeptSession {
            session: Secret::new(info.session_id),
            name: info.name,
            age: Duration::from_millis(info.age_ms),
            is_attached: info.attached,
            retention: Duration::from_millis(info.retention_ms),
            expires_in: info.expires_in_ms.map(Duration::from_millis),
            processes: info.processes,
        });
        Ok(sessions.collect())
    }

    /// Signals every process of a kept session, attached or not.
    ///
    /// # Errors
    ///
    /// [`HarnessError::NoDetachedSessions`]; a refusal when there is no such session; otherwise as any call.
    pub async fn signal_session(&self, session: &Secret, signal: Signal) -> Result<(), HarnessError> {
        self.require_detached()?;
        let params = SignalParams {
            session_id: session.expose().to_owned(),
            signal: signal.name().to_owned(),
        };
        self.call::<rendezvous_rpc::method::session::Signal>(&params)
            .await
            .map(drop)
    }

    /// Ends a kept session: kills its processes and forgets their output. True when something ran until now.
    ///
    /// # Errors
    ///
    /// As [`Harness::signal_session`].
    pub async fn end_session(&self, session: &Secret) -> Result<bool, HarnessError> {
        self.require_detached()?;
        let params = SessionParams {
            session_id: session.expose().to_owned(),
        };
        Ok(self.call::<End>(&params).await?.running)
    }

    fn require_detached(&self) -> Result<(), HarnessError> {
        if self.has_detached_sessions() {
            Ok(())
        } else {
            Err(HarnessError::NoDetachedSessions)
        }
    }
}
