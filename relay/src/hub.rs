//! What all connections of a relay share: the routing core, the links, the totals.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut as _, Bytes, BytesMut};
use rendezvous_wire::control::{FromRelay, Presence};
use rendezvous_wire::frame::Frame;
use rendezvous_wire::id::{BootId, StreamId};
use tokio::sync::Notify;

use crate::config::Config;
use crate::connection::link::Link;
use crate::metrics::Metrics;
use crate::rendezvous::core::{Command, ConnectionId, Core};
use crate::websocket::server_header;

/// Presence messages that wait for the registry; beyond, the whole presence is told again.
pub(crate) const MAX_EVENTS: usize = 4096;

/// Sums over all connections.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// What waits in all queues, in bytes with overhead.
    pub(crate) queued: AtomicUsize,
}

/// The shared state of one relay.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) config: Config,
    pub(crate) boot_id: BootId,
    pub(crate) metrics: Metrics,
    pub(crate) totals: Arc<Totals>,
    /// Something about who is connected, or who may connect, has changed.
    pub(crate) changed: Notify,
    core: Mutex<Core>,
    links: Mutex<HashMap<ConnectionId, Arc<Link>>>,
    last_connection: AtomicU64,
    events: Mutex<Events>,
    /// There are events for the registry.
    pub(crate) told: Notify,
}

/// What the registry has not been told.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<FromRelay>,
    /// Some were dropped.
    overflow: bool,
}

impl Hub {
    pub(crate) fn new(config: Config, boot_id: BootId) -> Self {
        Self {
            core: Mutex::new(Core::new(config.limits.clone())),
            config,
            boot_id,
            metrics: Metrics::new(),
            totals: Arc::default(),
            changed: Notify::new(),
            links: Mutex::default(),
            last_connection: AtomicU64::new(0),
            events: Mutex::default(),
            told: Notify::new(),
        }
    }

    /// A number for a new connection.
    pub(crate) fn next_connection(&self) -> ConnectionId {
        ConnectionId(self.last_connection.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn register(&self, link: Arc<Link>) {
        lock(&self.links).insert(link.id, link);
    }

    pub(crate) fn unregister(&self, connection: ConnectionId) {
        lock(&self.links).remove(&connection);
    }

    pub(crate) fn link(&self, connection: ConnectionId) -> Option<Arc<Link>> {
        lock(&self.links).get(&connection).cloned()
    }

    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.links).values().cloned().collect()
    }

    /// Asks or tells the core, and does what it commands.
    pub(crate) fn core<R>(&self, input: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = lock(&self.core);
        let result = input(&mut core);
        let mut commands = core.take_commands();
        let presences = commands.extract_if(.., |command| matches!(command, Command::Presence(..)));
        let presences: Vec<_> = presences.collect();
        // Under the lock, so that what happened first is told and done first: a stream's end must not come before its
        // beginning. Nothing that is done asks the core.
        if !presences.is_empty() {
            self.tell(presences);
        }
        for command in commands {
            self.execute(command);
        }
        drop(core);
        result
    }

    fn execute(&self, command: Command) {
        match command {
            Command::Close {
                connection,
                code,
                reason,
            } => {
                if let Some(link) = self.link(connection) {
                    self.metrics.closing(link.role, reason);
                    link.close(code, reason);
                }
            }
            Command::Bind {
                executor,
                harness,
                stream,
                lane,
            } => {
                if let (Some(executor), Some(harness)) = (self.link(executor), self.link(harness)) {
                    executor.bind(stream, lane, harness);
                }
            }
            Command::Unbind {
                executor,
                stream,
                lane,
                reset,
            } => {
                if let Some(executor) = self.link(executor) {
                    if reset.is_some() {
                        self.metrics.resets.increment(1);
                    }
                    let last = reset.map(|reason| reset_frame(stream.clone(), reason));
                    executor.unbind(&stream, lane, last);
                }
            }
            Command::Presence(..) => {}
        }
    }

    fn tell(&self, presences: Vec<Command>) {
        let mut events = lock(&self.events);
        for command in presences {
            let Command::Presence(up, presence) = command else {
                continue;
            };
            if events.waiting.len() >= MAX_EVENTS {
                events.overflow = true;
                events.waiting.clear();
            }
            events.waiting.push_back(match up {
                true => FromRelay::ExecutorUp(presence),
                false => FromRelay::ExecutorDown(presence),
            });
        }
        drop(events);
        self.told.notify_one();
        self.changed.notify_waiters();
    }

    /// The next event for the registry; an error when events were lost.
    pub(crate) fn next_event(&self) -> Result<Option<FromRelay>, EventsLost> {
        let mut events = lock(&self.events);
        if events.overflow {
            return Err(EventsLost);
        }
        Ok(events.waiting.pop_front())
    }

    /// Every executor that is connected; events before this moment are part of it.
    pub(crate) fn presences(&self) -> Vec<Presence> {
        let core = lock(&self.core);
        *lock(&self.events) = Events::default();
        core.presences()
    }
}

/// So many events came while the registry did not take them that some were dropped: everything has to be told again.
#[derive(Debug)]
pub(crate) struct EventsLost;

/// A Reset as it is written to an executor.
fn reset_frame(stream: StreamId, reason: &str) -> Bytes {
    let frame = Frame::reset(stream, reason).to_bytes();
    let (header, len) = server_header(frame.len());
    let mut bytes = BytesMut::with_capacity(len + frame.len());
    bytes.put_slice(&header[..len]);
    bytes.put_slice(&frame);
    bytes.freeze()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
