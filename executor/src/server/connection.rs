//! One stream: its state, and what each of its messages leads to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

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

use super::{Shared, Sink};
use crate::methods::background::Background;
use crate::methods::{self, Family, Reply};
use crate::session::Attachment;

/// A message of this length or more is read on a thread for blocking work.
const LARGE_MESSAGE: usize = 1024 * 1024;
/// Version of the extension `processControl` that we speak.
const PROCESS_CONTROL_VERSION: u64 = 1;

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
    sink: Arc<S>,
    listener: mpsc::Sender<Event>,
    client: OnceLock<Client>,
    is_initialized: AtomicBool,
}

/// A client after `initialize`.
struct Client {
    attachment: Attachment,
    has_process_control: bool,
}

impl<S: Sink> Connection<S> {
    pub(super) fn new(server: Arc<Shared>, sink: Arc<S>, listener: mpsc::Sender<Event>) -> Self {
        let handles = Handles::new(server.files.clone());
        let background = Background::new(Arc::clone(&sink));
        Self {
            server,
            handles,
            background,
            sink,
            listener,
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
            Ok(Message::Response(_) | Message::Error(_)) => Reaction::Close("a reply to no call"),
        })
    }

    fn notified(&self, notification: &Notification) -> Reaction {
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
        let attachment = self
            .server
            .sessions
            .attach(params.resume_session_id.as_deref(), self.listener.clone())?;
        self.sink.initialized();
        let has_process_control = params.extensions.0.contains_key(PROCESS_CONTROL);
        let mut extensions = Extensions::default();
        if has_process_control {
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
        let client = Client {
            attachment,
            has_process_control,
        };
        self.client.set(client).map_err(|_| twice())?;
        Reply::new(&request.id, &result)
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

    /// Whether both sides named the extension `processControl`.
    pub(crate) fn has_process_control(&self) -> bool {
        self.client.get().is_some_and(|client| client.has_process_control)
    }
}

fn reply_error(id: &RequestId, error: &RpcError) -> Reaction {
    let mut out = Vec::new();
    match write_error(&mut out, id, error) {
        Ok(()) => Reaction::Reply(out.into()),
        Err(_) => Reaction::Close("an error that cannot be written"),
    }
}
