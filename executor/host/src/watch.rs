//! Waiting for paths to appear.
//!
//! The kernel tells of changes in directories that are watched. A path that is missing is watched in the directory where
//! its first missing part would stand, and every directory above that in its own, since any of them may be moved away
//! and another put there. So a watch may tell of a change that leaves the path missing: whoever waits must look again.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::files::{FileError, Files};
use crate::process::sys;

/// Missing paths of one watch.
pub const MAX_MISSING: usize = 64;
/// Directories of one watch.
pub const MAX_DIRECTORIES: usize = 1024;

/// What changes a directory as a place for names.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE);
/// What changes a file or directory itself.
const ITSELF: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Waits for one of some missing paths to appear, or for one that is there to change.
#[derive(Debug)]
pub struct MissingWatch {
    kernel: AsyncFd<OwnedFd>,
    places: Places,
}

#[derive(Debug, Default)]
struct Places {
    by_watch: HashMap<i32, Place>,
}

/// What counts at one watched file or directory.
#[derive(Debug, Default)]
struct Place {
    names: HashSet<OsString>,
    itself: bool,
}

impl MissingWatch {
    /// Begins to watch. Nothing when there is nothing to wait for, or it cannot be watched: one of the paths exists or
    /// leads through a link or a file, `present` does not exist or is a link, there are more than [`MAX_MISSING`] paths or
    /// [`MAX_DIRECTORIES`], or the kernel has no room for another watch.
    ///
    /// Must be called inside a tokio runtime with IO.
    pub async fn new(files: &Files, missing: Vec<PathBuf>, present: Option<PathBuf>) -> Option<Self> {
        if missing.is_empty() || missing.len() > MAX_MISSING {
            return None;
        }
        let begun = files.run(move |_| begin(&missing, present.as_deref()).map_err(FileError::from));
        let (kernel, places) = begun.await.ok().flatten()?;
        let kernel = sys::watch(kernel, Interest::READABLE).ok()?;
        Some(Self { kernel, places })
    }

    /// Waits for a change. One that came before the call counts.
    ///
    /// # Errors
    ///
    /// When the kernel's news cannot be read.
    pub async fn changed(&self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        loop {
            let mut ready = self.kernel.readable().await?;
            let mut reader = Reader::new(self.kernel.get_ref().as_fd(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                        if self.places.is_changed(event.wd(), event.events(), name) {
                            return Ok(());
                        }
                    }
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
        }
    }
}

impl Places {
    fn is_changed(&self, watch: i32, events: ReadFlags, name: Option<&OsStr>) -> bool {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return true;
        }
        let Some(place) = self.by_watch.get(&watch) else {
            return false;
        };
        let of_names = ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::MOVED_FROM | ReadFlags::DELETE;
        match name {
            Some(name) => events.intersects(of_names) && place.names.contains(name),
            // The kernel ends a watch when what it watched is gone, or its file system is.
            None => place.itself || events.intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT),
        }
    }

    fn add(&mut self, kernel: &OwnedFd, path: &Path, flags: WatchFlags) -> io::Result<Option<&mut Place>> {
        if self.by_watch.len() >= MAX_DIRECTORIES {
            return Ok(None);
        }
        let flags = flags | WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD;
        let watch = inotify::add_watch(kernel, path, flags)?;
        Ok(Some(self.by_watch.entry(watch).or_default()))
    }

    /// Watches every directory above `path` for the part that stands in it, and gives what exists of the path.
    fn watch_above(&mut self, kernel: &OwnedFd, path: &Path) -> io::Result<Option<PathBuf>> {
        let mut reached = PathBuf::new();
        for part in path {
            let inside = reached.join(part);
            if !reached.as_os_str().is_empty() {
                let flags = NAMES | WatchFlags::ONLYDIR;
                let Some(place) = self.add(kernel, &reached, flags)? else {
                    return Ok(None);
                };
                place.names.insert(part.to_owned());
            }
            match inside.symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => return Ok(None),
                Ok(_) => reached = inside,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(reached)),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(reached))
    }
}

fn begin(missing: &[PathBuf], present: Option<&Path>) -> io::Result<Option<(OwnedFd, Places)>> {
    let kernel = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let mut places = Places::default();
    for path in missing {
        match places.watch_above(&kernel, path)? {
            Some(reached) if reached != *path && reached.is_absolute() => {
                let Some(place) = places.add(&kernel, &reached, ITSELF | WatchFlags::ONLYDIR)? else {
                    return Ok(None);
                };
                place.itself = true;
            }
            _ => return Ok(None),
        }
    }
    if let Some(path) = present {
        if places.watch_above(&kernel, path)?.as_deref() != Some(path) {
            return Ok(None);
        }
        let Some(place) = places.add(&kernel, path, ITSELF | WatchFlags::MODIFY)? else {
            return Ok(None);
        };
        place.itself = true;
    }
    // What appeared while the watches were being set was perhaps not seen by them.
    if missing.iter().any(|path| path.symlink_metadata().is_ok()) {
        return Ok(None);
    }
    Ok(Some((kernel, places)))
}
