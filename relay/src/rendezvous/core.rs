//! Who is connected, which stream belongs to whom, and what follows when somebody leaves.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rendezvous_wire::control::Presence;
use rendezvous_wire::frame::peek::Kind;
use rendezvous_wire::id::{CredentialId, EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::limits::{EXECUTOR_TICKET_LIFETIME, VALIDATION_TIMEOUT};
use rendezvous_wire::reason::{self, close};
use rendezvous_wire::ticket::{Claims, Role};

use super::budget::{Admission, Admissions, Credentials};
use super::queue::Lane;
use crate::config::Limits;

mod harness;

/// Most environments whose newest generation is remembered without an executor.
pub const MAX_ENVIRONMENTS: usize = 65_536;
/// Most revoked credentials that are remembered, each for as long as a ticket may live that it got before.
pub const MAX_REVOKED: usize = 65_536;
/// How many streams that lost their harness are remembered per executor connection, and for how long, so that the same
/// harness can take its stream up again.
pub const MAX_SUSPENDED: usize = 256;
/// See [`MAX_SUSPENDED`].
pub const SUSPENSION: Duration = Duration::from_secs(120);

/// One WebSocket at this relay. Numbers grow and are never used twice within one relay process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Why nobody gets in. The first group is answered with 401, the second with 429, the third with 503.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The credential was revoked.
    #[error("credential revoked")]
    Revoked,
    /// A newer registration has the environment.
    #[error("registration superseded")]
    Superseded,
    /// The harness's credential caused too many failed handshakes.
    #[error("too many failed handshakes")]
    LockedOut(Duration),
    /// The credential has too many connections.
    #[error("too many connections of this credential")]
    TooManyOfCredential,
    /// The harness key has too many streams on the executor connection.
    #[error("too many streams of this harness key on this executor")]
    TooManyOfKey,
    /// The executor connection has too many harnesses.
    #[error("too many streams on this executor")]
    TooManyStreams,
    /// The relay has too many connections.
    #[error("too many connections")]
    TooMany,
    /// The executor is away.
    #[error("executor is away")]
    Absent,
    /// The relay is stopping.
    #[error("relay is stopping")]
    Draining,
}

/// What the shell has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Write what waits for the connection, then close it.
    Close {
        /// Which connection.
        connection: ConnectionId,
        /// The close code.
        code: u16,
        /// The close reason.
        reason: &'static str,
    },
    /// Frames of this stream from the executor go to this harness from now on.
    Bind {
        /// The executor's connection.
        executor: ConnectionId,
        /// The harness's connection.
        harness: ConnectionId,
        /// The stream.
        stream: StreamId,
        /// The stream's place in the executor's queue.
        lane: Lane,
    },
    /// Frames of this stream from the executor go nowhere from now on. With a reason, the executor gets a Reset behind
    /// everything that still waits for it; without one, what waits is dropped.
    Unbind {
        /// The executor's connection.
        executor: ConnectionId,
        /// The stream.
        stream: StreamId,
        /// The stream's place in the executor's queue.
        lane: Lane,
        /// Why the executor is told that the stream is over.
        reset: Option<&'static str>,
    },
    /// An executor came (true) or went (false).
    Presence(bool, Presence),
}

/// The routing state of one relay.
#[derive(Debug)]
pub struct Core {
    limits: Limits,
    environments: HashMap<EnvironmentId, Environment>,
    executors: HashMap<ConnectionId, Executor>,
    harnesses: HashMap<ConnectionId, Harness>,
    /// Connections per credential.
    connections: HashMap<CredentialId, usize>,
    credentials: Credentials,
    /// Revoked credentials, and when that was told.
    revoked: HashMap<CredentialId, Instant>,
    draining: bool,
    last_lane: u64,
    commands: Vec<Command>,
}

#[derive(Debug, Default)]
struct Environment {
    /// The newest registration known; older ones are out.
    generation: u64,
    executor: Option<ConnectionId>,
}

#[derive(Debug)]
struct Executor {
    presence: Presence,
    credential: CredentialId,
    streams: HashMap<StreamId, Bound>,
    harnesses: HashSet<ConnectionId>,
    suspended: Vec<Suspended>,
    admissions: Admissions,
}

#[derive(Debug)]
struct Bound {
    harness: ConnectionId,
    key: Option<KeyDigest>,
}

/// A stream that was open when its harness left.
#[derive(Debug)]
struct Suspended {
    stream: StreamId,
    key: KeyDigest,
    until: Instant,
}

#[derive(Debug)]
struct Harness {
    executor: ConnectionId,
    credential: CredentialId,
    key: Option<KeyDigest>,
    stream: Option<(StreamId, Lane)>,
    /// Its handshake may have gone to the executor.
    asked: bool,
    /// The executor answered.
    open: bool,
    /// Reset by one of the ends: the executor needs no word when the harness leaves.
    over: bool,
}

impl Core {
    /// An empty relay.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            environments: HashMap::new(),
            executors: HashMap::new(),
            harnesses: HashMap::new(),
            connections: HashMap::new(),
            credentials: Credentials::default(),
            revoked: HashMap::new(),
            draining: false,
            last_lane: 0,
            commands: Vec::new(),
        }
    }

    /// What is to be done since the last call.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Every executor that is connected.
    pub fn presences(&self) -> Vec<Presence> {
        self.executors
            .values()
            .map(|executor| executor.presence.clone())
            .collect()
    }

    /// Numbers of executor and harness connections.
    pub fn counts(&self) -> (usize, usize) {
        (self.executors.len(), self.harnesses.len())
    }

    /// The connection of a registration's executor.
    pub fn executor_of(&self, registration: &RegistrationId) -> Option<ConnectionId> {
        let mut executors = self.executors.iter();
        executors
            .find(|(_, executor)| executor.presence.registration == *registration)
            .map(|(connection, _)| *connection)
    }

    /// Whether a holder of these claims may connect now. [`Refusal::Absent`] may pass with time.
    ///
    /// # Errors
    ///
    /// Says why not.
    pub fn admit(&self, claims: &Claims, now: Instant) -> Result<(), Refusal> {
        if self.draining {
            return Err(Refusal::Draining);
        }
        if self.revoked.contains_key(&claims.sub) {
            return Err(Refusal::Revoked);
        }
        let environment = self.environments.get(&claims.env);
        let newest = environment.map_or(0, |environment| environment.generation);
        if claims.generation < newest {
            return Err(Refusal::Superseded);
        }
        if self.executors.len() + self.harnesses.len() >= self.limits.connections {
            return Err(Refusal::TooMany);
        }
        if self
            .connections
            .get(&claims.sub)
            .is_some_and(|count| *count >= self.limits.connections_per_credential)
        {
            return Err(Refusal::TooManyOfCredential);
        }
        if claims.role == Role::Executor {
            return Ok(());
        }
        if let Some(left) = self.credentials.locked(&claims.sub, now) {
            return Err(Refusal::LockedOut(left));
        }
        let executor = self.executor_for(claims).ok_or(Refusal::Absent)?;
        match self.executors.get(&executor) {
            Some(executor) if executor.harnesses.len() >= self.limits.streams_per_executor => {
                Err(Refusal::TooManyStreams)
            }
            Some(executor) if self.streams_of(executor, claims.key) >= self.limits.streams_per_harness_key => {
                Err(Refusal::TooManyOfKey)
            }
            _ => Ok(()),
        }
    }

    /// Connections to an executor that one harness key holds.
    fn streams_of(&self, executor: &Executor, key: Option<KeyDigest>) -> usize {
        let harnesses = executor.harnesses.iter().filter_map(|id| self.harnesses.get(id));
        harnesses.filter(|harness| harness.key == key).count()
    }

    fn executor_for(&self, claims: &Claims) -> Option<ConnectionId> {
        let connection = self.environments.get(&claims.env)?.executor?;
        let executor = self.executors.get(&connection)?;
        (executor.presence.registration == claims.reg).then_some(connection)
    }

    /// An executor's WebSocket is open. An older one of the same environment is closed.
    ///
    /// # Errors
    ///
    /// As [`Core::admit`]: things may have changed since.
    pub fn executor_up(&mut self, connection: ConnectionId, claims: &Claims, now: Instant) -> Result<(), Refusal> {
        self.admit(claims, now)?;
        self.make_room_for_environment(&claims.env);
        let environment = self.environments.entry(claims.env.clone()).or_default();
        environment.generation = claims.generation;
        if let Some(older) = environment.executor.replace(connection) {
            self.drop_executor(older, Some("replaced by a newer connection"));
        }
        let presence = Presence {
            environment: claims.env.clone(),
            registration: claims.reg.clone(),
            generation: claims.generation,
            connection: connection.0,
        };
        self.count_up(&claims.sub);
        self.executors.insert(
            connection,
            Executor {
                presence: presence.clone(),
                credential: claims.sub.clone(),
                streams: HashMap::new(),
                harnesses: HashSet::new(),
                suspended: Vec::new(),
                admissions: Admissions::default(),
            },
        );
        self.commands.push(Command::Presence(true, presence));
        Ok(())
    }

    /// A connection has ended, for whatever reason.
    pub fn connection_down(&mut self, connection: ConnectionId, now: Instant) {
        if self.harnesses.contains_key(&connection) {
            self.drop_harness(connection, reason::HARNESS_GONE, now);
        } else {
            self.drop_executor(connection, None);
        }
    }

    /// Forgets an executor and closes its harnesses; with `close` also its own connection.
    fn drop_executor(&mut self, connection: ConnectionId, close: Option<&'static str>) {
        let Some(executor) = self.executors.get(&connection) else {
            return;
        };
        let mut harnesses: Vec<_> = executor.harnesses.iter().copied().collect();
        harnesses.sort_unstable();
        if let Some(reason) = close {
            self.close(connection, close::GOING_AWAY, reason);
        }
        for harness in harnesses {
            self.close(harness, close::TRY_AGAIN, reason::EXECUTOR_GONE);
            // The executor itself needs no resets any more.
            self.displace(harness);
        }
        let Some(executor) = self.executors.remove(&connection) else {
            return;
        };
        self.count_down(&executor.credential);
        if let Some(environment) = self.environments.get_mut(&executor.presence.environment)
            && environment.executor == Some(connection)
        {
            environment.executor = None;
        }
        self.commands.push(Command::Presence(false, executor.presence));
    }

    /// Closes a harness's connection and tells its executor `reason`.
    pub fn cut(&mut self, connection: ConnectionId, code: u16, reason: &'static str, now: Instant) {
        if self.harnesses.contains_key(&connection) {
            self.close(connection, code, reason);
            self.drop_harness(connection, reason, now);
        }
    }

    /// Cuts a credential's connections and refuses its tickets from now on.
    pub fn revoke(&mut self, credential: &CredentialId, now: Instant) {
        if self.revoked.len() >= MAX_REVOKED {
            // Their last tickets have ended meanwhile.
            self.revoked
                .retain(|_, told| now.saturating_duration_since(*told) < EXECUTOR_TICKET_LIFETIME);
        }
        if self.revoked.len() < MAX_REVOKED || self.revoked.contains_key(credential) {
            self.revoked.insert(credential.clone(), now);
        } else {
            tracing::warn!(limit = MAX_REVOKED, "too many revoked credentials to remember");
        }
        let own = self
            .harnesses
            .iter()
            .filter(|(_, harness)| harness.credential == *credential);
        let harnesses: Vec<_> = own.map(|(connection, _)| *connection).collect();
        for connection in harnesses {
            self.close(connection, close::POLICY, reason::REVOKED);
            self.drop_harness(connection, reason::REVOKED, now);
        }
        let own = self
            .executors
            .iter()
            .filter(|(_, executor)| executor.credential == *credential);
        let executors: Vec<_> = own.map(|(connection, _)| *connection).collect();
        for connection in executors {
            self.close(connection, close::POLICY, reason::REVOKED);
            self.drop_executor(connection, None);
        }
    }

    /// Replaces the list of revoked credentials and cuts those that are new on it.
    pub fn set_revoked(&mut self, revoked: &[CredentialId], now: Instant) {
        let known = revoked.iter().take(MAX_REVOKED);
        self.revoked = known.map(|credential| (credential.clone(), now)).collect();
        for credential in revoked {
            if self.connections.contains_key(credential) {
                self.revoke(credential, now);
            }
        }
    }

    /// Registrations of the environment before `generation` are out.
    pub fn supersede(&mut self, environment: &EnvironmentId, generation: u64) {
        self.make_room_for_environment(environment);
        let known = self.environments.entry(environment.clone()).or_default();
        known.generation = known.generation.max(generation);
        let generation = known.generation;
        if let Some(connection) = known.executor
            && self
                .executors
                .get(&connection)
                .is_some_and(|executor| executor.presence.generation < generation)
        {
            self.drop_executor(connection, Some("superseded by a newer registration"));
        }
    }

    /// The environment was deleted: connections and tickets of its registrations up to `generation` are out for good.
    /// Registrations of a new environment with the same id have higher numbers.
    pub fn forget(&mut self, environment: &EnvironmentId, generation: u64) {
        self.supersede(environment, generation.saturating_add(1));
    }

    /// The relay is stopping: nobody gets in from now on. Connections are the shell's to close.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    fn close(&mut self, connection: ConnectionId, code: u16, reason: &'static str) {
        self.commands.push(Command::Close {
            connection,
            code,
            reason,
        });
    }

    fn count_up(&mut self, credential: &CredentialId) {
        *self.connections.entry(credential.clone()).or_default() += 1;
    }

    fn count_down(&mut self, credential: &CredentialId) {
        if let Some(count) = self.connections.get_mut(credential) {
            *count -= 1;
            if *count == 0 {
                self.connections.remove(credential);
            }
        }
    }

    fn make_room_for_environment(&mut self, environment: &EnvironmentId) {
        if self.environments.len() >= MAX_ENVIRONMENTS && !self.environments.contains_key(environment) {
            self.environments
                .retain(|_, environment| environment.executor.is_some());
        }
    }
}

#[cfg(test)]
mod tests;
