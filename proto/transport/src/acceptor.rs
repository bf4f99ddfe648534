//! The executor's end of a relay connection: admits harnesses and hands each stream to the application.
//!
//! One task owns the link and the [`Acceptor`]; validations run beside it. Streams send one
//! record each in turn, and everything ready is written with one flush. Streams whose applications take nothing hold up
//! the reading of the link for [`MAX_PAUSE`] in half a minute at most and are reset then, all of them at once.

mod patience;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::acceptor::{Counters, Ended, Event, StreamKey, ValidationId, Verdict};
use rendezvous_channel::budget::Budget;
use rendezvous_channel::{Acceptor, Identity};
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::limits::VALIDATION_TIMEOUT;
use rendezvous_wire::reason;
use rendezvous_wire::reason::close;
use rendezvous_wire::secret::Secret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::timeout;

pub use self::patience::MAX_PAUSE;
use self::patience::Patience;
use crate::link::{self, Link, LinkError};
use crate::stream::inbound::Outlet;
use crate::stream::{
    Backlog, Command, Commands, MessageStream, StreamEnd, Tag, accept_message, at, next_unless, now, pair,
};

/// Who we are on this connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// Our key; the registration names its public half.
    pub identity: Identity,
    /// The environment that we serve.
    pub environment: EnvironmentId,
    /// Our registration.
    pub registration: RegistrationId,
    /// Bounds what unfinished messages and early records of all streams may occupy.
    pub budget: Budget,
    /// Bounds what whole messages of all streams may occupy until their answers are sent.
    pub backlog: Backlog,
}

/// What a validation is about.
#[derive(Clone, Debug)]
pub struct Request {
    /// The stream that waits.
    pub stream_id: StreamId,
    /// The key that the harness holds.
    pub harness_key: PublicKey,
    /// What it presented.
    pub authorization: Secret,
}

/// Says which harness may use this executor.
pub trait Validator: Send + Sync + 'static {
    /// Judges one harness. It is given up, and the harness rejected, after
    /// [`VALIDATION_TIMEOUT`].
    fn validate(&self, request: Request) -> impl Future<Output = Verdict> + Send;
}

/// A stream whose harness was admitted.
#[derive(Debug)]
pub struct Accepted {
    /// The stream. Dropping it resets it.
    pub stream: MessageStream,
    /// The key that the harness holds.
    pub harness_key: PublicKey,
}

/// What happened on one relay connection so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// What was refused.
    pub counters: Counters,
    /// Streams that are open now.
    pub streams: usize,
    /// Text messages that were dropped: the protocol has none.
    pub texts: u64,
}

/// Serves one relay connection until it ends, or until `shutdown` is ready: then the link is closed, and the relay tells
/// the harnesses. Every stream that is open by then learns it. Each admitted stream goes to `on_stream`; `on_tally` is
/// called when the tally changed.
///
/// # Errors
///
/// Why the connection ended, unless it was `shutdown`.
///
/// # Panics
///
/// If the system gives no random numbers.
pub async fn serve<S, V>(
    link: Link<S>,
    options: Options,
    validator: Arc<V>,
    mut on_stream: impl FnMut(Accepted),
    mut on_tally: impl FnMut(&Tally),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Arc<LinkError>>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Validator,
{
    let Options {
        identity,
        environment,
        registration,
        budget,
        backlog,
    } = options;
    let (commands, asked) = mpsc::unbounded_channel();
    let mut driver = Driver {
        link: link.dropping_texts(),
        acceptor: Acceptor::new(identity, environment, registration, budget),
        outlets: HashMap::new(),
        backlog,
        commands,
        asked,
        validator,
        validations: JoinSet::new(),
        running: HashMap::new(),
        tally: Tally::default(),
    };
    let ended = tokio::select! {
        error = driver.drive(&mut on_stream, &mut on_tally) => Some(Arc::new(error)),
        () = shutdown => None,
    };
    driver.count(&mut on_tally);
    tracing::debug!(tally = ?driver.tally, "relay connection ended");
    let end = ended.clone().map_or(StreamEnd::Closed, StreamEnd::Disconnected);
    for outlet in driver.outlets.into_values() {
        outlet.end(end.clone());
    }
    match ended {
        None => {
            driver.link.close(close::GOING_AWAY, "executor is stopping").await;
            Ok(())
        }
        Some(error) => {
            driver.link.close(error.close_code(), "").await;
            Err(error)
        }
    }
}

struct Driver<S, V> {
    link: Link<S>,
    acceptor: Acceptor,
    outlets: HashMap<StreamKey, Outlet>,
    backlog: Backlog,
    /// For the handles of new streams.
    commands: Commands,
    asked: mpsc::UnboundedReceiver<(Tag, Command)>,
    validator: Arc<V>,
    validations: JoinSet<Verdict>,
    running: HashMap<task::Id, ValidationId>,
    tally: Tally,
}

impl<S, V> Driver<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Validator,
{
    async fn drive(&mut self, on_stream: &mut impl FnMut(Accepted), on_tally: &mut impl FnMut(&Tally)) -> LinkError {
        let mut patience = Patience::new(now());
        loop {
            self.tell(on_stream);
            if let Err(error) = self.send() {
                return error;
            }
            // To send the last record of a stream ends it.
            self.tell(on_stream);
            self.count(on_tally);
            let relieved = self.backlog.relieved();
            let paused = self.is_held_up();
            let alone = self.outlets.len() <= 1;
            patience.note(now(), paused, alone);
            tokio::select! {
                event = next_unless(&mut self.link, paused) => match event {
                    Ok(link::Event::Message(message)) => self.acceptor.handle_message(now(), message),
                    Ok(link::Event::Writable) => {}
                    Err(error) => return error,
                },
                Some((tag, command)) = self.asked.recv() => self.obey(tag, command),
                Some(judged) = self.validations.join_next_with_id() => self.judge(judged),
                () = at(self.acceptor.poll_timeout()) => self.acceptor.handle_timeout(now()),
                () = relieved, if paused => {}
                () = at(patience.end(alone)) => {
                    self.reset_obstacles();
                    patience.note(now(), false, alone);
                }
            }
        }
    }

    fn count(&mut self, on_tally: &mut impl FnMut(&Tally)) {
        let tally = Tally {
            counters: *self.acceptor.counters(),
            streams: self.acceptor.active_streams(),
            texts: self.link.dropped_texts(),
        };
        if tally == self.tally {
            return;
        }
        if tally.texts > 0 && self.tally.texts == 0 {
            tracing::warn!("the relay sent a text message; it and further ones are dropped");
        }
        self.tally = tally;
        on_tally(&tally);
    }

    /// Passes on what the acceptor has to tell.
    fn tell(&mut self, on_stream: &mut impl FnMut(Accepted)) {
        while let Some(event) = self.acceptor.poll_event() {
            match event {
                Event::ValidationRequested {
                    id,
                    stream_id,
                    initiator_key,
                    authorization,
                } => self.validate(
                    id,
                    Request {
                        stream_id,
                        harness_key: initiator_key,
                        authorization,
                    },
                ),
                Event::StreamOpened {
                    key,
                    stream_id,
                    initiator_key,
                } => {
                    let (stream, outlet) = pair(stream_id, Some(key), &self.commands, &self.backlog);
                    self.outlets.insert(key, outlet);
                    on_stream(Accepted {
                        stream,
                        harness_key: initiator_key,
                    });
                }
                Event::Message { key, message } => {
                    if let Some(outlet) = self.outlets.get(&key) {
                        outlet.put(message);
                    }
                }
                Event::StreamClosed { key, ended } => {
                    if let Some(outlet) = self.outlets.remove(&key) {
                        outlet.end(match ended {
                            Ended::Here => StreamEnd::Closed,
                            Ended::Reset(reason) | Ended::There(reason) => StreamEnd::Reset(reason),
                            Ended::Disconnected => StreamEnd::Stopped,
                            Ended::Failed(error) => {
                                tracing::debug!(%error, "stream failed");
                                error.into()
                            }
                        });
                    }
                }
            }
        }
    }

    fn validate(&mut self, id: ValidationId, request: Request) {
        let validator = self.validator.clone();
        let judgement = async move {
            timeout(VALIDATION_TIMEOUT, validator.validate(request))
                .await
                .unwrap_or(Verdict::Reject)
        };
        let task = self.validations.spawn(judgement);
        self.running.insert(task.id(), id);
    }

    fn judge(&mut self, judged: Result<(task::Id, Verdict), JoinError>) {
        let (task, verdict) = judged.unwrap_or_else(|error| {
            tracing::warn!(%error, "a validation crashed");
            (error.id(), Verdict::Reject)
        });
        if let Some(id) = self.running.remove(&task) {
            self.acceptor.handle_verdict(now(), id, verdict, &mut UnwrapErr(SysRng));
        }
    }

    /// Takes every request that is there, so that one flush serves all of them.
    fn obey(&mut self, tag: Tag, command: Command) {
        let mut next = Some((tag, command));
        while let Some((tag, command)) = next {
            if let Some(key) = tag {
                match command {
                    Command::Send(message) => accept_message(self.acceptor.send(key, message)),
                    Command::Initialized => self.acceptor.set_initialized(key),
                    Command::Close(reason) => self.acceptor.close(key, reason),
                }
            }
            next = self.asked.try_recv().ok();
        }
    }

    /// Gives the link as much as it takes.
    fn send(&mut self) -> Result<(), LinkError> {
        while self.link.has_room() {
            match self.acceptor.poll_transmit() {
                Some(frame) => self.link.feed(frame)?,
                None => break,
            }
        }
        Ok(())
    }

    fn is_held_up(&self) -> bool {
        self.backlog.is_full() || self.outlets.values().any(Outlet::is_full)
    }

    fn reset_obstacles(&mut self) {
        let obstacles = self
            .outlets
            .extract_if(|_, outlet| outlet.is_full() || outlet.is_above_share());
        for (key, outlet) in obstacles {
            outlet.end(StreamEnd::Backpressure);
            self.acceptor.abort(key, reason::BACKPRESSURE);
        }
    }
}
