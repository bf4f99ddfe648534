//! Copies.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use super::{FileError, Stop, Target, regular};

pub(super) fn copy(source: &Path, destination: &Path, recursive: bool, stop: &Stop) -> Result<(), FileError> {
    let kind = source.symlink_metadata()?.file_type();
    if kind.is_symlink() {
        copy_link(source, destination)
    } else if kind.is_file() {
        copy_file(source, destination)
    } else if !kind.is_dir() {
        Err(FileError::refused(
            "fs/copy only supports regular files, directories, and symlinks",
        ))
    } else if !recursive {
        Err(FileError::refused(
            "fs/copy requires recursive: true when sourcePath is a directory",
        ))
    } else {
        refuse_into_itself(source, destination)?;
        copy_tree(source, destination, stop)
    }
}

fn copy_link(source: &Path, destination: &Path) -> Result<(), FileError> {
    Ok(symlink(source.read_link()?, destination)?)
}

fn copy_file(source: &Path, destination: &Path) -> Result<(), FileError> {
    let mut from = regular::open(&Target::from(source))?;
    // Replacing a file by itself, by whatever name, would empty it.
    let this = from.metadata()?;
    if fs::metadata(destination).is_ok_and(|there| (there.dev(), there.ino()) == (this.dev(), this.ino())) {
        return Ok(());
    }
    let mut to = regular::create(&Target::from(destination))?;
    io::copy(&mut from, &mut to)?;
    if to.metadata()?.is_file() {
        to.set_permissions(this.permissions())?;
    }
    Ok(())
}

fn copy_tree(source: &Path, destination: &Path, stop: &Stop) -> Result<(), FileError> {
    let mut pending = vec![(source.to_owned(), destination.to_owned())];
    while let Some((from, to)) = pending.pop() {
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(&from)? {
            stop.check()?;
            let entry = entry?;
            let kind = entry.file_type()?;
            let target = to.join(entry.file_name());
            if kind.is_dir() {
                pending.push((entry.path(), target));
            } else if kind.is_file() {
                copy_file(&entry.path(), &target)?;
            } else if kind.is_symlink() {
                copy_link(&entry.path(), &target)?;
            }
        }
    }
    Ok(())
}

/// A tree that is copied into itself would grow for ever.
fn refuse_into_itself(source: &Path, destination: &Path) -> Result<(), FileError> {
    if resolve(destination)?.starts_with(source.canonicalize()?) {
        return Err(FileError::refused(
            "fs/copy cannot copy a directory to itself or one of its descendants",
        ));
    }
    Ok(())
}

/// The canonical form of a path whose last parts need not exist.
fn resolve(path: &Path) -> Result<PathBuf, FileError> {
    for ancestor in path.ancestors() {
        match ancestor.canonicalize() {
            Ok(existing) => {
                let rest = path.strip_prefix(ancestor).unwrap_or_else(|_| Path::new(""));
                return Ok(existing.join(rest));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(path.to_owned())
}
