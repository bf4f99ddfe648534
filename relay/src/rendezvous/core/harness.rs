//! Harnesses and their streams.

use super::{
    Admission, Bound, Claims, Command, ConnectionId, Core, Harness, Instant, KeyDigest, Kind, Lane, MAX_SUSPENDED,
    Refusal, SUSPENSION, StreamId, Suspended, VALIDATION_TIMEOUT, close, reason,
};

/// A stream that was bound to its harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The stream's place in the executor's queue.
    pub lane: Lane,
    /// The executor knows the stream already: the harness takes it up again.
    pub resumed: bool,
}

/// Why a stream was not bound.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// The id belongs to another harness.
    #[error("stream id is taken")]
    Taken,
    /// The connection was dropped meanwhile.
    #[error("connection is gone")]
    Gone,
}

impl Core {
    /// A harness's WebSocket is open. Gives the executor's connection.
    ///
    /// # Errors
    ///
    /// As [`Core::admit`]: things may have changed since.
    pub fn harness_up(
        &mut self,
        connection: ConnectionId,
        claims: &Claims,
        now: Instant,
    ) -> Result<ConnectionId, Refusal> {
        self.admit(claims, now)?;
        let id = self.executor_for(claims).ok_or(Refusal::Absent)?;
        let executor = self.executors.get_mut(&id).ok_or(Refusal::Absent)?;
        executor.harnesses.insert(connection);
        self.count_up(&claims.sub);
        self.harnesses.insert(
            connection,
            Harness {
                executor: id,
                credential: claims.sub.clone(),
                key: claims.key,
                stream: None,
                asked: false,
                open: false,
                over: false,
            },
        );
        Ok(id)
    }

    /// The first frame of a harness names its stream.
    ///
    /// An id that another connection of the same key holds is taken over and the other connection closed: a harness that
    /// lost its connection comes back before the relay has noticed the loss.
    ///
    /// # Errors
    ///
    /// The connection is to be closed; the holder of a taken id is not disturbed.
    pub fn bind(
        &mut self,
        connection: ConnectionId,
        stream: &StreamId,
        kind: Option<Kind>,
        now: Instant,
    ) -> Result<Opened, BindError> {
        let harness = self.harnesses.get(&connection).ok_or(BindError::Gone)?;
        let (executor_id, key) = (harness.executor, harness.key);
        let executor = self.executors.get(&executor_id).ok_or(BindError::Gone)?;
        let mut resumed = false;
        if let Some(bound) = executor.streams.get(stream) {
            // Only a resume can mean the same stream, and only the same key may.
            if kind != Some(Kind::Resume) || key.is_none() || bound.key != key {
                return Err(BindError::Taken);
            }
            let older = bound.harness;
            resumed = self.harnesses.get(&older).is_some_and(|older| older.open);
            self.close(older, close::GOING_AWAY, "stream taken up by a newer connection");
            self.displace(older);
        }
        let executor = self.executors.get_mut(&executor_id).ok_or(BindError::Gone)?;
        executor.suspended.retain(|suspended| suspended.until > now);
        if let Some(index) = executor
            .suspended
            .iter()
            .position(|suspended| suspended.stream == *stream)
        {
            if kind != Some(Kind::Resume) || key != Some(executor.suspended[index].key) {
                return Err(BindError::Taken);
            }
            executor.suspended.swap_remove(index);
            resumed = true;
        }
        let bound = Bound {
            harness: connection,
            key,
        };
        executor.streams.insert(stream.clone(), bound);
        self.last_lane += 1;
        let lane = Lane(self.last_lane);
        if let Some(harness) = self.harnesses.get_mut(&connection) {
            harness.stream = Some((stream.clone(), lane));
            harness.open = resumed;
        }
        self.commands.push(Command::Bind {
            executor: executor_id,
            harness: connection,
            stream: stream.clone(),
            lane,
        });
        Ok(Opened { lane, resumed })
    }

    /// Whether the harness's handshake may go to the executor now; asked again while it has to wait.
    pub fn ask_handshake(&mut self, connection: ConnectionId, now: Instant) -> Admission {
        // An executor that has as many of a key as it takes resets the next one, which would count as a failure.
        if self.begun_beside(connection) >= self.limits.begun_per_harness_key {
            return Admission::Wait;
        }
        let Some(harness) = self.harnesses.get_mut(&connection) else {
            return Admission::Wait;
        };
        let Some(executor) = self.executors.get_mut(&harness.executor) else {
            return Admission::Wait;
        };
        let recent = self.credentials.recent(&harness.credential, now);
        let limit = self.limits.pending_handshakes_per_executor;
        let admission = executor
            .admissions
            .ask(connection.0, &harness.credential, recent, limit, now);
        harness.asked |= admission == Admission::Go;
        admission
    }

    /// Other streams of the harness's key on its executor whose handshake has been sent, and that are not over.
    fn begun_beside(&self, connection: ConnectionId) -> usize {
        let Some(asking) = self.harnesses.get(&connection) else {
            return 0;
        };
        let Some(executor) = self.executors.get(&asking.executor) else {
            return 0;
        };
        let others = executor.harnesses.iter().filter(|other| **other != connection);
        others
            .filter_map(|other| self.harnesses.get(other))
            .filter(|other| other.key == asking.key && (other.asked || other.open) && !other.over)
            .count()
    }

    /// The executor sent its first frame on the harness's stream.
    pub fn opened(&mut self, connection: ConnectionId) {
        let Some(harness) = self.harnesses.get_mut(&connection) else {
            return;
        };
        harness.open = true;
        if let Some(executor) = self.executors.get_mut(&harness.executor) {
            executor.admissions.opened(connection.0, &harness.credential);
        }
    }

    /// The executor reset the harness's stream. Before its first other frame that is a failed handshake, and it counts
    /// against the harness's credential; unless the harness only wanted to take up a stream that the executor does not have
    /// any more.
    pub fn reset_by_executor(&mut self, connection: ConnectionId, now: Instant) {
        let Some(harness) = self.harnesses.get_mut(&connection) else {
            return;
        };
        harness.over = true;
        if harness.open || !harness.asked {
            return;
        }
        self.credentials.failed(&harness.credential, now);
        if let Some(executor) = self.executors.get_mut(&harness.executor) {
            executor.admissions.failed(connection.0, now);
        }
    }

    /// The harness reset its stream.
    pub fn reset_by_harness(&mut self, connection: ConnectionId, now: Instant) {
        let Some(harness) = self.harnesses.get_mut(&connection) else {
            return;
        };
        harness.over = true;
        if let Some(executor) = self.executors.get_mut(&harness.executor) {
            executor.admissions.abandoned(connection.0, now + VALIDATION_TIMEOUT);
        }
    }

    /// Forgets a harness and tells its executor.
    pub(super) fn drop_harness(&mut self, connection: ConnectionId, reset: &'static str, now: Instant) {
        let Some(harness) = self.harnesses.remove(&connection) else {
            return;
        };
        self.count_down(&harness.credential);
        let Some(executor) = self.executors.get_mut(&harness.executor) else {
            return;
        };
        executor.harnesses.remove(&connection);
        if !harness.open {
            executor.admissions.abandoned(connection.0, now + VALIDATION_TIMEOUT);
        }
        let Some((stream, lane)) = harness.stream else { return };
        executor.streams.remove(&stream);
        if harness.open
            && !harness.over
            && reset != reason::REVOKED
            && let Some(key) = harness.key
        {
            executor.suspend(&stream, key, now);
        }
        self.commands.push(Command::Unbind {
            executor: harness.executor,
            stream,
            lane,
            reset: Some(reset).filter(|_| !harness.over),
        });
    }

    /// Forgets a harness without a word to its executor: its stream goes on with a newer connection, or the executor is gone.
    pub(super) fn displace(&mut self, connection: ConnectionId) {
        let Some(harness) = self.harnesses.remove(&connection) else {
            return;
        };
        self.count_down(&harness.credential);
        let Some(executor) = self.executors.get_mut(&harness.executor) else {
            return;
        };
        executor.harnesses.remove(&connection);
        if let Some((stream, lane)) = harness.stream {
            executor.streams.remove(&stream);
            self.commands.push(Command::Unbind {
                executor: harness.executor,
                stream,
                lane,
                reset: None,
            });
        }
    }
}

impl super::Executor {
    fn suspend(&mut self, stream: &StreamId, key: KeyDigest, now: Instant) {
        if self.suspended.len() >= MAX_SUSPENDED {
            self.suspended.remove(0);
        }
        self.suspended.push(Suspended {
            stream: stream.clone(),
            key,
            until: now + SUSPENSION,
        });
    }
}
