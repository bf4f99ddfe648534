//! A harness's connection: one stream, whose frames go to the executor.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_wire::frame::peek::{self, Route};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason::close;

use super::link::{Link, Stream};
use super::outbox::Room;
use super::task::{End, Side, control};
use crate::hub::Hub;
use crate::rendezvous::budget::Admission;
use crate::rendezvous::gate::{Gate, GateError, Phase, Verdict};
use crate::websocket::{Control, Decision, Sink};

/// Time between two questions whether a waiting handshake may go.
const ASK_INTERVAL: Duration = Duration::from_millis(25);

/// The state of a harness's connection.
pub(crate) struct HarnessSide {
    hub: Arc<Hub>,
    link: Arc<Link>,
    executor: Arc<Link>,
    stream: Option<Arc<Stream>>,
    gate: Gate,
    /// The run that is being collected holds the handshake, which needs an admission first.
    handshake: bool,
    held: Option<Held>,
    full: bool,
    /// Until then the executor has to answer.
    opening: Option<Instant>,
    end: Option<End>,
    frames: u64,
    bytes: u64,
}

/// The handshake, while others are under way.
struct Held {
    chunk: Bytes,
    until: Instant,
    ask: Instant,
}

impl HarnessSide {
    pub(crate) fn new(hub: Arc<Hub>, link: Arc<Link>, executor: Arc<Link>) -> Self {
        let opening = Some(Instant::now() + hub.config.times.opening);
        Self {
            hub,
            link,
            executor,
            stream: None,
            gate: Gate::default(),
            handshake: false,
            held: None,
            full: false,
            opening,
            end: None,
            frames: 0,
            bytes: 0,
        }
    }

    fn stop(&mut self, code: u16, reason: &'static str) -> Decision<()> {
        self.end = Some(End { code, reason });
        Decision::Stop
    }

    /// The first frame: binds its stream to this connection.
    fn bind(&mut self, route: &Route<'_>) -> Result<Arc<Stream>, End> {
        let refuse = |code, reason| End { code, reason };
        let id = StreamId::new(route.stream_id).map_err(|_| refuse(close::POLICY, "invalid stream id"))?;
        // Ended streams whose frames the executor has not read yet count too.
        if self.executor.lanes() >= 2 * self.hub.config.limits.streams_per_executor {
            return Err(refuse(close::TRY_AGAIN, "executor does not keep up"));
        }
        let (connection, now) = (self.link.id, Instant::now());
        let opened = self
            .hub
            .core(|core| core.bind(connection, &id, route.kind, now))
            .map_err(|error| {
                tracing::debug!(connection = connection.0, %error, "stream refused");
                refuse(close::POLICY, "stream id is taken")
            })?;
        let stream = self
            .executor
            .stream(id.as_str())
            .filter(|stream| stream.lane == opened.lane)
            .ok_or_else(|| refuse(close::TRY_AGAIN, "executor is gone"))?;
        if opened.resumed {
            stream.advance(Phase::Open);
        }
        self.stream = Some(stream.clone());
        Ok(stream)
    }

    fn admitted(&self) -> bool {
        let (connection, now) = (self.link.id, Instant::now());
        self.hub.core(|core| core.ask_handshake(connection, now)) == Admission::Go
    }

    fn send(&mut self, chunk: Bytes) -> bool {
        let Some(stream) = &self.stream else { return true };
        self.bytes += chunk.len() as u64;
        self.full = self.executor.send(stream.lane, chunk) == Room::Full;
        !self.full
    }
}

impl Sink for HarnessSide {
    type Key = ();

    fn decide(&mut self, payload: &[u8]) -> Decision<()> {
        let route = match peek::route(payload) {
            Ok(route) => route,
            Err(error) => {
                tracing::debug!(connection = self.link.id.0, %error, "frame without a route");
                return self.stop(close::PROTOCOL, "invalid frame");
            }
        };
        let phase = match &self.stream {
            Some(stream) if stream.id.as_str() == route.stream_id => stream.phase(),
            Some(_) => return self.stop(close::POLICY, "one stream per connection"),
            None => Phase::Opening,
        };
        // Judged before it is bound: a connection that begins with nonsense never has a stream.
        let resumed = match &self.stream {
            Some(_) => None,
            None if !matches!(route.kind, Some(peek::Kind::Resume | peek::Kind::Handshake)) => {
                return self.stop(close::POLICY, "a stream begins with resume or handshake");
            }
            None => match self.bind(&route) {
                Ok(stream) => Some(stream.phase()),
                Err(end) => return self.stop(end.code, end.reason),
            },
        };
        match self.gate.check(resumed.unwrap_or(phase), route.kind, payload) {
            Ok(Verdict::Pass) => {}
            Ok(Verdict::Handshake) => self.handshake = true,
            Ok(Verdict::End) => {
                if let Some(stream) = &self.stream {
                    stream.advance(Phase::Ended);
                }
                let (connection, now) = (self.link.id, Instant::now());
                self.hub.core(|core| core.reset_by_harness(connection, now));
            }
            Ok(Verdict::Late) => {
                self.hub.metrics.late.increment(1);
                return Decision::Drop;
            }
            Err(error) => {
                tracing::debug!(connection = self.link.id.0, %error, "frame refused");
                let code = match error {
                    GateError::Invalid(_) => close::PROTOCOL,
                    _ => close::POLICY,
                };
                return self.stop(code, "frame refused");
            }
        }
        Decision::Forward(())
    }

    fn forward(&mut self, (): (), chunk: Bytes, frames: u32) -> bool {
        self.frames += u64::from(frames);
        if std::mem::take(&mut self.handshake) {
            if let Some(stream) = &self.stream {
                stream.advance(Phase::Pending);
            }
            if !self.admitted() {
                let now = Instant::now();
                self.held = Some(Held {
                    chunk,
                    until: now + self.hub.config.times.handshake_turn,
                    ask: now + ASK_INTERVAL,
                });
                return false;
            }
        }
        if let Some(held) = &mut self.held {
            // Behind the handshake: at most what one read brought.
            let mut joined = Vec::with_capacity(held.chunk.len() + chunk.len());
            joined.extend_from_slice(&held.chunk);
            joined.extend_from_slice(&chunk);
            held.chunk = joined.into();
            return false;
        }
        self.send(chunk)
    }

    fn control(&mut self, frame: Control<'_>) {
        control(&self.link, &frame);
    }
}

impl Side for HarnessSide {
    fn poll_ready(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        if let Some(until) = self.opening {
            if self
                .stream
                .as_ref()
                .is_some_and(|stream| matches!(stream.phase(), Phase::Open | Phase::Ended))
            {
                self.opening = None;
            } else if now >= until {
                self.end = Some(End {
                    code: close::TRY_AGAIN,
                    reason: "stream was not opened in time",
                });
                return Poll::Ready(());
            }
        }
        if let Some(held) = &mut self.held {
            if now < held.ask {
                return Poll::Pending;
            }
            held.ask = now + ASK_INTERVAL;
            if now >= held.until {
                self.end = Some(End {
                    code: close::TRY_AGAIN,
                    reason: "too many handshakes under way",
                });
                return Poll::Ready(());
            }
            if !self.admitted() {
                return Poll::Pending;
            }
            if let Some(held) = self.held.take() {
                self.send(held.chunk);
            }
        }
        if self.full
            && let Some(stream) = &self.stream
        {
            std::task::ready!(self.executor.poll_room(stream.lane, cx));
            self.full = false;
        }
        Poll::Ready(())
    }

    fn end(&mut self) -> Option<End> {
        self.end.take()
    }

    fn deadline(&self) -> Option<Instant> {
        let ask = self.held.as_ref().map(|held| held.ask);
        ask.into_iter().chain(self.opening).min()
    }

    fn is_stalled(&self) -> bool {
        self.full || self.held.is_some()
    }

    fn count(&mut self) {
        self.hub
            .metrics
            .to_executor
            .frames
            .increment(std::mem::take(&mut self.frames));
        self.hub
            .metrics
            .to_executor
            .bytes
            .increment(std::mem::take(&mut self.bytes));
    }
}
