//! One stream: its state, and what each of its messages leads to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use rendezvous_host::files::Handles;
use rendezvous_host::process::{Event, Lookup};
use rendezvous_rpc::envelope::{Message, Notification, Request, UNREADABLE_ID, decode_params, write_error};
use rendezvous_rpc::method::identity::IdentityStatement;
use rendezvous_rpc::method::initialize::{
    Extensions, InitializeParams, InitializeResult, Initialized, OUTPUT_WINDOW, PROCESS_CONTROL, RELIABLE_STREAM,
};
use rendezvous_rpc::method::process::{Consumed, ConsumedParams, SignalProcess, Terminate};
use rendezvous_rpc::method::session::DETACHED_SESSIONS;
use rendezvous_rpc::method::{Method as _, Notification as _};
use rendezvous_rpc::{RequestId, RpcError};
use rendezvous_wire::key::KeyDigest;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::{Shared, Sink};
use crate::methods::background::Background;
use crate::methods::{self, Family, Reply};
use crate::session::policy::Known;
use crate::session::{Arrival, Attachment, Holder};

/// A message of this length or more is read on a thread for blocking work. Blocks of files are shorter: to hand them over
/// takes as long as to read them.
const LARGE_MESSAGE: usize = 2 * 1024 * 1024;
/// The extensions that we speak, with their versions. The last one only where sessions may be kept.
const EXTENSIONS: [(&str, u64); 3] = [(OUTPUT_WINDOW, 1), (PROCESS_CONTROL, 1), (DETACHED_SESSIONS, 1)];
/// Longest message that may overtake others: an id of a process and little else.
const MAX_URGENT: usize = 1024;
/// Longest answer that may: one with the longest reason, each of its characters escaped.
const MAX_ANSWER: usize = 8 * 1024;
/// How our harness begins `process/consumed`.
const CONSUMED_PREFIX: &[u8] = br#"{"method":"process/consumed","#;

/// What a message leads to.
pub(super) enum Reaction {
    Nothing,
    Reply(Bytes),
    /// The stream ends without a word, as with stock executors.
    Close(&'static str),
}

/// A message after a first look.
pub(super) enum Incoming {
    /// To be answered by [`Connection::call`].
    Call(Request),
    /// All is said.
    Done(Reaction),
}

/// What one stream may call: the state of its lifecycle, with its session once it has one.
pub(crate) struct Connection<S> {
    pub(crate) server: Arc<Shared>,
    pub(crate) handles: Handles,
    pub(crate) background: Background<S>,
    /// The harness at the other end, and how it gives way.
    holder: Holder,
    sink: Arc<S>,
    listener: mpsc::Sender<Event>,
    /// Takes messages of the session's own.
    messages: mpsc::Sender<Bytes>,
    client: OnceLock<Client>,
    is_initialized: AtomicBool,
}

/// A client after `initialize`.
struct Client {
    attachment: Attachment,
    extensions: Extensions,
}

/// Opens the window of a process; false when the notification cannot be read.
fn consumed(attachment: &Attachment, notification: &Notification) -> bool {
    let Ok(params) = decode_params::<ConsumedParams>(notification.params.as_deref()) else {
        return false;
    };
    if let Lookup::Started(process) = attachment.session().processes().get(&params.process_id) {
        attachment.consumed(&process, params.seq);
    }
    true
}

impl<S: Sink> Connection<S> {
    pub(super) fn new(
        server: Arc<Shared>,
        holder: Holder,
        sink: Arc<S>,
        listener: mpsc::Sender<Event>,
        messages: mpsc::Sender<Bytes>,
    ) -> Self {
        let handles = Handles::new(server.files.clone());
        let background = Background::new(Arc::clone(&sink));
        Self {
            server,
            handles,
            background,
            holder,
            sink,
            listener,
            messages,
            client: OnceLock::new(),
            is_initialized: AtomicBool::new(false),
        }
    }

    /// Whether the client has gone through `initialize` and `initialized`.
    pub(super) fn is_initialized(&self) -> bool {
        self.is_initialized.load(Ordering::Relaxed)
    }

    pub(super) async fn answer(&self, message: Bytes) -> Reaction {
        match self.read(message).await {
            Incoming::Call(call) => self.call(call).await,
            Incoming::Done(reaction) => reaction,
        }
    }

    /// Decodes a message, and deals with it unless it is a call.
    pub(super) async fn read(&self, message: Bytes) -> Incoming {
        let decoded = if message.len() < LARGE_MESSAGE {
            Message::decode_shared(&message)
        } else {
            match spawn_blocking(move || Message::decode_shared(&message)).await {
                Ok(decoded) => decoded,
                Err(_stopped) => return Incoming::Done(Reaction::Close("the executor is stopping")),
            }
        };
        Incoming::Done(match decoded {
            Err(error) => reply_error(&UNREADABLE_ID, &error.to_rpc()),
            Ok(Message::Request(call)) => return Incoming::Call(call),
            Ok(Message::Notification(notification)) => self.notified(&notification),
            Ok(answer @ (Message::Response(_) | Message::Error(_))) => match self.take(&answer) {
                Some(Known::Asked) => Reaction::Nothing,
                _ => Reaction::Close("a reply to no call"),
            },
        })
    }

    /// Takes `process/consumed` past a call that is being answered: a write may wait for a program that waits for its
    /// reader. Returns whether the message was one, and is dealt with.
    pub(super) fn take_consumed(&self, message: &[u8]) -> bool {
        message.starts_with(CONSUMED_PREFIX)
            && self.windowed().is_some_and(|attachment| {
                matches!(Message::decode(message), Ok(Message::Notification(news)) if consumed(attachment, &news))
            })
    }

    /// Takes an answer of the client past a call that is being answered, which may wait for what the answer allows.
    /// Returns whether the message was one, and is dealt with.
    pub(super) fn take_answer(&self, message: &[u8]) -> bool {
        let is_waiting = || {
            self.client
                .get()
                .is_some_and(|client| client.attachment.session().desk().is_waiting())
        };
        message.len() <= MAX_ANSWER
            && is_waiting()
            && Message::decode(message).is_ok_and(|message| self.take(&message) == Some(Known::Asked))
    }

    /// Takes a message if it is an answer of the client.
    fn take(&self, message: &Message) -> Option<Known> {
        self.client.get()?.attachment.session().desk().take(message)
    }

    /// A call that may overtake the one that is being answered.
    pub(super) fn urgent(&self, message: &[u8]) -> Option<Request> {
        if message.len() > MAX_URGENT || !self.has_process_control() {
            return None;
        }
        match Message::decode(message) {
            Ok(Message::Request(call)) if [SignalProcess::NAME, Terminate::NAME].contains(&call.method.as_str()) => {
                Some(call)
            }
            _ => None,
        }
    }

    fn notified(&self, notification: &Notification) -> Reaction {
        if notification.method == Consumed::NAME
            && let Some(attachment) = self.windowed()
        {
            return match consumed(attachment, notification) {
                true => Reaction::Nothing,
                false => Reaction::Close("an unreadable notification"),
            };
        }
        if notification.method != Initialized::NAME {
            return Reaction::Close("an unknown notification");
        }
        if self.client.get().is_none() {
            return Reaction::Close("`initialized` before `initialize`");
        }
        self.is_initialized.store(true, Ordering::Relaxed);
        Reaction::Nothing
    }

    pub(super) async fn call(&self, request: Request) -> Reaction {
        let result = if request.method == "initialize" {
            self.initialize(&request)
        } else {
            methods::call(self, &request).await
        };
        match result {
            Ok(Reply::Message(message)) => Reaction::Reply(message),
            Ok(Reply::Sent) => Reaction::Nothing,
            Err(error) => reply_error(&request.id, &error),
        }
    }

    fn initialize(&self, request: &Request) -> Result<Reply, RpcError> {
        let twice = || RpcError::invalid_request("initialize may only be sent once per connection");
        let params: InitializeParams = decode_params(request.params.as_deref())?;
        if self.client.get().is_some() {
            return Err(twice());
        }
        let sessions = &self.server.sessions;
        let mut extensions = Extensions::default();
        for (name, version) in EXTENSIONS {
            let is_offered = name != DETACHED_SESSIONS || sessions.detached().is_some();
            if is_offered && params.extensions.has(name, version) {
                extensions = extensions.with(name, version);
            }
        }
        let is_reliable = self.sink.is_undecided() && params.extensions.has(RELIABLE_STREAM, 1);
        if is_reliable {
            extensions = extensions.with(RELIABLE_STREAM, 1);
        }
        let attachment = sessions.attach(Arrival {
            holder: self.holder.clone(),
            resume: params.resume_session_id.as_deref(),
            takes_over: params.take_over && extensions.has(DETACHED_SESSIONS, 1),
            listener: self.listener.clone(),
            messages: self.messages.clone(),
        })?;
        self.sink.initialized();
        self.sink.settle(is_reliable);
        if let Some(statement) = self.identity_for(&params.extensions) {
            extensions = extensions.stating(statement);
        }
        let has_window = extensions.has(OUTPUT_WINDOW, 1);
        attachment.session().processes().set_window(has_window);
        let result = InitializeResult {
            session_id: attachment.session().id().to_owned(),
            environment_info: Some(self.server.info.clone()),
            extensions: extensions.clone(),
        };
        tracing::debug!(
            client = params.client_name,
            resumed = params.resume_session_id.is_some(),
            "client attached"
        );
        let client = Client { attachment, extensions };
        self.client.set(client).map_err(|_| twice())?;
        Reply::new(&request.id, &result)
    }

    /// The stream is over; its client was gone since this time already.
    pub(super) fn lost_since(&self, since: Instant) {
        if let Some(client) = self.client.get() {
            client.attachment.lost_since(since);
        }
    }

    /// What a client that asks is told of our key, if it came through our channel.
    fn identity_for(&self, offered: &Extensions) -> Option<&IdentityStatement> {
        let is_asked = self.harness().is_some() && offered.wants_identity();
        self.server.sessions.config().identity.as_ref().filter(|_| is_asked)
    }

    /// The session, if the client has gone through `initialize` and `initialized`.
    pub(crate) fn require(&self, family: Family) -> Result<&Attachment, RpcError> {
        let missing = |call: &str| {
            RpcError::invalid_request(format!("client must {call} before using {} methods", family.name()))
        };
        match self.client.get() {
            None => Err(missing("call initialize")),
            Some(_) if !self.is_initialized() => Err(missing("send initialized")),
            Some(client) => Ok(&client.attachment),
        }
    }

    /// The key of the harness at the other end, if it has one.
    pub(crate) fn harness(&self) -> Option<KeyDigest> {
        self.holder.harness()
    }

    /// Whether both sides named the extension `detachedSessions`.
    pub(crate) fn has_detached_sessions(&self) -> bool {
        self.names(DETACHED_SESSIONS)
    }

    /// Whether both sides named the extension `processControl`.
    pub(crate) fn has_process_control(&self) -> bool {
        self.names(PROCESS_CONTROL)
    }

    fn names(&self, extension: &str) -> bool {
        self.client
            .get()
            .is_some_and(|client| client.extensions.has(extension, 1))
    }

    /// The hold on the session, if both sides named the extension `outputWindow`.
    fn windowed(&self) -> Option<&Attachment> {
        let client = self.client.get()?;
        client.extensions.has(OUTPUT_WINDOW, 1).then_some(&client.attachment)
    }
}

fn reply_error(id: &RequestId, error: &RpcError) -> Reaction {
    let mut out = Vec::new();
    match write_error(&mut out, id, error) {
        Ok(()) => Reaction::Reply(out.into()),
        Err(_) => Reaction::Close("an error that cannot be written"),
    }
}
