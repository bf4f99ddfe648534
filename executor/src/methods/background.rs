//! What goes on for a client between its calls, and ends with its stream.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rendezvous_host::watch::MissingWatch;
use rendezvous_rpc::envelope::write_notification;
use rendezvous_rpc::method::Notification;
use rendezvous_rpc::method::fs::{MissingChanged, MissingChangedParams};
use serde::Serialize;
use tokio_util::task::AbortOnDropHandle;

use crate::server::Sink;

/// The work of one stream that outlasts the call which asked for it.
#[derive(Debug)]
pub(crate) struct Background<S> {
    sink: Arc<S>,
    watch: Mutex<Watch>,
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
        Self {
            sink,
            watch: Mutex::default(),
        }
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
async fn notify<N: Notification<Params: Serialize>>(sink: &impl Sink, params: &N::Params) -> bool {
    let mut out = Vec::new();
    match write_notification(&mut out, N::NAME, params) {
        Ok(()) => sink.send(out.into()).await,
        Err(error) => {
            tracing::warn!(%error, method = N::NAME, "news could not be written");
            true
        }
    }
}
