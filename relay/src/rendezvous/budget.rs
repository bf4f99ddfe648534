//! Failed handshakes: how many a credential may cause, and how near an executor is to its limit.
//!
//! An executor stops admitting after eight failures (wire protocol, "Executor behaviour"), for all of its harnesses. A
//! credential gets [`FAILURES_PER_WINDOW`] a minute, handshakes under way included, and is then locked out for a time that
//! doubles with each repetition. When an executor has seen [`TIGHT`] failures in a minute, credentials that contributed wait;
//! at [`CRITICAL`] only credentials that have opened a stream there before are let in.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rendezvous_wire::id::CredentialId;
use rendezvous_wire::limits::MAX_FAILED_HANDSHAKES;

/// What counts as "a minute".
pub const WINDOW: Duration = Duration::from_secs(60);
/// Failures of one credential in [`WINDOW`] before it is locked out; also its handshakes that may be under way at once.
pub const FAILURES_PER_WINDOW: usize = 4;
/// The first lock-out of a credential; it doubles up to [`MAX_LOCKOUT`].
pub const LOCKOUT: Duration = Duration::from_secs(60);
/// The longest lock-out.
pub const MAX_LOCKOUT: Duration = Duration::from_secs(3600);
/// Without a failure and without a lock-out for this long, a credential starts afresh.
pub const FORGIVENESS: Duration = Duration::from_secs(3600);
/// Failures on one executor connection in [`WINDOW`] from which on contributors wait.
pub const TIGHT: usize = MAX_FAILED_HANDSHAKES as usize - 3;
/// Failures on one executor connection in [`WINDOW`] from which on unknown credentials wait.
pub const CRITICAL: usize = MAX_FAILED_HANDSHAKES as usize - 1;
/// Most credentials that are remembered; beyond, those without a lock-out are forgotten first.
pub const MAX_CREDENTIALS: usize = 16_384;
/// Most credentials per executor connection that are remembered as proven.
const MAX_PROVEN: usize = 256;

/// Times of recent failures.
#[derive(Debug, Default)]
struct Recent(VecDeque<Instant>);

impl Recent {
    fn add(&mut self, now: Instant) {
        self.prune(now);
        // Nobody counts further than this.
        if self.0.len() > 2 * CRITICAL {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    fn prune(&mut self, now: Instant) {
        while self
            .0
            .front()
            .is_some_and(|at| now.saturating_duration_since(*at) >= WINDOW)
        {
            self.0.pop_front();
        }
    }

    fn count(&self, now: Instant) -> usize {
        self.0
            .iter()
            .filter(|at| now.saturating_duration_since(**at) < WINDOW)
            .count()
    }
}

impl Record {
    /// The last failure, or the end of the lock-out that it caused.
    fn quiet_since(&self) -> Option<Instant> {
        self.last.max(self.locked_until)
    }
}

/// The failures of all credentials.
#[derive(Debug, Default)]
pub struct Credentials(HashMap<CredentialId, Record>);

#[derive(Debug, Default)]
struct Record {
    recent: Recent,
    last: Option<Instant>,
    locked_until: Option<Instant>,
    lockouts: u32,
}

impl Credentials {
    /// Counts a failure.
    pub fn failed(&mut self, credential: &CredentialId, now: Instant) {
        if self.0.len() >= MAX_CREDENTIALS && !self.0.contains_key(credential) {
            self.forget(now);
        }
        let record = self.0.entry(credential.clone()).or_default();
        if record
            .quiet_since()
            .is_some_and(|since| now.saturating_duration_since(since) >= FORGIVENESS)
        {
            *record = Record::default();
        }
        record.last = Some(now);
        record.recent.add(now);
        if record.recent.count(now) >= FAILURES_PER_WINDOW {
            let time = LOCKOUT.saturating_mul(1 << record.lockouts.min(16)).min(MAX_LOCKOUT);
            record.locked_until = Some(now + time);
            record.lockouts += 1;
            record.recent = Recent::default();
        }
    }

    /// How long the credential is still locked out.
    pub fn locked(&self, credential: &CredentialId, now: Instant) -> Option<Duration> {
        let until = self.0.get(credential)?.locked_until?;
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// Failures that still count.
    pub fn recent(&self, credential: &CredentialId, now: Instant) -> usize {
        self.0.get(credential).map_or(0, |record| record.recent.count(now))
    }

    fn forget(&mut self, now: Instant) {
        self.0
            .retain(|_, record| record.locked_until.is_some_and(|until| until > now) || record.recent.count(now) > 0);
        if self.0.len() >= MAX_CREDENTIALS {
            self.0
                .retain(|_, record| record.locked_until.is_some_and(|until| until > now));
        }
        if self.0.len() >= MAX_CREDENTIALS {
            self.0.clear();
        }
    }
}

/// Handshakes and failures on one executor connection.
#[derive(Debug, Default)]
pub struct Admissions {
    failures: Recent,
    /// Credentials that have opened a stream here.
    proven: Vec<CredentialId>,
    /// Handshakes without an answer: whose, and until when they count if their harness has left.
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct Pending {
    connection: u64,
    credential: CredentialId,
    abandoned: Option<Instant>,
}

/// Whether another handshake may be sent to the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes; it is counted as pending from now on.
    Go,
    /// Not yet.
    Wait,
}

impl Admissions {
    /// Asks for a place for one handshake. `recent` are the credential's failures so far, `limit` is how many handshakes may
    /// be pending in all.
    pub fn ask(
        &mut self,
        connection: u64,
        credential: &CredentialId,
        recent: usize,
        limit: usize,
        now: Instant,
    ) -> Admission {
        self.pending
            .retain(|pending| pending.abandoned.is_none_or(|until| until > now));
        let own = self
            .pending
            .iter()
            .filter(|pending| pending.credential == *credential)
            .count();
        let failures = self.failures.count(now);
        let proven = self.proven.contains(credential);
        // Every pending handshake of somebody who is not proven may become a failure.
        let doubtful = self
            .pending
            .iter()
            .filter(|pending| !self.proven.contains(&pending.credential))
            .count();
        let refused = own + recent >= FAILURES_PER_WINDOW
            || self.pending.len() >= limit
            || (failures >= TIGHT && recent > 0)
            || (failures + doubtful >= CRITICAL && !proven);
        if refused {
            return Admission::Wait;
        }
        self.pending.push(Pending {
            connection,
            credential: credential.clone(),
            abandoned: None,
        });
        Admission::Go
    }

    /// The executor opened the stream.
    pub fn opened(&mut self, connection: u64, credential: &CredentialId) {
        self.pending.retain(|pending| pending.connection != connection);
        if !self.proven.contains(credential) {
            if self.proven.len() >= MAX_PROVEN {
                self.proven.remove(0);
            }
            self.proven.push(credential.clone());
        }
    }

    /// The executor refused the stream.
    pub fn failed(&mut self, connection: u64, now: Instant) {
        self.pending.retain(|pending| pending.connection != connection);
        self.failures.add(now);
    }

    /// The harness left without an answer. The executor's check goes on for a while and keeps its place.
    pub fn abandoned(&mut self, connection: u64, until: Instant) {
        for pending in &mut self.pending {
            if pending.connection == connection {
                pending.abandoned.get_or_insert(until);
            }
        }
    }
}

#[cfg(test)]
mod tests;
