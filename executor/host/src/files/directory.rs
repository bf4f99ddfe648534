//! Directories, and what stands in them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::target::{self, Links, Target};
use super::{FileError, Metadata, Stop};

/// Largest directory that can be listed.
pub const MAX_ENTRIES: usize = 50_000;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which need not be text.
    pub name: OsString,
    /// A directory, or a link to one.
    pub is_directory: bool,
    /// A regular file, or a link to one.
    pub is_file: bool,
}

pub(super) fn create(target: &Target, recursive: bool) -> Result<(), FileError> {
    let path = &target.path;
    match (target.links, recursive) {
        (Links::Follow, true) => fs::create_dir_all(path)?,
        (Links::Follow, false) => fs::create_dir(path)?,
        (Links::Refuse, true) => create_all(path)?,
        (Links::Refuse, false) => {
            let (parent, name) = target::parent(path)?;
            mkdirat(parent, name, NEW_DIRECTORY).map_err(io::Error::from)?;
        }
    }
    Ok(())
}

/// Permissions of a new directory, before the process's mask.
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

/// Creates a directory and those above it, part by part, each of which must be a directory and no link.
fn create_all(path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut reached: OwnedFd = openat(CWD, "/", flags, Mode::empty())?;
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::RootDir | Component::CurDir => continue,
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL.into()),
        };
        let next = match openat(&reached, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(&reached, name, NEW_DIRECTORY) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&reached, name, flags, Mode::empty())
            }
            other => other,
        };
        reached = next?;
    }
    Ok(())
}

pub(super) fn metadata(target: &Target) -> Result<Metadata, FileError> {
    let path = &target.path;
    let itself = match target.links {
        Links::Follow => path.symlink_metadata()?,
        Links::Refuse => target::look_at_itself(path)?.metadata()?,
    };
    let is_symlink = itself.is_symlink();
    if is_symlink && target.links == Links::Refuse {
        return Err(FileError::link());
    }
    let metadata = if is_symlink { path.metadata()? } else { itself };
    Ok(Metadata {
        is_directory: metadata.is_dir(),
        is_file: metadata.is_file(),
        is_symlink,
        size: metadata.len(),
        created: metadata.created().ok(),
        modified: metadata.modified().ok(),
    })
}

pub(super) fn list(target: &Target, stop: &Stop) -> Result<Vec<Entry>, FileError> {
    match target.links {
        Links::Follow => list_at(&target.path, stop),
        Links::Refuse => {
            let directory = target::open(&target.path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
            list_at(&target::pinned(&directory), stop)
        }
    }
}

fn list_at(path: &Path, stop: &Stop) -> Result<Vec<Entry>, FileError> {
    let mut entries = Vec::new();
    for (count, entry) in fs::read_dir(path)?.enumerate() {
        stop.check()?;
        if count >= MAX_ENTRIES {
            return Err(io::Error::other(format!("directory has more than {MAX_ENTRIES} entries")).into());
        }
        let entry = entry?;
        let mut kind = entry.file_type()?;
        if kind.is_symlink() {
            match fs::metadata(entry.path()) {
                Ok(target) => kind = target.file_type(),
                Err(_dangling) => continue,
            }
        }
        entries.push(Entry {
            name: entry.file_name(),
            is_directory: kind.is_dir(),
            is_file: kind.is_file(),
        });
    }
    Ok(entries)
}

pub(super) fn remove(target: &Target, recursive: bool, force: bool) -> Result<(), FileError> {
    let removed = match target.links {
        Links::Follow => remove_at(&target.path, recursive),
        Links::Refuse => remove_without_links(&target.path, recursive),
    };
    match removed {
        Err(FileError::Io(error)) if force && error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn remove_at(path: &Path, recursive: bool) -> Result<(), FileError> {
    let removed = if !path.symlink_metadata()?.is_dir() {
        fs::remove_file(path)
    } else if recursive {
        fs::remove_dir_all(path)
    } else {
        fs::remove_dir(path)
    };
    Ok(removed?)
}

fn remove_without_links(path: &Path, recursive: bool) -> Result<(), FileError> {
    let (parent, name) = target::parent(path)?;
    let itself = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
    let removed = match FileType::from_raw_mode(itself.st_mode) {
        FileType::Symlink => return Err(FileError::link()),
        // Below its argument this follows no link either.
        FileType::Directory if recursive => fs::remove_dir_all(target::pinned(&parent).join(name)),
        FileType::Directory => unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(Into::into),
        _ => unlinkat(&parent, name, AtFlags::empty()).map_err(Into::into),
    };
    Ok(removed?)
}
