//! Waiting for paths on the executor to appear.

use rendezvous_rpc::PathUri;
use rendezvous_rpc::method::fs::{WatchMissing, WatchMissingParams};
use tokio::sync::oneshot;

use crate::client::Harness;
use crate::error::HarnessError;
use crate::session::Class;
use crate::session::core::listen::Listener;

/// Missing paths of one watch.
pub const MAX_MISSING: usize = 64;

/// A watch that has begun.
#[derive(Debug)]
pub struct MissingWatch {
    end: oneshot::Receiver<WatchEnd>,
}

/// Why a watch ended. Whatever it was, whoever waits must look again: a path may be there, or still missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// Something changed at the paths, or at `present`.
    Changed,
    /// Another watch took its place.
    Replaced,
    /// The connection was lost, and nobody watched since.
    Lost,
}

impl MissingWatch {
    /// Waits for the end of the watch.
    pub async fn ended(self) -> WatchEnd {
        self.end.await.unwrap_or(WatchEnd::Lost)
    }
}

impl Harness {
    /// Watches up to [`MAX_MISSING`] missing paths, and changes of one that is there. A session has one watch: a new one
    /// takes its place. Nothing when there is nothing to wait for, because one of the paths exists, or none can be
    /// watched: look again, and later once more.
    ///
    /// ```no_run
    /// # async fn example(harness: rendezvous_harness::Harness) -> Result<(), rendezvous_harness::HarnessError> {
    /// use rendezvous_harness::PathUri;
    ///
    /// let missing = [PathUri::parse("file:///home/me/AGENTS.md")?];
    /// if let Some(watch) = harness.watch_missing(&missing, None).await? {
    ///     println!("look again: {:?}", watch.ended().await);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As any call. Executors without the capability `fsWatchMissing` do not know the call
    /// ([`HarnessError::is_unsupported`]).
    pub async fn watch_missing(
        &self,
        missing: &[PathUri],
        present: Option<&PathUri>,
    ) -> Result<Option<MissingWatch>, HarnessError> {
        let (end, ended) = oneshot::channel();
        let id = self.next_number();
        let params = WatchMissingParams {
            watch_id: id,
            missing: missing.to_vec(),
            present: present.cloned(),
        };
        let listener = Listener::Watch { id, end };
        let result = self
            .call_with::<WatchMissing>(&params, Class::Once, Some(listener))
            .await?;
        Ok(result.watching.then_some(MissingWatch { end: ended }))
    }
}
