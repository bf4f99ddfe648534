//! An executor's connection: many streams, each of whose frames go to its harness.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_wire::frame::peek::{self, Kind};
use rendezvous_wire::reason::{self, close};

use super::link::{Link, Stream};
use super::outbox::Room;
use super::task::{End, Side, control};
use crate::hub::Hub;
use crate::rendezvous::gate::Phase;
use crate::websocket::{Control, Decision, Sink};

/// Shortest time between two looks at a harness whose queue is full.
const STALL_CHECK: Duration = Duration::from_millis(100);

/// The state of an executor's connection.
pub(crate) struct ExecutorSide {
    hub: Arc<Hub>,
    link: Arc<Link>,
    /// The streams that frames of the present buffer go to; a [`Sink::Key`] is an index into it.
    touched: Vec<Arc<Stream>>,
    stalled: Option<Stall>,
    patience: Patience,
    frames: u64,
    bytes: u64,
}

/// A harness whose queue is full. Frames can only be read in order, so everybody waits for it.
struct Stall {
    stream: Arc<Stream>,
    since: Instant,
}

/// How long harnesses may hold up the others: a bucket of time, see [`crate::config::Times::stall`].
#[derive(Debug)]
struct Patience {
    left: Duration,
    at: Instant,
}

impl Patience {
    fn refill(&mut self, full: Duration, refill: Duration, now: Instant) {
        let share = now.saturating_duration_since(self.at).as_secs_f64() / refill.as_secs_f64().max(1e-3);
        self.left = (self.left + full.mul_f64(share.min(1.0))).min(full);
        self.at = now;
    }
}

impl ExecutorSide {
    pub(crate) fn new(hub: Arc<Hub>, link: Arc<Link>) -> Self {
        let patience = Patience {
            left: hub.config.times.stall,
            at: Instant::now(),
        };
        Self {
            hub,
            link,
            touched: Vec::new(),
            stalled: None,
            patience,
            frames: 0,
            bytes: 0,
        }
    }

    fn find(&mut self, stream_id: &str) -> Option<usize> {
        // Frames of one stream mostly follow each other.
        if let Some(last) = self.touched.last()
            && last.id.as_str() == stream_id
            && last.is_bound()
        {
            return Some(self.touched.len() - 1);
        }
        self.touched.push(self.link.stream(stream_id)?);
        Some(self.touched.len() - 1)
    }

    /// Notes what the frame means for the stream's beginning and end.
    fn observe(&self, stream: &Stream, kind: Option<Kind>) {
        let connection = stream.harness.id;
        match (stream.phase(), kind) {
            (Phase::Ended, _) => {}
            (phase, Some(Kind::Reset)) => {
                if phase != Phase::Open {
                    self.hub.metrics.failed_handshakes.increment(1);
                }
                stream.advance(Phase::Ended);
                let now = Instant::now();
                self.hub.core(|core| core.reset_by_executor(connection, now));
            }
            (Phase::Opening | Phase::Pending, Some(Kind::Handshake | Kind::Resume | Kind::Data)) => {
                stream.advance(Phase::Open);
                self.hub.core(|core| core.opened(connection));
                // Its opening deadline is over.
                stream.harness.wake();
            }
            _ => {}
        }
    }

    fn cut(&self, stream: &Stream, now: Instant) {
        let connection = stream.harness.id;
        tracing::debug!(connection = connection.0, "harness does not keep up");
        self.hub
            .core(|core| core.cut(connection, close::TRY_AGAIN, reason::BACKPRESSURE, now));
    }
}

impl Sink for ExecutorSide {
    type Key = usize;

    fn decide(&mut self, payload: &[u8]) -> Decision<usize> {
        let route = match peek::route(payload) {
            Ok(route) => route,
            Err(error) => {
                // Everybody's streams are on this connection: it is not ended for one frame.
                tracing::debug!(connection = self.link.id.0, %error, "frame without a route");
                self.hub.metrics.unroutable.increment(1);
                return Decision::Drop;
            }
        };
        let Some(index) = self.find(route.stream_id) else {
            self.hub.metrics.unknown_stream.increment(1);
            return Decision::Drop;
        };
        let stream = &self.touched[index];
        if stream.phase() != Phase::Open || route.kind == Some(Kind::Reset) {
            self.observe(stream, route.kind);
        }
        Decision::Forward(index)
    }

    fn forward(&mut self, key: usize, chunk: Bytes, frames: u32) -> bool {
        self.frames += u64::from(frames);
        self.bytes += chunk.len() as u64;
        let stream = &self.touched[key];
        if stream.harness.send(stream.lane, chunk) == Room::Full && self.stalled.is_none() {
            self.stalled = Some(Stall {
                stream: stream.clone(),
                since: Instant::now(),
            });
        }
        self.stalled.is_none()
    }

    fn control(&mut self, frame: Control<'_>) {
        control(&self.link, &frame);
    }
}

impl Side for ExecutorSide {
    fn poll_ready(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let Some(stall) = &self.stalled else {
            return Poll::Ready(());
        };
        let alone = self.link.stream_count() <= 1;
        let waited = now.saturating_duration_since(stall.since);
        if stall.stream.harness.poll_room(stall.stream.lane, cx).is_pending() {
            // Without other streams there is nobody whom the harness could hold up; it is cut when it reads nothing at all.
            if alone || waited < self.patience.left {
                return Poll::Pending;
            }
            self.cut(&stall.stream, now);
        }
        let times = &self.hub.config.times;
        if !alone {
            self.patience.left = self.patience.left.saturating_sub(waited);
        }
        self.stalled = None;
        let (full, refill) = (times.stall, times.stall_refill);
        self.patience.refill(full, refill, now);
        Poll::Ready(())
    }

    fn end(&mut self) -> Option<End> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        // Looked at again in any case: another stream may have come meanwhile.
        let again = Instant::now() + STALL_CHECK;
        self.stalled
            .as_ref()
            .map(|stall| again.max(stall.since + self.patience.left))
    }

    fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    fn count(&mut self) {
        self.touched.clear();
        if self.touched.capacity() > 64 {
            self.touched = Vec::new();
        }
        self.hub
            .metrics
            .to_harness
            .frames
            .increment(std::mem::take(&mut self.frames));
        self.hub
            .metrics
            .to_harness
            .bytes
            .increment(std::mem::take(&mut self.bytes));
    }
}
