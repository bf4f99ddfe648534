//! Which message of a stream is answered when.
//!
//! With one request at a time, the default and the rule of the stock protocol, messages are answered in the order of their
//! arrival; only a client that named `processControl` is heard when it ends or interrupts a process meanwhile, because a
//! write may wait for a program for ever. Otherwise that holds until `initialized`; from then on each lane answers up to the configured number of calls
//! at once, without an order between them, and a full lane leaves the other one free.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use rendezvous_rpc::envelope::Request;
use rendezvous_rpc::method::{Method as _, environment, fs, process};
use rendezvous_wire::key::KeyDigest;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::connection::{Connection, Incoming, Reaction};
use super::inbox::{Inbox, Lane};
use super::push::{MAX_EVENTS, pass_on, push};
use super::{Shared, Sink, Source};
use crate::session::policy::MAX_MESSAGES;
use crate::session::{Holder, Presence};

/// Calls of one stream that are answered past another one, with one request at a time.
const MAX_OVERTAKING: usize = 64;
/// Time for the call that is being answered when the stream ends, and for each one when only the client's input has ended.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Serves one stream until it is over or the client breaks the protocol.
pub(super) async fn serve<S: Sink>(server: Arc<Shared>, harness: Option<KeyDigest>, sink: S, source: impl Source) {
    let sink = Arc::new(sink);
    let (listener, events) = mpsc::channel(MAX_EVENTS);
    let mut pusher = AbortOnDropHandle::new(tokio::spawn(push(Arc::clone(&sink), events)));
    let (own, messages) = mpsc::channel(MAX_MESSAGES);
    let _passing = AbortOnDropHandle::new(tokio::spawn(pass_on(Arc::clone(&sink), messages)));
    let concurrency = server.sessions.config().concurrent_requests.get();
    let presence: Weak<dyn Presence> = Arc::<S>::downgrade(&sink);
    let holder = Holder::new(harness, presence);
    let replaced = holder.replaced();
    let connection = Connection::new(server, holder, Arc::clone(&sink), listener, own);
    let connection = Arc::new(connection);
    // A call may wait for long, and what came behind it is held meanwhile.
    let given_up = {
        let sink = Arc::clone(&sink);
        async move {
            sink.over().await;
            sleep(LAST_CALL).await;
        }
    };
    let mut dispatcher = Dispatcher {
        connection,
        sink,
        source,
        inbox: Inbox::default(),
        concurrency,
        calls: JoinSet::new(),
        running: [0; 2],
        has_ended: false,
    };
    let is_replaced = tokio::select! {
        biased;
        _stream_is_over = &mut pusher => false,
        End = dispatcher.run() => false,
        () = replaced => true,
        () = given_up => false,
    };
    // Until the last call has let go of it, the session cannot be resumed.
    dispatcher.calls.shutdown().await;
    if is_replaced {
        tracing::debug!("another stream has the session");
    } else if let Some(since) = dispatcher.sink.suspended_since() {
        dispatcher.connection.lost_since(since);
    }
}

/// The stream is over.
struct End;

struct Dispatcher<S, R> {
    connection: Arc<Connection<S>>,
    sink: Arc<S>,
    source: R,
    inbox: Inbox,
    /// Calls that each lane answers at once.
    concurrency: usize,
    /// Answers on their way; each sends its reply itself and says whether the stream took it.
    calls: JoinSet<(Lane, bool)>,
    /// How many of them each lane has.
    running: [usize; 2],
    /// No more messages come, but what came is still to be answered.
    has_ended: bool,
}

impl<S: Sink, R: Source> Dispatcher<S, R> {
    async fn run(&mut self) -> End {
        loop {
            let step = match self.inbox.pop() {
                Some(message) if self.concurrency > 1 && self.connection.is_initialized() => {
                    self.dispatch(message).await
                }
                Some(message) => self.answer(message).await,
                None if self.has_ended && self.calls.is_empty() => return End,
                None => self.wait().await,
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// Waits for a message or the end of a call.
    async fn wait(&mut self) -> Result<(), End> {
        tokio::select! {
            biased;
            Some(call) = self.calls.join_next() => {
                let Ok((lane, true)) = call else { return Err(End) };
                self.running[lane as usize] -= 1;
                if let Some(next) = self.inbox.pop_call(lane) {
                    self.start(lane, next);
                }
            }
            message = self.source.recv(), if !self.has_ended && self.inbox.has_room() => match message {
                Some(message) => self.inbox.push(message),
                None => self.end_input().await?,
            },
            () = sleep(LAST_CALL), if self.has_ended => return Err(End),
        }
        Ok(())
    }

    /// The client has said all. It may still listen, unless the stream itself is over.
    async fn end_input(&mut self) -> Result<(), End> {
        self.has_ended = true;
        tokio::select! {
            biased;
            () = self.sink.over() => Err(End),
            () = std::future::ready(()) => Ok(()),
        }
    }

    /// Answers one message before the next is looked at.
    async fn answer(&mut self, message: Bytes) -> Result<(), End> {
        let connection = Arc::clone(&self.connection);
        let answer = connection.answer(message);
        tokio::pin!(answer);
        let reaction = loop {
            tokio::select! {
                biased;
                reaction = &mut answer => break reaction,
                () = sleep(LAST_CALL), if self.has_ended => return Err(End),
                message = self.source.recv(), if !self.has_ended && self.inbox.has_room() => {
                    let Some(message) = message else {
                        self.end_input().await?;
                        continue;
                    };
                    if connection.take_consumed(&message) || connection.take_answer(&message) {
                        continue;
                    }
                    let may_overtake = self.running[Lane::Control as usize] < MAX_OVERTAKING;
                    match connection.urgent(&message).filter(|_| may_overtake) {
                        Some(call) => self.start(Lane::Control, call),
                        None => self.inbox.push(message),
                    }
                }
            }
        };
        self.react(reaction).await
    }

    /// Starts to answer a call as soon as its lane has room; everything else is answered at once.
    async fn dispatch(&mut self, message: Bytes) -> Result<(), End> {
        let len = message.len();
        match self.connection.read(message).await {
            Incoming::Call(call) => {
                let lane = lane(&call.method);
                if self.running[lane as usize] < self.concurrency {
                    self.start(lane, call);
                } else {
                    self.inbox.push_call(lane, call, len);
                }
                Ok(())
            }
            Incoming::Done(reaction) => self.react(reaction).await,
        }
    }

    fn start(&mut self, lane: Lane, call: Request) {
        self.running[lane as usize] += 1;
        let connection = Arc::clone(&self.connection);
        let sink = Arc::clone(&self.sink);
        self.calls.spawn(async move {
            let sent = match connection.call(call).await {
                Reaction::Reply(reply) => sink.send(reply).await,
                Reaction::Nothing => true,
                Reaction::Close(_) => false,
            };
            (lane, sent)
        });
    }

    async fn react(&self, reaction: Reaction) -> Result<(), End> {
        match reaction {
            Reaction::Nothing => Ok(()),
            Reaction::Reply(reply) => {
                if self.sink.send(reply).await {
                    Ok(())
                } else {
                    Err(End)
                }
            }
            Reaction::Close(why) => {
                tracing::debug!(why, "client broke the protocol");
                Err(End)
            }
        }
    }
}

/// The lane of a method, as stock executors have it; `process/list` is like the other questions.
fn lane(method: &str) -> Lane {
    match method {
        environment::Info::NAME
        | environment::Status::NAME
        | process::List::NAME
        | process::SignalProcess::NAME
        | process::Terminate::NAME
        | fs::Close::NAME => Lane::Control,
        _ => Lane::Ordinary,
    }
}
