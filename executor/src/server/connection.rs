//! One stream: its state, its one request at a time, and its end.

use std::sync::Arc;

use bytes::Bytes;
use rendezvous_host::files::Handles;
use rendezvous_host::process::Event;
use rendezvous_rpc::envelope::{Message, Notification, Request, UNREADABLE_ID, decode_params, write_error};
use rendezvous_rpc::method::Notification as _;
use rendezvous_rpc::method::initialize::{
    Extensions, InitializeParams, InitializeResult, Initialized, PROCESS_CONTROL,
};
use rendezvous_rpc::{RequestId, RpcError};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_util::task::AbortOnDropHandle;

use super::inbox::Inbox;
use super::push::{MAX_EVENTS, push};
use super::{Shared, Sink, Source};
use crate::methods::background::Background;
use crate::methods::{self, Family, Reply};
use crate::session::Attachment;

/// A message of this length or more is read on a thread for blocking work.
const LARGE_MESSAGE: usize = 1024 * 1024;
/// Version of the extension `processControl` that we speak.
const PROCESS_CONTROL_VERSION: u64 = 1;

/// Serves one stream until it is over or the client breaks the protocol.
pub(super) async fn serve<S: Sink>(server: Arc<Shared>, sink: S, mut source: impl Source) {
    let sink = Arc::new(sink);
    let (listener, events) = mpsc::channel(MAX_EVENTS);
    let mut pusher = AbortOnDropHandle::new(tokio::spawn(push(Arc::clone(&sink), events)));
    let mut connection = Connection::new(server, Arc::clone(&sink), listener);
    let mut inbox = Inbox::default();
    loop {
        let message = match inbox.pop() {
            Some(message) => message,
            None => tokio::select! {
                biased;
                _stream_is_over = &mut pusher => return,
                message = source.recv() => match message {
                    Some(message) => message,
                    None => return,
                },
            },
        };
        let answer = connection.answer(message);
        tokio::pin!(answer);
        let reaction = loop {
            tokio::select! {
                biased;
                reaction = &mut answer => break reaction,
                _stream_is_over = &mut pusher => return,
                message = source.recv(), if inbox.has_room() => match message {
                    Some(message) => inbox.push(message),
                    None => return,
                },
            }
        };
        match reaction {
            Reaction::Nothing => {}
            Reaction::Reply(reply) => {
                if !sink.send(reply).await {
                    return;
                }
            }
            Reaction::Close(why) => {
                tracing::debug!(why, "client broke the protocol");
                return;
            }
        }
    }
}

/// What a message leads to.
enum Reaction {
    Nothing,
    Reply(Bytes),
    /// The stream ends without a word, as with stock executors.
    Close(&'static str),
}

/// What one stream may call: the state of its lifecycle, with its session once it has one.
pub(crate) struct Connection<S> {
    pub(crate) server: Arc<Shared>,
    pub(crate) handles: Handles,
    pub(crate) background: Background<S>,
    sink: Arc<S>,
    listener: mpsc::Sender<Event>,
    attachment: Option<Attachment>,
    is_initialized: bool,
    has_process_control: bool,
}

impl<S: Sink> Connection<S> {
    fn new(server: Arc<Shared>, sink: Arc<S>, listener: mpsc::Sender<Event>) -> Self {
        let handles = Handles::new(server.files.clone());
        let background = Background::new(Arc::clone(&sink));
        Self {
            server,
            handles,
            background,
            sink,
            listener,
            attachment: None,
            is_initialized: false,
            has_process_control: false,
        }
    }

    async fn answer(&mut self, message: Bytes) -> Reaction {
        let decoded = if message.len() < LARGE_MESSAGE {
            Message::decode(&message)
        } else {
            match spawn_blocking(move || Message::decode(&message)).await {
                Ok(decoded) => decoded,
                Err(_stopped) => return Reaction::Close("the executor is stopping"),
            }
        };
        match decoded {
            Err(error) => reply_error(&UNREADABLE_ID, &error.to_rpc()),
            Ok(Message::Request(request)) => self.call(request).await,
            Ok(Message::Notification(notification)) => self.notified(&notification),
            Ok(Message::Response(_) | Message::Error(_)) => Reaction::Close("a reply to no call"),
        }
    }

    fn notified(&mut self, notification: &Notification) -> Reaction {
        if notification.method != Initialized::NAME {
            return Reaction::Close("an unknown notification");
        }
        if self.attachment.is_none() {
            return Reaction::Close("`initialized` before `initialize`");
        }
        self.is_initialized = true;
        Reaction::Nothing
    }

    async fn call(&mut self, request: Request) -> Reaction {
        let result = if request.method == "initialize" {
            self.initialize(&request)
        } else {
            methods::call(self, &request).await
        };
        match result {
            Ok(Reply::Message(message)) => Reaction::Reply(message),
            Err(error) => reply_error(&request.id, &error),
        }
    }

    fn initialize(&mut self, request: &Request) -> Result<Reply, RpcError> {
        if self.attachment.is_some() {
            return Err(RpcError::invalid_request(
                "initialize may only be sent once per connection",
            ));
        }
        let params: InitializeParams = decode_params(request.params.as_deref())?;
        let attachment = self
            .server
            .sessions
            .attach(params.resume_session_id.as_deref(), self.listener.clone())?;
        self.sink.initialized();
        self.has_process_control = params.extensions.0.contains_key(PROCESS_CONTROL);
        let mut extensions = Extensions::default();
        if self.has_process_control {
            extensions = extensions.with(PROCESS_CONTROL, PROCESS_CONTROL_VERSION);
        }
        let result = InitializeResult {
            session_id: attachment.session().id().to_owned(),
            environment_info: Some(self.server.info.clone()),
            extensions,
        };
        tracing::debug!(
            client = params.client_name,
            resumed = params.resume_session_id.is_some(),
            "client attached"
        );
        self.attachment = Some(attachment);
        Reply::new(&request.id, &result)
    }

    /// The session, if the client has gone through `initialize` and `initialized`.
    pub(crate) fn require(&self, family: Family) -> Result<&Attachment, RpcError> {
        let missing = |call: &str| {
            RpcError::invalid_request(format!("client must {call} before using {} methods", family.name()))
        };
        match &self.attachment {
            None => Err(missing("call initialize")),
            Some(_) if !self.is_initialized => Err(missing("send initialized")),
            Some(attachment) => Ok(attachment),
        }
    }

    /// Whether both sides named the extension `processControl`.
    pub(crate) fn has_process_control(&self) -> bool {
        self.has_process_control
    }
}

fn reply_error(id: &RequestId, error: &RpcError) -> Reaction {
    let mut out = Vec::new();
    match write_error(&mut out, id, error) {
        Ok(()) => Reaction::Reply(out.into()),
        Err(_) => Reaction::Close("an error that cannot be written"),
    }
}
