//! What other connections know of a connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::ticket::Role;
use tokio::sync::Notify;

use super::outbox::{Flushed, Outbox, Room};
use crate::hub::Totals;
use crate::rendezvous::core::ConnectionId;
use crate::rendezvous::gate::Phase;
use crate::rendezvous::queue::Lane;
use crate::websocket::{close_frame, pong_frame};

/// The shared part of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    pub(crate) role: Role,
    outbox: Outbox,
    owner: AtomicWaker,
    totals: Arc<Totals>,
    /// An executor's streams.
    streams: Mutex<HashMap<StreamId, Arc<Stream>>>,
    /// Notified for each pong.
    pub(crate) pongs: Notify,
}

/// A bound stream, shared by both of its connections.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) lane: Lane,
    pub(crate) harness: Arc<Link>,
    phase: AtomicU8,
    unbound: AtomicBool,
}

impl Link {
    pub(crate) fn new(id: ConnectionId, role: Role, outbox: Outbox, totals: Arc<Totals>) -> Self {
        Self {
            id,
            role,
            outbox,
            owner: AtomicWaker::new(),
            totals,
            streams: Mutex::default(),
            pongs: Notify::new(),
        }
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<StreamId, Arc<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream of that name.
    pub(crate) fn stream(&self, id: &str) -> Option<Arc<Stream>> {
        self.streams().get(id).cloned()
    }

    /// Number of bound streams.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams().len()
    }

    /// Lanes of the queue, those of ended streams that still hold something included.
    pub(crate) fn lanes(&self) -> usize {
        self.outbox.lanes()
    }

    /// Binds a stream of this executor.
    pub(crate) fn bind(&self, id: StreamId, lane: Lane, harness: Arc<Self>) {
        self.outbox.open(lane);
        harness.outbox.open(lane);
        let stream = Stream {
            id: id.clone(),
            lane,
            harness,
            phase: AtomicU8::new(Phase::Opening as u8),
            unbound: AtomicBool::new(false),
        };
        self.streams().insert(id, Arc::new(stream));
    }

    /// Unbinds a stream of this executor; see [`Outbox::finish`] for `last`.
    pub(crate) fn unbind(&self, id: &StreamId, lane: Lane, last: Option<Bytes>) {
        {
            let mut streams = self.streams();
            // The name may belong to a newer binding already.
            if let Some(stream) = streams.get(id)
                && stream.lane == lane
            {
                stream.unbound.store(true, Ordering::Release);
                streams.remove(id);
            }
        }
        self.outbox.finish(lane, last, &self.totals.queued, &|| self.wake());
    }

    /// Wakes the connection's own task.
    pub(crate) fn wake(&self) {
        self.owner.wake();
    }

    /// Makes `waker` the one of the connection's own task.
    pub(crate) fn own(&self, waker: &Waker) {
        self.owner.register(waker);
    }

    /// Sends a chunk of a stream.
    pub(crate) fn send(&self, lane: Lane, chunk: Bytes) -> Room {
        self.outbox.send(lane, chunk, &self.totals.queued, &|| self.wake())
    }

    /// Waits until the stream may send again.
    pub(crate) fn poll_room(&self, lane: Lane, cx: &Context<'_>) -> Poll<()> {
        self.outbox.poll_room(lane, &self.totals.queued, cx)
    }

    /// Writes what waits; for the connection's own task.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Flushed> {
        self.outbox.poll_flush(&self.totals.queued, cx)
    }

    /// See [`Outbox::poll_shutdown`].
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.outbox.poll_shutdown(cx)
    }

    /// Answers a ping.
    pub(crate) fn pong(&self, payload: &[u8]) {
        self.outbox
            .pong(pong_frame(payload), &self.totals.queued, &|| self.wake());
    }

    /// Pings the peer.
    pub(crate) fn ping(&self) {
        self.outbox.ping(&self.totals.queued, &|| self.wake());
    }

    /// Closes the connection behind everything that waits for it.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        self.outbox
            .close(close_frame(code, reason), &self.totals.queued, &|| self.wake());
    }

    /// Drops everything that waits; the connection is gone.
    pub(crate) fn abort(&self) {
        self.outbox.abort(&self.totals.queued);
    }

    /// Whether the connection is being closed by this side.
    pub(crate) fn is_closing(&self) -> bool {
        self.outbox.is_closing()
    }

    /// Bytes written so far, and whether anything waits.
    pub(crate) fn progress(&self) -> (u64, bool) {
        self.outbox.progress()
    }
}

impl Stream {
    /// How far the stream has come.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Opening,
            1 => Phase::Pending,
            2 => Phase::Open,
            _ => Phase::Ended,
        }
    }

    /// The stream has come further. An ended stream stays ended.
    pub(crate) fn advance(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// Whether the stream still belongs to its harness.
    pub(crate) fn is_bound(&self) -> bool {
        !self.unbound.load(Ordering::Acquire)
    }
}
