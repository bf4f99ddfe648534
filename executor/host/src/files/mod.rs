//! Files: reads, writes, listings, copies and walks.
//!
//! Every call blocks somewhere in the operating system, so it runs on a thread for blocking work; [`Files`] bounds how
//! many do so at once. A call whose caller goes away stops at its next step, or finishes unseen.

mod copy;
mod directory;
mod error;
mod handles;
mod regular;
mod staged;
mod target;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::Semaphore;

pub use self::directory::{Entry, MAX_ENTRIES};
pub use self::error::{Fault, FileError};
pub use self::handles::{Access, Block, Handles, MAX_BLOCK, MAX_HANDLE_ID, MAX_HANDLES, MAX_HANDLES_TOTAL};
pub use self::regular::MAX_FILE;
pub use self::target::{Links, Target};
pub use self::walk::{Walk, WalkEntry, WalkOptions, WalkProblem};

/// Calls that run at once; a further one waits.
pub const MAX_CONCURRENT: usize = 64;

/// What is known about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// A directory, or a link to one.
    pub is_directory: bool,
    /// A regular file, or a link to one.
    pub is_file: bool,
    /// The path itself is a symbolic link.
    pub is_symlink: bool,
    /// Bytes.
    pub size: u64,
    /// When it was created, where the file system knows.
    pub created: Option<SystemTime>,
    /// When its content last changed.
    pub modified: Option<SystemTime>,
}

/// Does the calls. Cheap to clone; clones share the bound.
#[derive(Clone, Debug)]
pub struct Files {
    permits: Arc<Semaphore>,
    handles: Arc<Semaphore>,
}

impl Default for Files {
    fn default() -> Self {
        Self::with_handles(MAX_HANDLES_TOTAL)
    }
}

impl Files {
    /// As the default, with another bound on the files that all sets of [`Handles`] may have open together.
    pub fn with_handles(max: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            handles: Arc::new(Semaphore::new(max)),
        }
    }
}

/// Takes the content of a file, piece by piece.
pub trait ReadSink: Send + 'static {
    /// Called first: about so many bytes will come.
    fn expect(&mut self, len: usize);
    /// The next bytes.
    fn take(&mut self, piece: &[u8]);
}

impl ReadSink for Vec<u8> {
    fn expect(&mut self, len: usize) {
        self.reserve(len);
    }

    fn take(&mut self, piece: &[u8]) {
        self.extend_from_slice(piece);
    }
}

impl Files {
    /// Reads a regular file of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// Refuses what is no regular file or is larger; else what the operating system says.
    pub async fn read(&self, target: impl Into<Target>, limit: u64) -> Result<Vec<u8>, FileError> {
        self.read_into(target, limit, Vec::new()).await
    }

    /// Reads a regular file of at most `limit` bytes into `sink`, without holding more than a piece of it.
    ///
    /// # Errors
    ///
    /// As [`Files::read`]; what the sink has taken so far is gone then.
    pub async fn read_into<S: ReadSink>(&self, target: impl Into<Target>, limit: u64, sink: S) -> Result<S, FileError> {
        let target = target.into();
        self.run(move |stop| regular::read(&target, limit, sink, stop)).await
    }

    /// Replaces the content of a file, or creates it in an existing directory.
    ///
    /// # Errors
    ///
    /// Refuses FIFOs and sockets; else what the operating system says.
    pub async fn write(&self, target: impl Into<Target>, data: Bytes) -> Result<(), FileError> {
        self.write_from(target, std::iter::once(data)).await
    }

    /// As [`Files::write`], with content that is made piece by piece, on a thread where it may take its time.
    ///
    /// # Errors
    ///
    /// As [`Files::write`]; some pieces may be written then.
    pub async fn write_from<P: AsRef<[u8]>>(
        &self,
        target: impl Into<Target>,
        pieces: impl Iterator<Item = P> + Send + 'static,
    ) -> Result<(), FileError> {
        let target = target.into();
        self.run(move |stop| regular::write(&target, pieces, stop)).await
    }

    /// Creates a directory; with `recursive`, also its parents, and an existing one is fine.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub async fn create_directory(&self, target: impl Into<Target>, recursive: bool) -> Result<(), FileError> {
        let target = target.into();
        self.run(move |_| directory::create(&target, recursive)).await
    }

    /// Looks at a path; follows links for all but `is_symlink`.
    ///
    /// # Errors
    ///
    /// What the operating system says; a link to nothing is not found.
    pub async fn metadata(&self, target: impl Into<Target>) -> Result<Metadata, FileError> {
        let target = target.into();
        self.run(move |_| directory::metadata(&target)).await
    }

    /// The path without links and dots; it must exist.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub async fn canonicalize(&self, path: PathBuf) -> Result<PathBuf, FileError> {
        self.run(move |_| Ok(path.canonicalize()?)).await
    }

    /// Lists a directory of at most [`MAX_ENTRIES`], in no order; follows links, and omits those to nothing.
    ///
    /// # Errors
    ///
    /// When there are more; else what the operating system says.
    pub async fn read_directory(&self, target: impl Into<Target>) -> Result<Vec<Entry>, FileError> {
        let target = target.into();
        self.run(move |stop| directory::list(&target, stop)).await
    }

    /// Removes a file, a link itself, or a directory (with `recursive` also its content). With `force`, nothing to remove is
    /// fine.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub async fn remove(&self, target: impl Into<Target>, recursive: bool, force: bool) -> Result<(), FileError> {
        let target = target.into();
        self.run(move |_| directory::remove(&target, recursive, force)).await
    }

    /// Copies a file with its permissions, a link as a link, or with `recursive` a directory, into which special files
    /// are not copied.
    ///
    /// # Errors
    ///
    /// Refuses a directory without `recursive` or into itself, and special files; else what the operating system says.
    pub async fn copy(&self, source: PathBuf, destination: PathBuf, recursive: bool) -> Result<(), FileError> {
        self.run(move |stop| copy::copy(&source, &destination, recursive, stop))
            .await
    }

    /// Lists a tree breadth first, each directory sorted by name.
    ///
    /// # Errors
    ///
    /// Refuses limits that are zero or too high; else what the operating system says about the root. What goes wrong
    /// below is reported inside the result.
    pub async fn walk(&self, root: PathBuf, options: WalkOptions) -> Result<Walk, FileError> {
        self.run(move |stop| walk::walk(&root, options, stop)).await
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Stop) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return Err(FileError::stopped());
        };
        let stop = Stop::default();
        let guard = StopOnDrop(stop.clone());
        let result = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            call(&stop)
        })
        .await;
        drop(guard);
        result.unwrap_or_else(|_panicked| Err(FileError::stopped()))
    }
}

/// Tells a call that nobody waits for it any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    fn check(&self) -> Result<(), FileError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(FileError::stopped());
        }
        Ok(())
    }
}

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
