//! Directories, and what stands in them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

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

pub(super) fn create(path: &Path, recursive: bool) -> Result<(), FileError> {
    if recursive {
        fs::create_dir_all(path)?;
    } else {
        fs::create_dir(path)?;
    }
    Ok(())
}

pub(super) fn metadata(path: &Path) -> Result<Metadata, FileError> {
    let itself = path.symlink_metadata()?;
    let is_symlink = itself.is_symlink();
    let target = if is_symlink { path.metadata()? } else { itself };
    Ok(Metadata {
        is_directory: target.is_dir(),
        is_file: target.is_file(),
        is_symlink,
        size: target.len(),
        created: target.created().ok(),
        modified: target.modified().ok(),
    })
}

pub(super) fn list(path: &Path, stop: &Stop) -> Result<Vec<Entry>, FileError> {
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

pub(super) fn remove(path: &Path, recursive: bool, force: bool) -> Result<(), FileError> {
    let removed = path.symlink_metadata().and_then(|metadata| {
        if !metadata.is_dir() {
            fs::remove_file(path)
        } else if recursive {
            fs::remove_dir_all(path)
        } else {
            fs::remove_dir(path)
        }
    });
    match removed {
        Err(error) if force && error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => Ok(other?),
    }
}
