//! An executor that is connected to when it is first needed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use rendezvous_rpc::PathUri;
use tokio::sync::watch;

use super::Status;
use crate::backend::{ExecBackend, FileSystem, HttpClient};
use crate::client::Harness;
use crate::connect::ProgramError;
use crate::endpoint::Endpoint;
use crate::error::{AttemptError, HarnessError};
use crate::files::{DirectoryEntry, FileReader, FileWriter, Metadata, WalkOptions, WalkResult};
use crate::http::{HttpRequest, HttpResponse, HttpStream};
use crate::process::{Process, ProcessSpec};
use crate::session::driver::LinkState;

/// What came of one attempt; nothing while it runs.
type Attempt = watch::Receiver<Option<Result<Harness, HarnessError>>>;

/// An executor that is connected to when it is first needed.
///
/// Whoever comes while an attempt runs shares it, and its failure. A session that was lost for good, or that could not be
/// opened, is opened anew for whoever comes next, by one attempt for all. A program is not: once it was started, its end is
/// the end.
#[derive(Debug)]
pub(super) struct Remote {
    endpoint: Endpoint,
    attempt: Mutex<Option<Attempt>>,
}

impl Remote {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            attempt: Mutex::new(None),
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The session. Must be called inside a Tokio runtime.
    pub(super) async fn harness(&self) -> Result<Harness, HarnessError> {
        let mut attempt = self.current_attempt();
        match attempt.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Err(HarnessError::Shutdown)),
            Err(_runtime_ended) => Err(HarnessError::Shutdown),
        }
    }

    /// The attempt that runs or holds, else a new one.
    fn current_attempt(&self) -> Attempt {
        let mut slot = self.slot();
        if let Some(attempt) = slot.as_ref()
            && !self.is_spent(attempt)
        {
            return attempt.clone();
        }
        let (outcome, attempt) = watch::channel(None);
        let endpoint = self.endpoint.clone();
        // Not the caller's own task: it may go away, and others wait for this too.
        tokio::spawn(async move {
            tokio::select! {
                result = Harness::connect(endpoint) => drop(outcome.send_replace(Some(result))),
                () = outcome.closed() => {}
            }
        });
        slot.insert(attempt).clone()
    }

    /// Whether another attempt may bring more than this one did.
    fn is_spent(&self, attempt: &Attempt) -> bool {
        let is_over = attempt.has_changed().is_err();
        match &*attempt.borrow() {
            // Its runtime ended under it.
            None => is_over,
            Some(Ok(harness)) => !self.is_final() && failure(harness).is_some(),
            Some(Err(error)) => !self.is_final() || never_started(error),
        }
    }

    fn is_final(&self) -> bool {
        matches!(self.endpoint, Endpoint::Program(_))
    }

    /// How it is, without connecting.
    pub(super) fn status(&self) -> Status {
        let slot = self.slot();
        let Some(attempt) = slot.as_ref() else {
            return Status::Unused;
        };
        match &*attempt.borrow() {
            None => Status::Connecting,
            Some(Err(error)) => Status::Failed(error.clone()),
            Some(Ok(harness)) => match &*harness.link_state().borrow() {
                LinkState::Connecting => Status::Connecting,
                LinkState::Connected => Status::Ready,
                LinkState::Recovering { since } => Status::Recovering { since: *since },
                LinkState::Failed(error) => Status::Failed(error.clone()),
            },
        }
    }

    /// The session, if there is one already.
    pub(super) fn connected(&self) -> Option<Harness> {
        self.slot().as_ref()?.borrow().as_ref()?.as_ref().ok().cloned()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Attempt>> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a session is lost for good.
fn failure(harness: &Harness) -> Option<HarnessError> {
    match &*harness.link_state().borrow() {
        LinkState::Failed(error) => Some(error.clone()),
        _ => None,
    }
}

/// Whether a program did not even begin to run.
fn never_started(error: &HarnessError) -> bool {
    matches!(error, HarnessError::Unreachable(error)
        if matches!(error.as_ref(), AttemptError::Program(ProgramError::Start { .. })))
}

#[async_trait]
impl ExecBackend for Remote {
    async fn start(&self, spec: ProcessSpec) -> Result<Process, HarnessError> {
        self.harness().await?.start(spec).await
    }
}

#[async_trait]
impl FileSystem for Remote {
    async fn read_file(&self, path: &PathUri) -> Result<Bytes, HarnessError> {
        self.harness().await?.read_file(path).await
    }

    async fn write_file(&self, path: &PathUri, bytes: Bytes) -> Result<(), HarnessError> {
        self.harness().await?.write_file(path, bytes).await
    }

    async fn open(&self, path: &PathUri) -> Result<FileReader, HarnessError> {
        self.harness().await?.open(path).await
    }

    async fn replace(&self, path: &PathUri) -> Result<FileWriter, HarnessError> {
        self.harness().await?.replace(path).await
    }

    async fn metadata(&self, path: &PathUri) -> Result<Metadata, HarnessError> {
        self.harness().await?.metadata(path).await
    }

    async fn list(&self, path: &PathUri) -> Result<Vec<DirectoryEntry>, HarnessError> {
        self.harness().await?.list(path).await
    }

    async fn walk(&self, path: &PathUri, options: WalkOptions) -> Result<WalkResult, HarnessError> {
        self.harness().await?.walk(path, options).await
    }

    async fn create_directory(&self, path: &PathUri) -> Result<(), HarnessError> {
        self.harness().await?.create_directory(path).await
    }

    async fn remove(&self, path: &PathUri, recursive: bool) -> Result<(), HarnessError> {
        self.harness().await?.remove(path, recursive).await
    }

    async fn copy(&self, from: &PathUri, to: &PathUri, recursive: bool) -> Result<(), HarnessError> {
        self.harness().await?.copy(from, to, recursive).await
    }

    async fn canonicalize(&self, path: &PathUri) -> Result<PathUri, HarnessError> {
        self.harness().await?.canonicalize(path).await
    }
}

#[async_trait]
impl HttpClient for Remote {
    async fn http(&self, request: HttpRequest) -> Result<HttpResponse, HarnessError> {
        self.harness().await?.http(request).await
    }

    async fn http_stream(&self, request: HttpRequest) -> Result<HttpStream, HarnessError> {
        self.harness().await?.http_stream(request).await
    }
}
