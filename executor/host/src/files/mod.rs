//! Files: reads, writes, listings, copies and walks.
//!
//! Every call blocks somewhere in the operating system, so it runs on a thread for blocking work; [`Files`] bounds how
//! many do so at once. A call whose caller goes away stops at its next step, or finishes unseen.

mod call;
mod copy;
mod directory;
mod error;
mod handles;
mod regular;
mod staged;
mod target;
mod walk;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use rustix::fs::PROC_SUPER_MAGIC;
use tokio::sync::{Semaphore, oneshot};

use crate::sandbox::{self, Jail};

pub(crate) use self::call::{Answer, Call};
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
    reach: Reach,
}

/// Where calls are done.
#[derive(Clone, Debug, Default)]
enum Reach {
    /// In this process.
    #[default]
    Everything,
    /// In this process, but for the files of /proc, which are about this process.
    AllButProc,
    /// In a sandbox.
    Jail(Arc<Jail>),
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
            reach: Reach::Everything,
        }
    }

    /// The same, with each call done in a sandbox.
    #[must_use]
    pub fn within(&self, jail: Jail) -> Self {
        Self {
            reach: Reach::Jail(Arc::new(jail)),
            ..self.clone()
        }
    }

    /// The same, but files of `/proc` cannot be opened: they show and change this process to whom the client is no part of
    /// it.
    #[must_use]
    pub fn without_proc(&self) -> Self {
        Self {
            reach: Reach::AllButProc,
            ..self.clone()
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
        let reach = self.reach.clone();
        self.run(move |stop| {
            let file = reach.open(Call::Open(target), stop)?;
            regular::read(file, limit, sink, stop)
        })
        .await
    }

    /// Replaces the content of a file, or creates it in an existing directory.
    ///
    /// # Errors
    ///
    /// Refuses FIFOs and sockets; else what the operating system says.
    pub async fn write(&self, target: impl Into<Target>, data: Bytes) -> Result<(), FileError> {
        self.write_from(target, || Ok(std::iter::once(data))).await
    }

    /// As [`Files::write`], with content that is made piece by piece, on a thread where it may take its time.
    ///
    /// # Errors
    ///
    /// As [`Files::write`]; some pieces may be written then. Refuses what `content` refuses, before the file is touched.
    pub async fn write_from<I: Iterator<Item: AsRef<[u8]>>>(
        &self,
        target: impl Into<Target>,
        content: impl FnOnce() -> Result<I, String> + Send + 'static,
    ) -> Result<(), FileError> {
        let target = target.into();
        let reach = self.reach.clone();
        self.run(move |stop| {
            let pieces = content().map_err(FileError::refused)?;
            let file = reach.open(Call::Create(target), stop)?;
            regular::write(file, pieces, stop)
        })
        .await
    }

    /// Creates a directory; with `recursive`, also its parents, and an existing one is fine.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub async fn create_directory(&self, target: impl Into<Target>, recursive: bool) -> Result<(), FileError> {
        let target = target.into();
        self.done(Call::CreateDirectory { target, recursive }).await
    }

    /// Looks at a path; follows links for all but `is_symlink`.
    ///
    /// # Errors
    ///
    /// What the operating system says; a link to nothing is not found.
    pub async fn metadata(&self, target: impl Into<Target>) -> Result<Metadata, FileError> {
        let target = target.into();
        match self.answer(Call::Metadata(target)).await? {
            Answer::Metadata(metadata) => Ok(metadata),
            _ => Err(call::mismatch()),
        }
    }

    /// The path without links and dots; it must exist.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub async fn canonicalize(&self, path: PathBuf) -> Result<PathBuf, FileError> {
        match self.answer(Call::Canonicalize(path)).await? {
            Answer::Path(path) => Ok(path),
            _ => Err(call::mismatch()),
        }
    }

    /// Lists a directory of at most [`MAX_ENTRIES`], in no order; follows links, and omits those to nothing.
    ///
    /// # Errors
    ///
    /// When there are more; else what the operating system says.
    pub async fn read_directory(&self, target: impl Into<Target>) -> Result<Vec<Entry>, FileError> {
        let target = target.into();
        match self.answer(Call::ReadDirectory(target)).await? {
            Answer::Entries(entries) => Ok(entries),
            _ => Err(call::mismatch()),
        }
    }

    /// Removes a file, a link itself, or a directory (with `recursive` also its content). With `force`, nothing to remove is
    /// fine.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub async fn remove(&self, target: impl Into<Target>, recursive: bool, force: bool) -> Result<(), FileError> {
        let target = target.into();
        self.done(Call::Remove {
            target,
            recursive,
            force,
        })
        .await
    }

    /// Copies a file with its permissions, a link as a link, or with `recursive` a directory, into which special files
    /// are not copied.
    ///
    /// # Errors
    ///
    /// Refuses a directory without `recursive` or into itself, and special files; else what the operating system says.
    pub async fn copy(&self, source: PathBuf, destination: PathBuf, recursive: bool) -> Result<(), FileError> {
        self.done(Call::Copy {
            source,
            destination,
            recursive,
        })
        .await
    }

    /// Lists a tree breadth first, each directory sorted by name.
    ///
    /// # Errors
    ///
    /// Refuses limits that are zero or too high; else what the operating system says about the root. What goes wrong
    /// below is reported inside the result.
    pub async fn walk(&self, root: PathBuf, options: WalkOptions) -> Result<Walk, FileError> {
        match self.answer(Call::Walk { root, options }).await? {
            Answer::Walk(walk) => Ok(walk),
            _ => Err(call::mismatch()),
        }
    }

    /// Opens a file for reading, or for replacing.
    pub(crate) async fn open(&self, call: Call) -> Result<File, FileError> {
        let reach = self.reach.clone();
        self.run(move |stop| reach.open(call, stop)).await
    }

    /// Whether calls are done in a sandbox.
    pub(crate) fn is_confined(&self) -> bool {
        matches!(self.reach, Reach::Jail(_))
    }

    async fn done(&self, call: Call) -> Result<(), FileError> {
        match self.answer(call).await? {
            Answer::Done => Ok(()),
            _ => Err(call::mismatch()),
        }
    }

    async fn answer(&self, call: Call) -> Result<Answer, FileError> {
        let reach = self.reach.clone();
        self.run(move |stop| reach.answer(&call, stop)).await
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Stop) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        self.run_leaving(|stop| Ok((call(stop)?, ()))).await
    }

    /// As [`Self::run`], for a call that leaves something whose drop takes its time: it is dropped behind the answer, and the call
    /// counts among those that run until then.
    pub(crate) async fn run_leaving<T: Send + 'static, L>(
        &self,
        call: impl FnOnce(&Stop) -> Result<(T, L), FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return Err(FileError::stopped());
        };
        let stop = Stop::default();
        let guard = StopOnDrop(stop.clone());
        let (answer, answered) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let called = call(&stop);
            let (result, _left) =
                called.map_or_else(|error| (Err(error), None), |(value, left)| (Ok(value), Some(left)));
            // A caller that is gone need not know.
            let _ = answer.send(result);
        });
        let result = answered.await;
        drop(guard);
        result.unwrap_or_else(|_panicked| Err(FileError::stopped()))
    }
}

impl Reach {
    fn answer(&self, call: &Call, stop: &Stop) -> Result<Answer, FileError> {
        match self {
            Self::Everything | Self::AllButProc => call.perform(stop),
            Self::Jail(jail) => sandbox::files::ask(jail, call, stop),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "the call is made for this")]
    fn open(&self, call: Call, stop: &Stop) -> Result<File, FileError> {
        let Answer::File(file) = self.answer(&call, stop)? else {
            return Err(call::mismatch());
        };
        match self {
            Self::Everything => {}
            // Judged by what was opened: paths may lead elsewhere from one moment to the next.
            Self::AllButProc => {
                if rustix::fs::fstatfs(&file).map_err(io::Error::from)?.f_type == PROC_SUPER_MAGIC {
                    return Err(io::Error::from(io::ErrorKind::PermissionDenied).into());
                }
            }
            // The file comes from another process.
            Self::Jail(_) => regular::check(&file)?,
        }
        Ok(file)
    }
}

/// Tells a call that nobody waits for it any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn check(&self) -> Result<(), FileError> {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{FileError, Files, MAX_CONCURRENT, Stop, Target, WalkOptions, copy, directory, walk};

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn long_calls_stop_when_they_are_told_to() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let options = WalkOptions {
            max_depth: 1,
            max_directories: 10,
            max_entries: 10,
            follow_directory_symlinks: false,
            prune_hidden_directories: false,
        };
        let to = tempfile::tempdir().unwrap();
        let calls = |stop: &Stop| -> [Result<(), FileError>; 3] {
            let from: &Path = folder.path();
            [
                directory::list(&Target::from(from), stop).map(drop),
                walk::walk(from, options, stop).map(drop),
                copy::copy(from, &to.path().join("copy"), true, stop),
            ]
        };
        let stop = Stop::default();
        assert!(calls(&stop).iter().all(Result::is_ok));
        stop.0.store(true, super::Ordering::Relaxed);
        for stopped in calls(&stop) {
            assert_eq!(stopped.unwrap_err().to_string(), FileError::stopped().to_string());
        }
    }

    #[tokio::test]
    async fn a_call_whose_caller_goes_away_is_told_to_stop() {
        let (started, starts) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let files = Files::default();
        let call = tokio::spawn(async move {
            files
                .run(move |stop| {
                    started.send(()).unwrap();
                    let begin = std::time::Instant::now();
                    while stop.check().is_ok() && begin.elapsed() < PATIENCE {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    let result = stop.check();
                    ended.send(result.is_err()).unwrap();
                    result
                })
                .await
        });
        tokio::task::spawn_blocking(move || starts.recv_timeout(PATIENCE).unwrap())
            .await
            .unwrap();
        call.abort();
        let stopped = tokio::task::spawn_blocking(move || ends.recv_timeout(2 * PATIENCE).unwrap());
        assert!(stopped.await.unwrap());
    }

    #[tokio::test]
    async fn what_a_call_leaves_is_dropped_behind_its_answer_and_counts_until_then() {
        struct Left(mpsc::Receiver<()>);
        impl Drop for Left {
            fn drop(&mut self) {
                let _ended = self.0.recv_timeout(PATIENCE);
            }
        }
        let files = Files::default();
        let (go, gone) = mpsc::channel();
        let answer = files.run_leaving(move |_| Ok((7, Left(gone)))).await;
        assert_eq!(answer.unwrap(), 7);
        assert_eq!(files.permits.available_permits(), MAX_CONCURRENT - 1);
        drop(go);
        let all = files.permits.acquire_many(u32::try_from(MAX_CONCURRENT).unwrap());
        drop(tokio::time::timeout(PATIENCE, all).await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn so_many_calls_run_at_once_and_no_more() {
        let files = Files::default();
        let (go, gone) = mpsc::channel::<()>();
        let gone = std::sync::Arc::new(std::sync::Mutex::new(gone));
        let (started, starts) = mpsc::channel();
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..=MAX_CONCURRENT {
            let (files, gone, started) = (files.clone(), gone.clone(), started.clone());
            calls.spawn(async move {
                files
                    .run(move |_| {
                        started.send(()).unwrap();
                        // Ends when nobody holds the other end any more.
                        let _ended = gone.lock().unwrap().recv();
                        Ok(())
                    })
                    .await
            });
        }
        let (starts, running) = tokio::task::spawn_blocking(move || {
            for _ in 0..MAX_CONCURRENT {
                starts.recv_timeout(PATIENCE).unwrap();
            }
            let more = starts.recv_timeout(Duration::from_millis(200));
            (starts, MAX_CONCURRENT + usize::from(more.is_ok()))
        })
        .await
        .unwrap();
        assert_eq!(running, MAX_CONCURRENT);
        drop(go);
        assert!(calls.join_all().await.iter().all(Result::is_ok));
        assert!(starts.try_recv().is_ok(), "the last one had its turn");
    }
}
