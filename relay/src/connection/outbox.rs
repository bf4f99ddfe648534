//! What waits to be written to a socket, and who writes it.
//!
//! The lock is held to put chunks in and take chunks out, never while writing: whoever writes owns the [`Writer`] meanwhile,
//! and everybody else only adds to the queue.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes};

use super::buffers::detach;
use super::halves::WriteHalf;
use crate::rendezvous::queue::{FairQueue, Lane};
use crate::websocket::ping_frame;

/// Most chunks in one write.
const MAX_SLICES: usize = 64;
/// Bytes after which no more chunks are added to a write. So what a writer holds is less than twice this.
const MAX_WRITE: usize = 256 * 1024;
/// Writes that a reader of another connection does before the connection's own task has to go on.
const MAX_FOREIGN_WRITES: u32 = 8;

/// Bounds of a queue, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// For one stream.
    pub(crate) lane: usize,
    /// For all streams of the connection.
    pub(crate) connection: usize,
    /// For all connections of the relay.
    pub(crate) total: usize,
}

/// Whether more may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Yes.
    Free,
    /// The queue is full: wait with [`Outbox::poll_room`].
    Full,
}

/// What the owner of the socket learns when it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything is written.
    Idle,
    /// The close frame is written.
    Closed,
    /// Somebody else is writing.
    Elsewhere,
    /// The socket is broken, or the connection was aborted.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Writer {
    half: WriteHalf,
    chunks: VecDeque<Bytes>,
}

#[derive(Debug)]
struct State {
    queue: FairQueue,
    /// Here while nobody writes.
    writer: Option<Writer>,
    /// The socket is full, or the owner has to go on: only the owner writes.
    blocked: bool,
    /// The answer to the last ping; an older one need not be answered.
    pong: Option<Bytes>,
    ping: bool,
    close: Option<Bytes>,
    /// Nothing more is taken.
    closing: bool,
    close_written: bool,
    gone: bool,
    /// Bytes written so far.
    written: u64,
}

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    bounds: Bounds,
}

impl Outbox {
    pub(crate) fn new(half: WriteHalf, bounds: Bounds) -> Self {
        let writer = Writer {
            half,
            chunks: VecDeque::new(),
        };
        Self {
            state: Mutex::new(State {
                queue: FairQueue::default(),
                writer: Some(writer),
                blocked: false,
                pong: None,
                ping: false,
                close: None,
                closing: false,
                close_written: false,
                gone: false,
                written: 0,
            }),
            bounds,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a lane.
    pub(crate) fn open(&self, lane: Lane) {
        self.lock().queue.open(lane);
    }

    /// Lanes in use, those of ended streams that still hold something included.
    pub(crate) fn lanes(&self) -> usize {
        self.lock().queue.lanes()
    }

    /// Sends a chunk. It is written at once if possible. A chunk for an ended stream is dropped.
    pub(crate) fn send(&self, lane: Lane, chunk: Bytes, total: &AtomicUsize, owner: &dyn Fn()) -> Room {
        self.change(total, owner, |state, bounds| {
            if state.closing || state.gone {
                return Room::Free;
            }
            // Written right now, or kept: then it must not hold a whole read buffer.
            let direct = state.writer.is_some() && !state.blocked && state.queue.is_empty();
            let chunk = if direct { chunk } else { detach(chunk) };
            state.queue.push(lane, chunk);
            if direct || bounds.have_room(&state.queue, lane, total) {
                Room::Free
            } else {
                Room::Full
            }
        })
    }

    /// Ends a lane: `last` is sent behind what waits, or what waits is dropped when there is no `last`.
    pub(crate) fn finish(&self, lane: Lane, last: Option<Bytes>, total: &AtomicUsize, owner: &dyn Fn()) {
        self.change(total, owner, |state, _| match last {
            Some(last) => state.queue.finish(lane, Some(last)),
            None => state.queue.remove(lane),
        });
    }

    /// Sends a pong.
    pub(crate) fn pong(&self, frame: Bytes, total: &AtomicUsize, owner: &dyn Fn()) {
        self.change(total, owner, |state, _| state.pong = Some(frame));
    }

    /// Sends a ping.
    pub(crate) fn ping(&self, total: &AtomicUsize, owner: &dyn Fn()) {
        self.change(total, owner, |state, _| state.ping = true);
    }

    /// Sends `frame` behind everything that waits; nothing is taken from now on. Only the first close counts.
    pub(crate) fn close(&self, frame: Bytes, total: &AtomicUsize, owner: &dyn Fn()) {
        self.change(total, owner, |state, _| {
            if !state.closing {
                state.closing = true;
                state.close = Some(frame);
            }
        });
        owner();
    }

    /// Drops everything; the connection is gone.
    pub(crate) fn abort(&self, total: &AtomicUsize) {
        let mut state = self.lock();
        state.gone = true;
        state.closing = true;
        total.fetch_sub(state.queue.cost(), Ordering::Relaxed);
        state.queue.clear();
        state.writer = None;
    }

    /// Whether nothing is taken any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Bytes written so far, and whether anything waits.
    pub(crate) fn progress(&self) -> (u64, bool) {
        let state = self.lock();
        (state.written, state.blocked || !state.queue.is_empty())
    }

    /// Waits until the lane has room again.
    pub(crate) fn poll_room(&self, lane: Lane, total: &AtomicUsize, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.closing || state.gone || self.bounds.have_room(&state.queue, lane, total) {
            return Poll::Ready(());
        }
        state.queue.wait(lane, cx.waker());
        Poll::Pending
    }

    /// The owner writes what waits.
    pub(crate) fn poll_flush(&self, total: &AtomicUsize, cx: &mut Context<'_>) -> Poll<Flushed> {
        let mut state = self.lock();
        if state.gone {
            return Poll::Ready(Flushed::Gone);
        }
        let Some(mut writer) = state.writer.take() else {
            return Poll::Ready(Flushed::Elsewhere);
        };
        // The TLS layer may hold something even when no chunk is left.
        let was_blocked = std::mem::take(&mut state.blocked);
        let wake = self.fill(&mut state, &mut writer, total);
        if writer.chunks.is_empty() && !was_blocked {
            let closed = state.close_written;
            state.writer = Some(writer);
            return Poll::Ready(if closed { Flushed::Closed } else { Flushed::Idle });
        }
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        self.write(writer, total, cx, None)
    }

    /// Says to the peer that nothing more comes. For the owner, after [`Flushed::Closed`].
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        match &mut state.writer {
            Some(writer) => writer.half.poll_shutdown(cx).map(|_| ()),
            None => Poll::Ready(()),
        }
    }

    /// Changes the state, and writes if that is possible.
    fn change<R>(&self, total: &AtomicUsize, owner: &dyn Fn(), change: impl FnOnce(&mut State, &Bounds) -> R) -> R {
        let mut state = self.lock();
        let before = state.queue.cost();
        let result = change(&mut state, &self.bounds);
        let writer = if state.blocked { None } else { state.writer.take() };
        let Some(mut writer) = writer else {
            account(total, before, state.queue.cost());
            return result;
        };
        let mut wake = Vec::new();
        state.fill(&mut writer, self.bounds.lane / 2, &mut wake);
        account(total, before, state.queue.cost());
        if writer.chunks.is_empty() {
            state.writer = Some(writer);
            return result;
        }
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        let mut cx = Context::from_waker(Waker::noop());
        // The owner learns of what is left, or of an error, through its own poll.
        if self.write(writer, total, &mut cx, Some(MAX_FOREIGN_WRITES)) != Poll::Ready(Flushed::Idle) {
            owner();
        }
        result
    }

    fn fill(&self, state: &mut State, writer: &mut Writer, total: &AtomicUsize) -> Vec<Waker> {
        let before = state.queue.cost();
        let mut wake = Vec::new();
        state.fill(writer, self.bounds.lane / 2, &mut wake);
        account(total, before, state.queue.cost());
        wake
    }

    /// Writes until the queue is empty or the socket is full. `rounds` bounds the writes of somebody else than the owner.
    fn write(
        &self,
        mut writer: Writer,
        total: &AtomicUsize,
        cx: &mut Context<'_>,
        mut rounds: Option<u32>,
    ) -> Poll<Flushed> {
        loop {
            let mut written = 0;
            let result = writer.poll(cx, &mut written);
            let mut state = self.lock();
            state.written += written;
            if state.gone {
                return Poll::Ready(Flushed::Gone);
            }
            match result {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    tracing::trace!(%error, "write failed");
                    drop(state);
                    self.abort(total);
                    return Poll::Ready(Flushed::Gone);
                }
                Poll::Pending => {
                    if rounds.is_some() {
                        writer.detach();
                    }
                    state.blocked = true;
                    state.writer = Some(writer);
                    return Poll::Pending;
                }
            }
            let wake = self.fill(&mut state, &mut writer, total);
            let idle = writer.chunks.is_empty();
            if idle {
                let closed = state.close_written;
                state.writer = Some(writer);
                drop(state);
                wake.into_iter().for_each(Waker::wake);
                return Poll::Ready(if closed { Flushed::Closed } else { Flushed::Idle });
            }
            if let Some(rounds) = &mut rounds {
                *rounds = rounds.saturating_sub(1);
                if *rounds == 0 {
                    writer.detach();
                    state.blocked = true;
                    state.writer = Some(writer);
                    drop(state);
                    wake.into_iter().for_each(Waker::wake);
                    return Poll::Pending;
                }
            }
            drop(state);
            wake.into_iter().for_each(Waker::wake);
        }
    }
}

fn account(total: &AtomicUsize, before: usize, after: usize) {
    if after > before {
        total.fetch_add(after - before, Ordering::Relaxed);
    } else if before > after {
        total.fetch_sub(before - after, Ordering::Relaxed);
    }
}

impl Bounds {
    fn have_room(&self, queue: &FairQueue, lane: Lane, total: &AtomicUsize) -> bool {
        let own = queue.lane_cost(lane);
        // A lane in which nothing waits may always send, so that nobody waits without being woken.
        own == 0 || (own <= self.lane && queue.cost() <= self.connection && total.load(Ordering::Relaxed) <= self.total)
    }
}

impl State {
    /// Moves what is to be written next into the writer.
    fn fill(&mut self, writer: &mut Writer, room: usize, wake: &mut Vec<Waker>) {
        writer.chunks.extend(self.pong.take());
        if std::mem::take(&mut self.ping) {
            writer.chunks.push_back(ping_frame());
        }
        // Whoever waits because of the connection's or the relay's bound is woken when its own lane is nearly empty.
        self.queue.pop(&mut writer.chunks, MAX_SLICES, MAX_WRITE, room, wake);
        if self.queue.is_empty()
            && let Some(close) = self.close.take()
        {
            writer.chunks.push_back(close);
            self.close_written = true;
        }
    }
}

impl Writer {
    /// Writes all chunks.
    fn poll(&mut self, cx: &mut Context<'_>, written: &mut u64) -> Poll<io::Result<()>> {
        while !self.chunks.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let mut used = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                *slice = IoSlice::new(chunk);
                used += 1;
            }
            match self.half.poll_write(cx, &slices[..used]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    *written += count as u64;
                    self.advance(count);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.half.poll_flush(cx)
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0
            && let Some(front) = self.chunks.front_mut()
        {
            if front.len() > count {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.chunks.pop_front();
        }
    }

    /// What has to wait must not hold whole read buffers.
    fn detach(&mut self) {
        for chunk in &mut self.chunks {
            *chunk = detach(std::mem::take(chunk));
        }
    }
}
