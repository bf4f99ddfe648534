//! News that follow a call: the body of a response, the end of a watch.

use std::collections::HashMap;

use bytes::Bytes;
use rendezvous_rpc::method::http::{BodyDeltaParams, MAX_DELTA};
use tokio::sync::oneshot;

use crate::error::HarnessError;
use crate::session::delivery::{Delivered, Event, EventSender};
use crate::watch::WatchEnd;

/// Bodies of one session on their way at once.
pub const MAX_BODIES: usize = 256;

/// A piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyEvent {
    Bytes(Bytes),
    End,
}

impl Event for BodyEvent {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::End => 0,
        }
    }
}

/// Who waits for the news that follow a call.
#[derive(Debug)]
pub(crate) enum Listener {
    Body { id: String, events: EventSender<BodyEvent> },
    Watch { id: u64, end: oneshot::Sender<WatchEnd> },
}

/// Everybody who waits.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    bodies: HashMap<String, Body>,
    /// A connection has one watch.
    watch: Option<(u64, oneshot::Sender<WatchEnd>)>,
    /// A body whose reader has no room; nothing more may be read before it has.
    blocked: Option<String>,
}

#[derive(Debug)]
struct Body {
    events: EventSender<BodyEvent>,
    seq: u64,
    /// In order, but its reader has no room.
    stuck: Option<BodyEvent>,
}

impl Listeners {
    /// Takes a listener as its call is sent.
    pub(super) fn add(&mut self, listener: Listener) -> Result<(), HarnessError> {
        match listener {
            Listener::Body { id, events } => {
                self.bodies.retain(|_, body| !body.events.is_abandoned());
                if self.bodies.len() >= MAX_BODIES {
                    return Err(HarnessError::TooManyBodies(MAX_BODIES));
                }
                let body = Body {
                    events,
                    seq: 0,
                    stuck: None,
                };
                self.bodies.insert(id, body);
            }
            Listener::Watch { id, end } => {
                if let Some((_, before)) = self.watch.replace((id, end)) {
                    let _ = before.send(WatchEnd::Replaced);
                }
            }
        }
        Ok(())
    }

    /// Takes a piece of a body. Nobody may wait for it any more.
    pub(super) fn delta(&mut self, delta: BodyDeltaParams) {
        let Some(body) = self.bodies.get_mut(&delta.request_id) else {
            return;
        };
        body.seq += 1;
        let broken = if delta.seq != body.seq {
            Some("a piece is missing".to_owned())
        } else if delta.delta_base64.0.len() > MAX_DELTA {
            Some(format!("a piece exceeds {MAX_DELTA} bytes"))
        } else {
            delta.error
        };
        if let Some(reason) = broken {
            self.lose(&delta.request_id, HarnessError::Body(reason));
            return;
        }
        let bytes = delta.delta_base64.0;
        match (delta.done, bytes.is_empty()) {
            (true, true) => self.deliver(&delta.request_id, BodyEvent::End),
            (true, false) => {
                let error = HarnessError::Body("the last piece is not empty".to_owned());
                self.lose(&delta.request_id, error);
            }
            (false, _) => self.deliver(&delta.request_id, BodyEvent::Bytes(bytes)),
        }
    }

    pub(super) fn changed(&mut self, id: u64) {
        if let Some((_, end)) = self.watch.take_if(|(waiting, _)| *waiting == id) {
            let _ = end.send(WatchEnd::Changed);
        }
    }

    /// Whether nobody waits.
    pub(super) fn are_none(&self) -> bool {
        self.bodies.is_empty() && self.watch.is_none()
    }

    /// The connection is gone, and with it all that it would have told.
    pub(super) fn link_down(&mut self) {
        self.blocked = None;
        for (_, body) in self.bodies.drain() {
            body.events.fail(HarnessError::Body("connection lost".to_owned()));
        }
        if let Some((_, end)) = self.watch.take() {
            let _ = end.send(WatchEnd::Lost);
        }
    }

    /// Waits until the body that is stuck may go on.
    pub(super) fn blocked(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let body = self.bodies.get(self.blocked.as_ref()?)?;
        Some(body.events.room(body.stuck.as_ref()?))
    }

    pub(super) fn unblock(&mut self) {
        if let Some(id) = self.blocked.take()
            && let Some(event) = self.bodies.get_mut(&id).and_then(|body| body.stuck.take())
        {
            self.deliver(&id, event);
        }
    }

    fn deliver(&mut self, id: &str, event: BodyEvent) {
        let Some(body) = self.bodies.get_mut(id) else { return };
        let is_end = event == BodyEvent::End;
        match body.events.try_send(0, event) {
            Delivered::Yes if !is_end => {}
            Delivered::Yes | Delivered::Gone => drop(self.bodies.remove(id)),
            Delivered::Full(event) => {
                body.stuck = Some(event);
                self.blocked = Some(id.to_owned());
            }
        }
    }

    fn lose(&mut self, id: &str, error: HarnessError) {
        if self.blocked.as_deref() == Some(id) {
            self.blocked = None;
        }
        if let Some(body) = self.bodies.remove(id) {
            body.events.fail(error);
        }
    }
}

#[cfg(test)]
mod tests;
