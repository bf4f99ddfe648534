//! Whole regular files.

use std::fs::{File, FileType, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use nix::libc::O_NONBLOCK;
use rustix::fs::{Mode, OFlags};

use super::target::{self, Links, Target};
use super::{FileError, ReadSink, Stop};

/// Largest file that can be read whole.
pub const MAX_FILE: u64 = 512 * 1024 * 1024;
/// Bytes that are read or written at once.
const STEP: usize = 256 * 1024;

/// Opens a regular file for reading, never waiting: neither for a writer of a FIFO nor for a device.
pub(super) fn open(target: &Target) -> Result<File, FileError> {
    // Opening a device can act on it, so what is no file is refused before it is opened, and again by what was opened.
    if !target.metadata()?.is_file() {
        return Err(no_file(target));
    }
    let file = match target.links {
        Links::Follow => OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(&target.path)?,
        Links::Refuse => target::open(&target.path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?.into(),
    };
    if !file.metadata()?.is_file() {
        return Err(no_file(target));
    }
    Ok(file)
}

/// Refuses what neither of the ways to open a file gives.
pub(super) fn check(file: &File) -> Result<(), FileError> {
    let kind = file.metadata()?.file_type();
    if is_special(kind) || kind.is_dir() || kind.is_symlink() {
        return Err(FileError::refused("this is not a file"));
    }
    Ok(())
}

/// Gives the content of a regular file of at most `limit` bytes to `sink`, piece by piece.
pub(super) fn read<S: ReadSink>(file: File, limit: u64, mut sink: S, stop: &Stop) -> Result<S, FileError> {
    let limit = limit.min(MAX_FILE);
    let too_large = || FileError::refused(format!("file is too large to read: limit is {limit} bytes"));
    let size = file.metadata()?.len();
    if size > limit {
        return Err(too_large());
    }
    sink.expect(usize::try_from(size).unwrap_or(0));
    // The file may grow meanwhile, and files of /proc have no size at all.
    let mut file = file.take(limit + 1);
    let mut piece = vec![
        0;
        usize::try_from(size.saturating_add(1))
            .unwrap_or(STEP)
            .clamp(4096, STEP)
    ];
    let mut got = 0;
    loop {
        stop.check()?;
        match file.read(&mut piece) {
            Ok(0) => return Ok(sink),
            Ok(len) => {
                got += len as u64;
                if got > limit {
                    return Err(too_large());
                }
                sink.take(&piece[..len]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Fills an empty file with what `pieces` give.
pub(super) fn write(
    mut file: File,
    pieces: impl Iterator<Item = impl AsRef<[u8]>>,
    stop: &Stop,
) -> Result<(), FileError> {
    for piece in pieces {
        stop.check()?;
        file.write_all(piece.as_ref())?;
    }
    Ok(())
}

/// Opens a file for replacing, or creates it. Refuses what would block or is read by somebody as it is written.
pub(super) fn create(target: &Target) -> Result<File, FileError> {
    if target.metadata().is_ok_and(|metadata| is_special(metadata.file_type())) {
        return Err(no_file(target));
    }
    let file: File = match target.links {
        Links::Follow => OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(O_NONBLOCK)
            .open(&target.path)?,
        Links::Refuse => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
            target::open(&target.path, flags, Mode::from_raw_mode(0o666))?.into()
        }
    };
    let kind = file.metadata()?.file_type();
    if is_special(kind) {
        return Err(no_file(target));
    }
    if kind.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

pub(super) fn no_file(target: &Target) -> FileError {
    FileError::refused(format!("path `{}` is not a file", target.path.display()))
}

fn is_special(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_socket() || kind.is_block_device()
}
