//! Reading what a process wrote, from memory and from disk, and writing it there.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::{Process, Shared};
use crate::process::log::MAX_KEPT_PAGE;
use crate::process::spool::Spool;
use crate::process::{Chunk, Page, ReadRequest};

impl Process {
    /// Reads what is retained, waiting for news as long as the request says.
    pub async fn read(&self, mut request: ReadRequest) -> Page {
        let deadline = Instant::now().checked_add(request.wait);
        if let Some(bytes) = request.tail {
            request.after = self.tail(bytes).await;
        }
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // News between the look and the wait must not be missed.
            changed.as_mut().enable();
            if let Some(page) = self.page_from_disk(request).await {
                return page;
            }
            if let Some(page) = self.shared.log().page(request) {
                return page;
            }
            let timeout = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = timeout => return self.shared.log().page_now(request),
            }
        }
    }

    /// The page that answers a request, if it begins on disk.
    async fn page_from_disk(&self, request: ReadRequest) -> Option<Page> {
        let request = {
            let log = self.shared.log();
            log.is_answered_from_disk(request.after).then(|| log.bounded(request))?
        };
        let max_bytes = request.max_bytes.unwrap_or(MAX_KEPT_PAGE);
        let read = self.on_disk(move |spool| spool.read(request.after, max_bytes)).await?;
        match read {
            // The rest may have come to memory alone meanwhile, or been dropped.
            Ok(chunks) if chunks.is_empty() => None,
            Ok(chunks) => Some(self.shared.log().page_of(chunks, request)),
            Err(error) => {
                self.give_up_disk(&error);
                None
            }
        }
    }

    /// The number after which there are about so many bytes.
    async fn tail(&self, bytes: u64) -> u64 {
        if let Some(after) = self.shared.log().tail(bytes) {
            return after;
        }
        // What is not on disk yet only makes it a little more.
        let after = self.on_disk(move |spool| spool.tail(bytes)).await;
        after.unwrap_or(0)
    }

    async fn on_disk<T: Send + 'static>(&self, work: impl FnOnce(&mut Spool) -> T + Send + 'static) -> Option<T> {
        let spool = Arc::clone(self.shared.spool.get()?);
        let done = spawn_blocking(move || work(&mut spool.lock().unwrap_or_else(PoisonError::into_inner)));
        done.await.ok()
    }

    fn give_up_disk(&self, error: &io::Error) {
        tracing::warn!(process = %self.shared.id, %error, "cannot keep output on disk; only the last of it is kept");
        self.shared.log().give_up_disk();
        self.shared.consumed.notify_one();
    }

    /// Puts all output on disk from now on, beginning with what is retained. Only the first call counts.
    ///
    /// Must be called inside a tokio runtime.
    pub(in crate::process) fn keep(&self, spool: Spool) {
        if self.shared.spool.set(Arc::new(Mutex::new(spool))).is_ok() {
            self.shared.log().keep();
            tokio::spawn(put_on_disk(self.clone()));
        }
    }
}

/// Puts output on disk until all of it is there, or nobody will ask for it any more.
async fn put_on_disk(process: Process) {
    let shared = Arc::clone(&process.shared);
    while let Some(chunks) = next_pieces(&shared).await {
        let pieces = chunks.clone();
        let written = process.on_disk(move |spool| spool.append(&pieces).map(|()| spool.contents()));
        match written.await {
            None => return,
            Some(Ok(contents)) => {
                shared.log().is_on_disk(&chunks, contents);
                // There is room again.
                shared.consumed.notify_one();
            }
            Some(Err(error)) => return process.give_up_disk(&error),
        }
    }
}

/// Waits for output that is not on disk; nothing once none will come.
async fn next_pieces(shared: &Shared) -> Option<Vec<Chunk>> {
    loop {
        let changed = shared.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let (pieces, is_closed) = {
            let log = shared.log();
            (log.to_keep(), log.is_closed())
        };
        if !pieces.is_empty() {
            return Some(pieces);
        }
        if is_closed {
            return None;
        }
        tokio::select! {
            () = changed => {}
            () = shared.abandoned.cancelled() => return None,
        }
    }
}
