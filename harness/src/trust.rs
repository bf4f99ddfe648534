//! Which executor is believed to be the one that is meant.
//!
//! The registry names the executor's key, and could name any. So a harness may know the key beforehand: by its fingerprint,
//! or because it was there before. An executor says inside the channel whether its key outlives its process; such a key is
//! remembered when it is met first, and another one in its place is refused before anything is said to the executor. An
//! executor that was given a new key by its owner proves it with the old one.
//!
//! ```no_run
//! use rendezvous_harness::trust::{KeyPolicy, KnownExecutors};
//! use rendezvous_harness::{Harness, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = Options::from_env()?;
//! options.executors = KeyPolicy {
//!     known: Some(KnownExecutors::new("/var/lib/agent/known_executors")),
//!     fingerprint: Some("4g7q-2mzt-9x0c-k1ve-88ah-t5rn-wd3b".parse()?),
//!     strict: true,
//!     must_remember: true,
//! };
//! let harness = Harness::connect(options).await?;
//! println!("{:?}", harness.executor_key());
//! # Ok(())
//! # }
//! ```

mod accept;
mod error;
mod judge;

use rendezvous_channel::Identity;
use rendezvous_identity::time;
pub use rendezvous_identity::{
    IdentityError, IdentityFile, Keyring, KnownError, KnownExecutors, Passphrase, Pin, passphrase::PassphraseError,
};
use rendezvous_rpc::method::identity::IdentityStatement;
use rendezvous_transport::registry::Bundle;
use rendezvous_transport::stream::StreamEnd;
pub use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::key::PublicKey;
use tokio::task::spawn_blocking;

pub use self::accept::accept;
pub use self::error::{KeyError, Place};
use self::judge::{Shown, Way, judge};
use crate::error::AttemptError;

/// What is asked of an executor's key. By default nothing: whatever key the registry names is taken, and none is remembered.
#[derive(Clone, Debug, Default)]
pub struct KeyPolicy {
    /// Where keys that outlive their executor's process are remembered.
    pub known: Option<KnownExecutors>,
    /// The only key that is taken. While it is remembered, one that proves to come after it is taken too; then this must be
    /// told the new one before the next session.
    pub fingerprint: Option<Fingerprint>,
    /// Take no key that is neither remembered nor the one with `fingerprint`.
    pub strict: bool,
    /// Take no key that should be remembered and cannot be, because `known` cannot be written; otherwise its
    /// [standing](Standing::Unwritten) says so.
    pub must_remember: bool,
}

/// The key of the executor that a session is with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorKey {
    /// What people compare it by.
    pub fingerprint: Fingerprint,
    /// Whether it outlives the executor's process, as the executor says.
    pub persistent: bool,
    /// How it came to be taken.
    pub standing: Standing,
}

/// How a key came to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It was remembered already.
    Known {
        /// Since when, RFC 3339.
        since: String,
    },
    /// It was met for the first time, and is remembered from now on.
    New,
    /// The holder of the key that was remembered has proved that this is its new one, which is remembered from now on.
    Successor {
        /// The key before it.
        of: Fingerprint,
    },
    /// It was met for the first time, and is not remembered, because the file cannot be written. So whoever comes in its place is
    /// not noticed.
    Unwritten {
        /// Why not, with the file.
        reason: String,
    },
    /// It is not remembered: it does not outlive its process, or nothing is.
    NotRemembered,
}

/// So many handshakes with a known key may fail in a row, before its holder counts as absent: relay and registry have bad moments.
const PROOFS: u32 = 3;

/// Judges the keys of one executor, attempt after attempt.
#[derive(Debug)]
pub(crate) struct Guard {
    policy: KeyPolicy,
    place: Place,
    way: Option<Way>,
    /// Handshakes in a row that a known key's holder should have answered, and nobody did.
    unproven: u32,
    taken: Option<ExecutorKey>,
    /// The key that was taken first where none are remembered, if it outlives its process: no other is taken later.
    held: Option<Pin>,
}

impl Guard {
    pub(crate) fn new(policy: KeyPolicy, registry: &str, environment: &EnvironmentId) -> Self {
        Self {
            place: Place::new(registry, environment, &policy),
            policy,
            way: None,
            unproven: 0,
            taken: None,
            held: None,
        }
    }

    /// The key to shake hands with, by what is known and what the registry says now.
    ///
    /// # Errors
    ///
    /// It must not be spoken to.
    pub(crate) async fn choose(&mut self, bundle: &Bundle) -> Result<PublicKey, KeyError> {
        self.way = None;
        let known = self.find().await?;
        let shown = Shown {
            key: &bundle.executor_key,
            claim: &bundle.identity,
        };
        let way = judge(&self.policy, known, &shown).map_err(|refusal| refusal.at(&self.place))?;
        let key = way.key().clone();
        self.way = Some(way);
        Ok(key)
    }

    /// What a failed handshake means: with an old key, after a few of them, that its holder is not there.
    pub(crate) fn failed(&mut self, end: StreamEnd) -> AttemptError {
        let Some(Way::Prove { known, shown }) = &self.way else {
            return end.into();
        };
        if matches!(end, StreamEnd::Disconnected(_)) {
            return end.into();
        }
        self.unproven += 1;
        tracing::info!(reason = %end, times = self.unproven, "the executor did not answer to its old key");
        if self.unproven < PROOFS && end.is_retryable() {
            return end.into();
        }
        let error = KeyError::NotProven {
            place: self.place.clone(),
            known: known.fingerprint(),
            shown: shown.fingerprint(),
        };
        error.into()
    }

    /// Takes what the executor said of its key inside the channel, and remembers it.
    ///
    /// # Errors
    ///
    /// Nothing more must be said to it.
    pub(crate) async fn confirm(&mut self, statement: Option<&IdentityStatement>) -> Result<(), KeyError> {
        let Some(way) = self.way.take() else { return Ok(()) };
        self.unproven = 0;
        let verdict = way.conclude(statement).map_err(|refusal| refusal.at(&self.place))?;
        let standing = match &verdict.note {
            None => verdict.standing,
            Some(_) if self.policy.known.is_none() => Standing::NotRemembered,
            Some((key, before)) => match self.note(key, before.clone()).await {
                Ok(()) => verdict.standing,
                Err(KnownError::File(error)) if before.is_none() && !self.policy.must_remember => {
                    let reason = crate::error::chain(&error);
                    tracing::warn!(error = reason, "the executor's key cannot be remembered");
                    Standing::Unwritten { reason }
                }
                Err(error) => return Err(error.into()),
            },
        };
        let taken = ExecutorKey {
            fingerprint: verdict.key.fingerprint(),
            persistent: verdict.persistent,
            standing,
        };
        tracing::info!(key = %taken.fingerprint, persistent = taken.persistent, standing = ?taken.standing, "executor's key");
        if self.policy.known.is_none() && verdict.persistent {
            self.held = Some(self.place.pin(&verdict.key));
        }
        let is_followed = matches!(&verdict.note, Some((_, Some(_))));
        if is_followed {
            // What was given was the key before.
            self.policy.fingerprint = self.policy.fingerprint.map(|_| taken.fingerprint);
        }
        // A new attempt of the same session finds known what the first one noted.
        if is_followed || self.taken.is_none() {
            self.taken = Some(taken);
        }
        Ok(())
    }

    /// The key that was taken.
    pub(crate) fn taken(&self) -> Option<ExecutorKey> {
        self.taken.clone()
    }

    async fn find(&self) -> Result<Option<Pin>, KeyError> {
        let Some(known) = self.policy.known.clone() else {
            return Ok(self.held.clone());
        };
        let Place {
            registry, environment, ..
        } = self.place.clone();
        on_disk(move || known.find(&registry, &environment))
            .await
            .map_err(KeyError::from)
    }

    async fn note(&self, key: &PublicKey, before: Option<PublicKey>) -> Result<(), KnownError> {
        let Some(known) = self.policy.known.clone() else {
            return Ok(());
        };
        let pin = self.place.pin(key);
        on_disk(move || known.note(&pin, before.as_ref())).await
    }
}

impl Place {
    fn new(registry: &str, environment: &EnvironmentId, policy: &KeyPolicy) -> Self {
        // Whoever names a file relies on it.
        let named = policy.known.as_ref().filter(|_| policy.must_remember);
        Self {
            registry: registry.to_owned(),
            environment: environment.clone(),
            known: named.map(|known| known.path().into()),
        }
    }

    /// A key that is remembered for this executor from now on.
    fn pin(&self, key: &PublicKey) -> Pin {
        Pin {
            registry: self.registry.clone(),
            environment: self.environment.clone(),
            key: key.clone(),
            since: time::rfc3339(time::now()),
        }
    }
}

/// Files may hang, and locks are waited for.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, KnownError> + Send + 'static,
) -> Result<T, KnownError> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            std::panic::resume_unwind(error.try_into_panic().unwrap_or_else(|_| Box::new("the runtime ended")))
        }
    }
}

/// The key of a harness: the given one, else a new one that lives as long as its session.
pub(crate) fn own_key(given: Option<&Keyring>) -> Identity {
    given.map_or_else(|| Keyring::ephemeral().current().clone(), |keys| keys.current().clone())
}

#[cfg(test)]
mod tests;
