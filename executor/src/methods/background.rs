//! What goes on for a client between its calls, and ends with its stream.

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rendezvous_host::watch::MissingWatch;
use rendezvous_rpc::RpcError;
use rendezvous_rpc::envelope::write_notification;
use rendezvous_rpc::method::Notification;
use rendezvous_rpc::method::fs::{MissingChanged, MissingChangedParams};
use serde::Serialize;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::server::Sink;

/// Bodies that one stream may have on their way.
const MAX_STREAMS: usize = 256;

/// The work of one stream that outlasts the call which asked for it.
#[derive(Debug)]
pub(crate) struct Background<S> {
    sink: Arc<S>,
    watch: Mutex<Watch>,
    streams: Arc<Mutex<HashSet<String>>>,
    end: CancellationToken,
    _end_on_drop: DropGuard,
}

/// The name of a body on its way, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    id: String,
    streams: Arc<Mutex<HashSet<String>>>,
}

impl StreamPlace {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.remove(&self.id);
    }
}

/// The one watch that a stream may have.
#[derive(Debug, Default)]
struct Watch {
    /// The largest id that was used.
    last: u64,
    task: Option<AbortOnDropHandle<()>>,
}

impl<S: Sink> Background<S> {
    pub(crate) fn new(sink: Arc<S>) -> Self {
        let end = CancellationToken::new();
        Self {
            sink,
            watch: Mutex::default(),
            streams: Arc::default(),
            _end_on_drop: end.clone().drop_guard(),
            end,
        }
    }

    pub(crate) fn sink(&self) -> &Arc<S> {
        &self.sink
    }

    /// Runs something until it is done or the stream is over. Whoever calls bounds how many there are.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(self.end.clone().run_until_cancelled_owned(work));
    }

    /// Takes the name of a body that will be streamed.
    pub(crate) fn reserve_stream(&self, id: &str) -> Result<StreamPlace, RpcError> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.contains(id) {
            return Err(RpcError::invalid_params(format!(
                "http/request streamResponse requestId `{id}` is already active"
            )));
        }
        if streams.len() >= MAX_STREAMS {
            return Err(RpcError::invalid_request(format!(
                "at most {MAX_STREAMS} http/request bodies may be streamed per connection"
            )));
        }
        streams.insert(id.to_owned());
        Ok(StreamPlace {
            id: id.to_owned(),
            streams: Arc::clone(&self.streams),
        })
    }

    /// Takes up a watch in place of the one before, unless its id was used. Returns whether it watches now.
    pub(crate) async fn watch(&self, id: u64, watch: impl Future<Output = Option<MissingWatch>>) -> bool {
        {
            let mut place = self.place();
            if id <= place.last {
                return false;
            }
            place.last = id;
            place.task = None;
        }
        let Some(watch) = watch.await else { return false };
        let sink = Arc::clone(&self.sink);
        let task = tokio::spawn(async move {
            if watch.changed().await.is_ok() {
                notify::<MissingChanged>(sink.as_ref(), &MissingChangedParams { watch_id: id }).await;
            }
        });
        let mut place = self.place();
        let is_last = place.last == id;
        if is_last {
            place.task = Some(AbortOnDropHandle::new(task));
        } else {
            task.abort();
        }
        is_last
    }

    fn place(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends news. Returns whether the stream could take them.
pub(super) async fn notify<N: Notification<Params: Serialize>>(sink: &impl Sink, params: &N::Params) -> bool {
    let mut out = Vec::new();
    match write_notification(&mut out, N::NAME, params) {
        Ok(()) => sink.send(out.into()).await,
        Err(error) => {
            tracing::warn!(%error, method = N::NAME, "news could not be written");
            true
        }
    }
}
