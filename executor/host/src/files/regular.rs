//! Whole regular files.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::libc::O_NONBLOCK;

use super::FileError;

/// Largest file that can be read whole.
pub const MAX_FILE: u64 = 512 * 1024 * 1024;

/// Opens a regular file for reading, never waiting: neither for a writer of a FIFO nor for a device.
pub(super) fn open(path: &Path) -> Result<File, FileError> {
    let refused = || FileError::refused(format!("path `{}` is not a file", path.display()));
    // Opening a device can act on it, so what is no file is refused before it is opened, and again by what was opened.
    if !path.metadata()?.is_file() {
        return Err(refused());
    }
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(refused());
    }
    Ok(file)
}

pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let limit = limit.min(MAX_FILE);
    let too_large = || FileError::refused(format!("file is too large to read: limit is {limit} bytes"));
    let file = open(path)?;
    let size = file.metadata()?.len();
    if size > limit {
        return Err(too_large());
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow meanwhile, and files of /proc have no size at all.
    let got = file.take(limit + 1).read_to_end(&mut content)?;
    if got as u64 > limit {
        return Err(too_large());
    }
    Ok(content)
}

pub(super) fn write(path: &Path, data: &[u8]) -> Result<(), FileError> {
    let mut file = create(path)?;
    file.write_all(data)?;
    Ok(())
}

/// Opens a file for replacing, or creates it. Refuses what would block or is read by somebody as it is written.
pub(super) fn create(path: &Path) -> Result<File, FileError> {
    let refused = || FileError::refused(format!("path `{}` is not a file", path.display()));
    let is_special = |kind: std::fs::FileType| kind.is_fifo() || kind.is_socket() || kind.is_block_device();
    if path.metadata().is_ok_and(|metadata| is_special(metadata.file_type())) {
        return Err(refused());
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(O_NONBLOCK)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if is_special(kind) {
        return Err(refused());
    }
    if kind.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}
