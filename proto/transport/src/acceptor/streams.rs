use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::Acceptor;
use rendezvous_channel::acceptor::{Ended, Event, StreamKey, ValidationId, Verdict};
use rendezvous_wire::id::RegistrationId;
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::limits::{MAX_RECORD_PLAINTEXT, VALIDATION_TIMEOUT};
use rendezvous_wire::reason;
use rendezvous_wire::reason::close;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::timeout;

use super::patience::Patience;
use super::{Accepted, Options, Request, Tally, Validator};
use crate::link::{self, Link, LinkError};
use crate::stream::inbound::Outlet;
use crate::stream::{Backlog, Command, Commands, StreamEnd, Tag, WeakPart, at, is_accepted, next_unless, now, pair};

/// Longest time that the ends of reliable streams may take when the executor stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// The streams of one executor, over as many relay connections as they live for.
///
/// [`Self::serve`] uses one connection; [`Self::keep`] must run whenever there is none.
#[derive(Debug)]
pub struct Streams {
    acceptor: Acceptor,
    outlets: HashMap<StreamKey, Outlet>,
    backlog: Backlog,
    /// The parts of it that harness keys have.
    parts: HashMap<KeyDigest, WeakPart>,
    /// For the handles of new streams.
    commands: Commands,
    asked: mpsc::UnboundedReceiver<(Tag, Command)>,
    /// Lengths of what applications took from reliable streams whose harness keys held more than their parts.
    uncredited: HashMap<StreamKey, Vec<usize>>,
    validations: JoinSet<Verdict>,
    running: HashMap<task::Id, ValidationId>,
    tally: Tally,
    texts: u64,
    resumes: u64,
}

/// Whom the driver of a connection tells what happens.
struct Told<S, T> {
    on_stream: S,
    on_tally: T,
}

impl Streams {
    /// No streams yet.
    pub fn new(options: Options) -> Self {
        let Options {
            identity,
            previous,
            environment,
            registration,
            budget,
            backlog,
            offer,
        } = options;
        let (commands, asked) = mpsc::unbounded_channel();
        let mut acceptor = Acceptor::new(identity, environment, registration, budget).with_previous(previous);
        if let Some(offer) = offer {
            acceptor = acceptor.offering(offer);
        }
        Self {
            acceptor,
            outlets: HashMap::new(),
            backlog,
            commands,
            asked,
            parts: HashMap::new(),
            uncredited: HashMap::new(),
            validations: JoinSet::new(),
            running: HashMap::new(),
            tally: Tally::default(),
            texts: 0,
            resumes: 0,
        }
    }

    /// Serves one relay connection, which the registry gave for `registration`, until it ends, or until `shutdown` is ready:
    /// then the link is closed, and the relay tells the harnesses. Each admitted stream goes to `on_stream`; `on_tally` is
    /// called when the tally changed. Behind a lost connection reliable streams wait for the next one; all others have
    /// ended, and behind a shutdown all have.
    ///
    /// # Errors
    ///
    /// Why the connection ended, unless it was `shutdown`.
    ///
    /// # Panics
    ///
    /// If the system gives no random numbers.
    pub async fn serve<S, V>(
        &mut self,
        link: Link<S>,
        registration: RegistrationId,
        validator: Arc<V>,
        on_stream: impl FnMut(Accepted),
        on_tally: impl FnMut(&Tally),
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Arc<LinkError>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        V: Validator,
    {
        self.acceptor.reconnect(registration);
        let mut link = link.dropping_texts().keeping_short();
        let mut told = Told { on_stream, on_tally };
        let ended = tokio::select! {
            error = self.drive(&mut link, &validator, &mut told) => Some(Arc::new(error)),
            () = shutdown => None,
        };
        if let Some(error) = ended {
            self.lose(&error, &mut told);
            self.texts += link.dropped_texts();
            link.close(error.close_code(), "").await;
            return Err(error);
        }
        self.take_leave(&mut link, &validator, &mut told).await;
        tracing::debug!(tally = ?self.tally, "executor stops");
        for (_, outlet) in self.outlets.drain() {
            outlet.end(StreamEnd::Closed);
        }
        link.close(close::GOING_AWAY, "executor is stopping").await;
        Ok(())
    }

    /// Keeps time for streams without a connection, and takes what their applications ask for.
    pub async fn keep(&mut self, mut on_tally: impl FnMut(&Tally)) -> Infallible {
        loop {
            self.acceptor.handle_timeout(now());
            // Before the look, or what is given back in between is missed.
            let relieved = self.backlog.relieved();
            self.credit();
            self.tell(None::<&Arc<NoValidator>>, None, &mut |_| ());
            self.count(self.texts, &mut on_tally);
            tokio::select! {
                Some((tag, command)) = self.asked.recv() => self.obey(tag, command),
                Some(judged) = self.validations.join_next_with_id() => self.judge(judged),
                () = at(self.acceptor.poll_timeout()) => {}
                () = relieved, if !self.uncredited.is_empty() => {}
            }
        }
    }

    async fn drive<S, V>(
        &mut self,
        link: &mut Link<S>,
        validator: &Arc<V>,
        told: &mut Told<impl FnMut(Accepted), impl FnMut(&Tally)>,
    ) -> LinkError
    where
        S: AsyncRead + AsyncWrite + Unpin,
        V: Validator,
    {
        let mut patience = Patience::new(now());
        loop {
            // Reliable streams measure times.
            self.acceptor.handle_timeout(now());
            // Before the look, or what is given back in between is missed.
            let relieved = self.backlog.relieved();
            self.credit();
            self.tell(Some(validator), None, &mut told.on_stream);
            if let Err(error) = self.send(link) {
                return error;
            }
            // To send the last record of a stream ends it.
            self.tell(Some(validator), None, &mut told.on_stream);
            self.count(self.texts + link.dropped_texts(), &mut told.on_tally);
            let paused = self.is_held_up();
            let alone = self.outlets.len() <= 1;
            patience.note(now(), paused, alone);
            tokio::select! {
                event = next_unless(link, paused) => match event {
                    Ok(link::Event::Message(message)) => self.acceptor.handle_message(now(), message),
                    Ok(link::Event::Writable) => {}
                    Err(error) => return error,
                },
                Some((tag, command)) = self.asked.recv() => self.obey(tag, command),
                Some(judged) = self.validations.join_next_with_id() => self.judge(judged),
                () = at(self.acceptor.poll_timeout()) => {}
                () = relieved, if paused || !self.uncredited.is_empty() => {}
                () = at(patience.end(alone)) => {
                    self.reset_obstacles();
                    patience.note(now(), false, alone);
                }
            }
        }
    }

    /// The connection is gone: streams that do not outlive it end.
    fn lose(&mut self, error: &Arc<LinkError>, told: &mut Told<impl FnMut(Accepted), impl FnMut(&Tally)>) {
        self.acceptor.disconnect(now());
        self.tell(None::<&Arc<NoValidator>>, Some(error), &mut told.on_stream);
        self.count(self.tally.texts, &mut told.on_tally);
        tracing::debug!(tally = ?self.tally, "relay connection ended");
    }

    /// Tells the harnesses of reliable streams that nothing follows, or they would wait.
    async fn take_leave<S, V>(
        &mut self,
        link: &mut Link<S>,
        validator: &Arc<V>,
        told: &mut Told<impl FnMut(Accepted), impl FnMut(&Tally)>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin,
        V: Validator,
    {
        // What was sent by now goes out before.
        if let Ok((tag, command)) = self.asked.try_recv() {
            self.obey(tag, command);
        }
        self.acceptor.handle_timeout(now());
        let reliable: Vec<StreamKey> = self.reliable().collect();
        for key in reliable {
            self.acceptor.close(key, reason::EXECUTOR_GONE);
        }
        let farewell = async {
            loop {
                self.tell(Some(validator), None, &mut told.on_stream);
                if self.send(link).is_err() || self.reliable().next().is_none() {
                    return;
                }
                tokio::select! {
                    event = link.next() => match event {
                        Ok(link::Event::Message(message)) => self.acceptor.handle_message(now(), message),
                        Ok(link::Event::Writable) => {}
                        Err(_) => return,
                    },
                    () = at(self.acceptor.poll_timeout()) => {}
                }
                self.acceptor.handle_timeout(now());
            }
        };
        // Who is not there to hear it finds out.
        let _ = timeout(FAREWELL, farewell).await;
        self.count(self.texts + link.dropped_texts(), &mut told.on_tally);
    }

    fn reliable(&self) -> impl Iterator<Item = StreamKey> {
        let keys = self.outlets.keys().copied();
        keys.filter(|key| self.acceptor.is_reliable(*key))
    }

    fn count(&mut self, texts: u64, on_tally: &mut impl FnMut(&Tally)) {
        let tally = Tally {
            counters: *self.acceptor.counters(),
            streams: self.acceptor.active_streams(),
            suspended: self.acceptor.suspended_streams(),
            resumes: self.resumes,
            texts,
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

    /// Passes on what the acceptor has to tell. Only with a connection, and a validator, does anybody ask to be admitted;
    /// `lost` is why there is none.
    fn tell<V: Validator>(
        &mut self,
        validator: Option<&Arc<V>>,
        lost: Option<&Arc<LinkError>>,
        on_stream: &mut impl FnMut(Accepted),
    ) {
        while let Some(event) = self.acceptor.poll_event() {
            match event {
                Event::ValidationRequested {
                    id,
                    stream_id,
                    initiator_key,
                    authorization,
                } => {
                    let request = Request {
                        stream_id,
                        harness_key: initiator_key,
                        authorization,
                    };
                    match validator {
                        Some(validator) => self.validate(validator, id, request),
                        None => self
                            .acceptor
                            .handle_verdict(now(), id, Verdict::Reject, &mut UnwrapErr(SysRng)),
                    }
                }
                Event::StreamOpened {
                    key,
                    stream_id,
                    initiator_key,
                } => {
                    let is_offered = self.acceptor.is_undecided(key);
                    let part = self.part(initiator_key.digest());
                    let (stream, outlet) = pair(stream_id, Some(key), &self.commands, &part, is_offered);
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
                Event::StreamSuspended { key } => {
                    if let Some(outlet) = self.outlets.get(&key) {
                        outlet.continuity().suspended(now());
                    }
                }
                Event::StreamResumed { key } => {
                    self.resumes += 1;
                    if let Some(outlet) = self.outlets.get(&key) {
                        let waited = outlet.continuity().resumed().map(|since| now() - since);
                        tracing::info!(?waited, "harness is back, its stream goes on where it was");
                    }
                }
                Event::StreamClosed { key, ended } => {
                    if let Some(outlet) = self.outlets.remove(&key) {
                        outlet.end(end(ended, lost));
                    }
                }
            }
        }
    }

    fn validate<V: Validator>(&mut self, validator: &Arc<V>, id: ValidationId, request: Request) {
        let validator = validator.clone();
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
        // What is queued after a silence must not look late.
        self.acceptor.handle_timeout(now());
        let mut next = Some((tag, command));
        while let Some((tag, command)) = next {
            if let Some(key) = tag {
                match command {
                    Command::Send(message) => {
                        if self.acceptor.is_undecided(key) {
                            self.settle(key, false);
                        }
                        if !is_accepted(self.acceptor.send(key, message)) {
                            self.acceptor.abort(key, reason::BACKPRESSURE);
                        }
                    }
                    Command::Initialized => self.acceptor.set_initialized(key),
                    Command::Taken(len) if self.is_above_part(key) => self.uncredited.entry(key).or_default().push(len),
                    Command::Taken(len) => self.acceptor.taken(now(), key, len),
                    Command::Settle(agreed) => self.settle(key, agreed),
                    Command::Close(reason) => self.acceptor.close(key, reason),
                }
            }
            next = self.asked.try_recv().ok();
        }
    }

    fn settle(&mut self, key: StreamKey, agreed: bool) {
        self.acceptor.settle(now(), key, agreed);
        if let Some(outlet) = self.outlets.get(&key) {
            outlet.continuity().settled(self.acceptor.is_reliable(key));
        }
    }

    /// Lets the senders go on for which there is memory again.
    fn credit(&mut self) {
        for (key, lengths) in std::mem::take(&mut self.uncredited) {
            if self.is_above_part(key) {
                self.uncredited.insert(key, lengths);
            } else {
                let now = now();
                lengths.into_iter().for_each(|len| self.acceptor.taken(now, key, len));
            }
        }
    }

    /// What the streams of one harness key share of the backlog.
    fn part(&mut self, harness: KeyDigest) -> Backlog {
        self.parts.retain(|_, part| part.upgrade().is_some());
        self.parts.get(&harness).and_then(WeakPart::upgrade).unwrap_or_else(|| {
            let part = self.backlog.part();
            self.parts.insert(harness, part.downgrade());
            part
        })
    }

    fn is_above_part(&self, key: StreamKey) -> bool {
        self.outlets.get(&key).is_some_and(Outlet::is_above_part)
    }

    /// Gives the link as much as it takes.
    fn send<S>(&mut self, link: &mut Link<S>) -> Result<(), LinkError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let limit = link.share(self.acceptor.is_shared())?;
        self.acceptor.limit_records(limit.unwrap_or(MAX_RECORD_PLAINTEXT));
        while link.has_room() {
            match self.acceptor.poll_transmit() {
                Some(frame) => link.feed(frame)?,
                None => break,
            }
        }
        Ok(())
    }

    fn is_held_up(&self) -> bool {
        self.obstacles().next().is_some()
    }

    fn reset_obstacles(&mut self) {
        let obstacles: Vec<StreamKey> = self.obstacles().collect();
        for key in obstacles {
            if let Some(outlet) = self.outlets.remove(&key) {
                outlet.end(StreamEnd::Backpressure);
            }
            self.acceptor.abort(key, reason::BACKPRESSURE);
        }
    }

    /// Streams that no credit stops, and that more waits for, or that hold more, than may be.
    fn obstacles(&self) -> impl Iterator<Item = StreamKey> {
        let outlets = self.outlets.iter();
        let obstacles = outlets.filter(|(_, outlet)| outlet.is_full() || outlet.is_above_share());
        obstacles
            .map(|(key, _)| *key)
            .filter(|key| !self.acceptor.is_reliable(*key))
    }
}

/// What an application hears of the end of its stream.
fn end(ended: Ended, lost: Option<&Arc<LinkError>>) -> StreamEnd {
    match ended {
        Ended::Here => StreamEnd::Closed,
        Ended::Reset(reason) | Ended::There(reason) => StreamEnd::Reset(reason),
        Ended::Disconnected => lost.cloned().map_or(StreamEnd::Stopped, StreamEnd::Disconnected),
        Ended::Failed(error) => {
            tracing::debug!(%error, "stream failed");
            error.into()
        }
    }
}

/// For when there is nobody to validate.
struct NoValidator;

impl Validator for NoValidator {
    async fn validate(&self, _: Request) -> Verdict {
        Verdict::Reject
    }
}
