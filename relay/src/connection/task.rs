//! The task of one connection.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use rendezvous_wire::limits::MAX_WS_MESSAGE;
use rendezvous_wire::reason::close;
use tokio::io::AsyncReadExt as _;
use tokio::time::Sleep;

use super::buffers;
use super::halves::ReadHalf;
use super::link::Link;
use super::outbox::Flushed;
use crate::hub::Hub;
use crate::websocket::{Control, Deframer, Progress, Sink};

/// What a peer may send after the relay has decided to close its connection, so that it gets at the close frame. Whoever
/// sends more goes without.
const MAX_DISCARD: usize = 1024 * 1024;
/// Reads before other tasks get their turn.
const MAX_READS: u32 = 8;

/// Why the relay ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
}

/// What differs between executors and harnesses.
pub(crate) trait Side: Sink {
    /// Waits until frames can be taken.
    fn poll_ready(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()>;
    /// Why the connection is to be ended, if it is.
    fn end(&mut self) -> Option<End>;
    /// When [`Side::poll_ready`] has to be called again, whatever happens.
    fn deadline(&self) -> Option<Instant>;
    /// Frames are not taken because of somebody else.
    fn is_stalled(&self) -> bool;
    /// Adds up what was counted since the last call.
    fn count(&mut self);
}

/// Control frames mean the same for both sides.
pub(crate) fn control(link: &Link, control: &Control<'_>) {
    match control {
        Control::Ping(payload) => link.pong(payload),
        Control::Pong => link.pongs.notify_waiters(),
        Control::Close => {}
    }
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Serving,
    /// The close frame is on its way, until then.
    Closing(Instant),
    /// The close frame is written; the peer may hang up, until then.
    Lingering(Instant),
}

/// Reads, answers pings, watches the clock. Ends with the reason for the metrics.
pub(crate) struct Task<S> {
    hub: Arc<Hub>,
    link: Arc<Link>,
    half: ReadHalf,
    side: S,
    deframer: Deframer,
    /// What was received and not worked through.
    rest: BytesMut,
    /// How long the frame at the front of `rest` is, as far as that is known.
    need: usize,
    /// There are whole frames in `rest`.
    pending: bool,
    state: State,
    /// How much was read since the close.
    discarded: usize,
    timer: Pin<Box<Sleep>>,
    next_tick: Instant,
    next_ping: Instant,
    /// A ping has been out since then, and nothing has come.
    silent_since: Option<Instant>,
    /// How much was written when the queue was last seen to move.
    moved: (u64, Instant),
}

impl<S: Side + Unpin> Task<S> {
    /// `early` was received together with the upgrade request.
    pub(crate) fn new(hub: Arc<Hub>, link: Arc<Link>, half: ReadHalf, early: &Bytes, side: S) -> Self {
        let now = Instant::now();
        let next_ping = now + hub.config.times.ping;
        let next_tick = now + tick(&hub);
        Self {
            deframer: Deframer::new(MAX_WS_MESSAGE),
            half,
            side,
            rest: BytesMut::from(&early[..]),
            need: 0,
            pending: !early.is_empty(),
            state: State::Serving,
            discarded: 0,
            timer: Box::pin(tokio::time::sleep_until(next_tick.into())),
            next_tick,
            next_ping,
            silent_since: None,
            moved: (0, now),
            hub,
            link,
        }
    }

    fn close(&mut self, code: u16, reason: &'static str) {
        tracing::debug!(connection = self.link.id.0, code, reason, "closing");
        self.hub.metrics.closing(self.link.role, reason);
        // The others learn at once, not when the peer has taken its leave.
        let (connection, now) = (self.link.id, Instant::now());
        self.hub.core(|core| core.connection_down(connection, now));
        self.link.close(code, reason);
    }

    /// Ready with the reason when the connection is over.
    fn poll_read(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<&'static str> {
        for _ in 0..MAX_READS {
            let ready = self.side.poll_ready(cx, now);
            if let Some(end) = self.side.end() {
                self.close(end.code, end.reason);
                return Poll::Pending;
            }
            if ready.is_pending() {
                return Poll::Pending;
            }
            if !self.pending {
                match self.receive(cx) {
                    Poll::Ready(Ok(true)) => self.silent_since = None,
                    Poll::Ready(Ok(false)) => return Poll::Ready("peer_close"),
                    Poll::Ready(Err(error)) => {
                        tracing::trace!(%error, "read failed");
                        return Poll::Ready("read_error");
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            let progress = self.deframer.process(&mut self.rest, &mut self.side);
            self.side.count();
            self.pending = false;
            let end = match progress {
                Ok(Progress::Need(need)) => {
                    self.need = need;
                    continue;
                }
                Ok(Progress::Full) => {
                    self.pending = true;
                    continue;
                }
                Ok(Progress::Over) => self.side.end().unwrap_or(End {
                    code: close::NORMAL,
                    reason: "",
                }),
                Err(violation) => {
                    tracing::debug!(connection = self.link.id.0, %violation, "protocol violation");
                    End {
                        code: violation.close_code(),
                        reason: "protocol violation",
                    }
                }
            };
            self.close(end.code, end.reason);
            return Poll::Pending;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads behind what is there; false at the end of the stream.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<bool>> {
        let mut buffer = std::mem::take(&mut self.rest);
        if buffer.is_empty() || !buffers::has_room(&buffer, self.need) {
            let mut next = buffers::take(self.need);
            next.extend_from_slice(&buffer);
            buffers::give(buffer);
            buffer = next;
        }
        // This future keeps no state between polls.
        let result = pin!(self.half.read_buf(&mut buffer)).poll(cx);
        self.rest = buffer;
        result.map_ok(|count| count > 0)
    }

    /// Reads and forgets, so that the peer can get at the close frame; true at the end of the stream.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..MAX_READS {
            self.rest.clear();
            if self.discarded > MAX_DISCARD {
                return Poll::Pending;
            }
            match self.receive(cx) {
                Poll::Ready(Ok(true)) => self.discarded += self.rest.len(),
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Looks at pings and writes; gives the reason when the peer is dead.
    fn tick(&mut self, now: Instant) -> Option<&'static str> {
        let times = &self.hub.config.times;
        let (written, waiting) = self.link.progress();
        if !waiting || written != self.moved.0 {
            self.moved = (written, now);
        } else if now.saturating_duration_since(self.moved.1) >= times.write {
            return Some("write_timeout");
        }
        match self.silent_since {
            // What the peer sent cannot be seen while it is not read.
            Some(_) if self.side.is_stalled() => self.silent_since = Some(now),
            Some(since) if now.saturating_duration_since(since) >= times.pong => return Some("pong_timeout"),
            Some(_) => {}
            None if now >= self.next_ping => {
                self.next_ping = now + times.ping;
                self.silent_since = Some(now);
                self.link.ping();
            }
            None => {}
        }
        None
    }

    fn poll_serving(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<&'static str> {
        if let Poll::Ready(reason) = self.poll_read(cx, now) {
            return Poll::Ready(reason);
        }
        if now >= self.next_tick {
            self.next_tick = now + tick(&self.hub);
            if let Some(reason) = self.tick(now) {
                return Poll::Ready(reason);
            }
        }
        let deadline = self
            .side
            .deadline()
            .map_or(self.next_tick, |deadline| deadline.min(self.next_tick));
        self.arm(cx, deadline);
        Poll::Pending
    }

    fn poll_closing(&mut self, cx: &mut Context<'_>, now: Instant, until: Instant) -> Poll<&'static str> {
        if self.poll_discard(cx).is_ready() || now >= until {
            return Poll::Ready("closed");
        }
        self.arm(cx, until);
        Poll::Pending
    }

    /// Makes sure that the task runs at `deadline`.
    fn arm(&mut self, cx: &mut Context<'_>, deadline: Instant) {
        if self.timer.deadline() != deadline.into() {
            self.timer.as_mut().reset(deadline.into());
        }
        if self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

fn tick(hub: &Hub) -> std::time::Duration {
    let times = &hub.config.times;
    times.ping.min(times.pong).min(times.write) / 4
}

impl<S: Side + Unpin> Future for Task<S> {
    type Output = &'static str;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<&'static str> {
        let this = self.get_mut();
        this.link.own(cx.waker());
        let now = Instant::now();
        let flushed = this.link.poll_flush(cx);
        if flushed == Poll::Ready(Flushed::Gone) {
            return Poll::Ready("write_error");
        }
        if this.state == State::Serving {
            if !this.link.is_closing() {
                let poll = this.poll_serving(cx, now);
                this.rest = buffers::keep(std::mem::take(&mut this.rest));
                return poll;
            }
            this.state = State::Closing(now + this.hub.config.times.close);
            this.rest = BytesMut::new();
            this.pending = false;
            this.need = 0;
        }
        if let State::Closing(until) = this.state
            && flushed == Poll::Ready(Flushed::Closed)
        {
            this.state = State::Lingering(until);
        }
        let until = match this.state {
            State::Lingering(until) => {
                let _ = this.link.poll_shutdown(cx);
                until
            }
            State::Closing(until) => until,
            State::Serving => now,
        };
        let poll = this.poll_closing(cx, now, until);
        this.rest = buffers::keep(std::mem::take(&mut this.rest));
        poll
    }
}

impl<S> Drop for Task<S> {
    /// Also when the runtime stops or a bug ends the task: nobody is left bound to a dead connection.
    fn drop(&mut self) {
        self.link.abort();
        let (connection, now) = (self.link.id, Instant::now());
        self.hub.core(|core| core.connection_down(connection, now));
        self.hub.unregister(connection);
    }
}
