//! A file that is being written to take the place of another.
//!
//! What is written goes into a file without a name, in the same directory, and takes the place at the end in one step:
//! whoever reads meanwhile sees the old content, and a writer that goes away half-way leaves it. Where that cannot be
//! done (other names share the file, the directory takes no new file, the owner cannot be kept), the file itself is
//! emptied and written, as everybody else does.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, fchown, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::target::{self, Links, Target};
use super::{FileError, regular};

/// Attempts to find a name that nobody uses.
const MAX_ATTEMPTS: usize = 16;

/// A file that is being written.
#[derive(Debug)]
pub(super) enum Staged {
    /// Beside its place.
    Aside(Aside),
    /// In its place, readable half-written.
    InPlace(File),
}

/// A file beside the place that it shall take. Dropped before, it vanishes.
#[derive(Debug)]
pub(super) struct Aside {
    file: File,
    directory: OwnedFd,
    name: OsString,
    /// The file that has the place now, open for writing.
    old: Option<File>,
    /// A name that `file` has until then, on file systems without files that have none.
    temporary: Option<OsString>,
}

impl Staged {
    /// Begins to replace or create a file.
    pub(super) fn open(target: &Target) -> Result<Self, FileError> {
        // The place is where the link leads, and stays there.
        let resolved = match target.links {
            Links::Follow if target.path.is_symlink() => match target.path.canonicalize() {
                Ok(path) => Target::new(path, Links::Refuse),
                Err(_dangling) => return Ok(Self::InPlace(regular::create(target)?)),
            },
            _ => target.clone(),
        };
        let old = match existing(&resolved)? {
            Some((file, metadata)) => {
                if metadata.nlink() > 1 {
                    return emptied(file);
                }
                Some((file, metadata))
            }
            None => None,
        };
        let (directory, name) = match resolved.links {
            Links::Refuse => {
                let (directory, name) = target::parent(&resolved.path)?;
                (directory, name)
            }
            Links::Follow => split(&resolved.path)?,
        };
        let name = name.to_owned();
        let staged = stage(&directory, old.as_ref().map(|(_, metadata)| metadata));
        match (staged, old) {
            (Ok((file, temporary)), old) => Ok(Self::Aside(Aside {
                file,
                directory,
                name,
                old: old.map(|(file, _)| file),
                temporary,
            })),
            (Err(_), Some((file, _))) => emptied(file),
            (Err(error), None) => Err(error.into()),
        }
    }

    pub(super) fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Aside(Aside { file, .. }) | Self::InPlace(file) => file.write_all_at(data, offset),
        }
    }

    /// Takes the place, and gives the file that had it. To drop that one takes a while if it was large: its content is given
    /// back to the file system.
    pub(super) fn commit(self) -> io::Result<Option<File>> {
        match self {
            Self::InPlace(_) => Ok(None),
            Self::Aside(aside) => aside.commit(),
        }
    }
}

fn emptied(file: File) -> Result<Staged, FileError> {
    file.set_len(0)?;
    Ok(Staged::InPlace(file))
}

/// The regular file that has the place, which must be writable as if it were to be emptied.
fn existing(target: &Target) -> Result<Option<(File, Metadata)>, FileError> {
    match target.metadata() {
        Ok(metadata) if metadata.is_dir() => return Err(io::Error::from(Errno::ISDIR).into()),
        Ok(metadata) if !metadata.is_file() => return Err(regular::no_file(target)),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let file: File = match target.links {
        Links::Follow => OpenOptions::new()
            .write(true)
            .custom_flags(O_NONBLOCK | O_NOFOLLOW)
            .open(&target.path)?,
        Links::Refuse => target::open(&target.path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())?.into(),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(regular::no_file(target));
    }
    Ok(Some((file, metadata)))
}

fn split(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let (directory, name) = path.parent().zip(path.file_name()).ok_or(Errno::ISDIR)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((openat(CWD, directory, flags, Mode::empty())?, name))
}

/// A new file in a directory, with the owner and permissions of the file that it shall replace.
fn stage(directory: &OwnedFd, old: Option<&Metadata>) -> io::Result<(File, Option<OsString>)> {
    let mode = Mode::from_raw_mode(0o666);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let (file, temporary) = match openat(directory, ".", flags | OFlags::TMPFILE, mode) {
        Ok(fd) => (File::from(fd), None),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let (file, name) = fresh_name(|name| {
                openat(directory, name, flags | OFlags::CREATE | OFlags::EXCL, mode).map(File::from)
            })?;
            (file, Some(name))
        }
        Err(error) => return Err(error.into()),
    };
    let kept = old.map_or(Ok(()), |old| keep(&file, old));
    if let (Err(error), temporary) = (kept, &temporary) {
        remove(directory, temporary.as_deref());
        return Err(error);
    }
    Ok((file, temporary))
}

fn keep(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        fchown(file, Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())))?;
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

/// Does something with a name that nobody uses.
fn fresh_name<T>(mut with: impl FnMut(&OsStr) -> Result<T, Errno>) -> io::Result<(T, OsString)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut last = Errno::EXIST;
    for _ in 0..MAX_ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name: OsString = format!(".rendezvous-{}-{number}", std::process::id()).into();
        match with(&name) {
            Ok(done) => return Ok((done, name)),
            Err(Errno::EXIST) => {}
            Err(error) => {
                last = error;
                break;
            }
        }
    }
    Err(last.into())
}

fn remove(directory: &OwnedFd, name: Option<&OsStr>) {
    if let Some(name) = name {
        // Left behind at worst, under a name that says whose it is.
        let _ = unlinkat(directory, name, AtFlags::empty());
    }
}

impl Aside {
    fn commit(mut self) -> io::Result<Option<File>> {
        let renamed = self.give_name().and_then(|()| match &self.temporary {
            Some(name) => Ok(renameat(&self.directory, name, &self.directory, &self.name)?),
            None => Ok(()),
        });
        match (renamed, &self.old) {
            (Ok(()), _) => {
                self.temporary = None;
                Ok(self.old.take())
            }
            // What is mounted at the place cannot be moved away, and the directory may take no new files any more.
            (Err(error), Some(old)) if is_in_the_way(&error) => copy(&self.file, old).map(|()| None),
            (Err(error), _) => Err(error),
        }
    }

    /// Gives the file a name: its last one if that is free, else one to be renamed from.
    fn give_name(&mut self) -> io::Result<()> {
        if self.temporary.is_some() {
            return Ok(());
        }
        let link = |name: &OsStr| {
            let unnamed = target::pinned(&self.file);
            linkat(CWD, unnamed, &self.directory, name, AtFlags::SYMLINK_FOLLOW)
        };
        if self.old.is_none() {
            match link(&self.name) {
                Err(Errno::EXIST) => {}
                other => return Ok(other?),
            }
        }
        let ((), name) = fresh_name(link)?;
        self.temporary = Some(name);
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        remove(&self.directory, self.temporary.as_deref());
    }
}

fn is_in_the_way(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), ResourceBusy | PermissionDenied | ReadOnlyFilesystem)
}

fn copy(mut from: &File, mut to: &File) -> io::Result<()> {
    from.seek(SeekFrom::Start(0))?;
    to.set_len(0)?;
    to.seek(SeekFrom::Start(0))?;
    io::copy(&mut from, &mut to)?;
    Ok(())
}
