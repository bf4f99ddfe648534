//! Empty folders that keep a path from being made.
//!
//! A mount needs something to be on. Where a protected path does not exist, an empty folder stands in for it while a
//! sandbox needs it. Removing a folder undoes the mounts on it in every namespace, so it may go only when the last sandbox
//! that relies on it has ended, of this executor or another one: each holds a shared lock on it, and who wants to remove it
//! must get the exclusive one.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::geteuid;

/// Paths that this process made and has not removed yet.
static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// How often a folder may vanish between its making and its locking.
const ATTEMPTS: usize = 100;

/// A hold on one empty folder. Dropped, it removes the folder if this process made it and nobody else holds it.
#[derive(Debug)]
pub(super) struct Placeholder {
    path: PathBuf,
    /// Nothing, where the file system knows no locks; then the folder stays.
    lock: Option<File>,
}

impl Placeholder {
    /// Makes the folder, or holds the one that is there. Nothing if nobody of this user could make it.
    pub(super) fn hold(path: &Path) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS {
            match std::fs::create_dir(path) {
                Ok(()) => {
                    made().insert(path.to_owned());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if is_impossible(path, &error) => return Ok(None),
                Err(error) => return Err(error),
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = match open(path, flags | OFlags::DIRECTORY, Mode::empty()) {
                Ok(folder) => File::from(folder),
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            let locked = flock(&folder, FlockOperation::LockShared).is_ok();
            let is_same = |now: std::fs::Metadata| {
                folder
                    .metadata()
                    .is_ok_and(|ours| (ours.dev(), ours.ino()) == (now.dev(), now.ino()))
            };
            if path.symlink_metadata().is_ok_and(is_same) {
                return Ok(Some(Self {
                    path: path.to_owned(),
                    lock: locked.then_some(folder),
                }));
            }
        }
        Err(io::Error::other("a placeholder vanishes again and again"))
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let Some(lock) = &self.lock else { return };
        let mut made = made();
        if !made.contains(&self.path) {
            return;
        }
        if flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Whatever came into it meanwhile keeps it.
            let _filled = std::fs::remove_dir(&self.path);
            made.remove(&self.path);
        }
    }
}

fn made() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a program of this user cannot make the folder either, not even after changing the mode of its parent.
fn is_impossible(path: &Path, error: &io::Error) -> bool {
    let is_other = |parent: &Path| parent.metadata().is_ok_and(|parent| parent.uid() != geteuid().as_raw());
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => true,
        io::ErrorKind::PermissionDenied => path.parent().is_some_and(is_other),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_with_its_last_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".git");
        let first = Placeholder::hold(&path).expect("held").expect("possible");
        let second = Placeholder::hold(&path).expect("held").expect("possible");
        drop(first);
        assert!(path.is_dir(), "the second still holds it");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn what_was_there_before_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".git");
        std::fs::create_dir(&path).expect("made");
        drop(Placeholder::hold(&path).expect("held"));
        assert!(path.is_dir());
    }

    #[test]
    fn what_was_filled_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".git");
        let held = Placeholder::hold(&path).expect("held");
        std::fs::write(path.join("config"), "").expect("written");
        drop(held);
        assert!(path.join("config").exists());
    }

    #[test]
    fn a_file_or_link_is_no_placeholder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &path).expect("linked");
        assert!(Placeholder::hold(&path).is_err());
    }
}
