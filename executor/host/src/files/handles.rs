//! Files that are open for reading or replacing in blocks.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::staged::Staged;
use super::{Call, FileError, Files, Target};

/// Files that may be open in one set.
pub const MAX_HANDLES: usize = 128;
/// Files that may be open in all sets of one [`Files`] together.
pub const MAX_HANDLES_TOTAL: usize = 1024;
/// Longest name of a handle, in bytes.
pub const MAX_HANDLE_ID: usize = 32;
/// Largest block.
pub const MAX_BLOCK: usize = 1024 * 1024;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading a regular file.
    #[default]
    Read,
    /// Replacing a regular file, or creating it in an existing directory. The new content takes the place of the old when
    /// the handle is closed; a handle that is dropped before leaves the old one.
    Replace,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The bytes.
    pub data: Vec<u8>,
    /// The file had fewer bytes than were asked for.
    pub is_end: bool,
}

/// The open files of one client, by the names that it chose.
#[derive(Debug)]
pub struct Handles {
    files: Files,
    open: Mutex<HashMap<String, Slot>>,
}

#[derive(Clone, Debug)]
enum Slot {
    Opening,
    Open(Arc<Open>),
}

#[derive(Debug)]
struct Open {
    file: OpenFile,
    _place: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum OpenFile {
    Reading(File),
    /// Empty once it has been closed.
    Replacing(Mutex<Option<Staged>>),
}

impl Handles {
    /// An empty set whose calls and open files count among those of `files`.
    pub fn new(files: Files) -> Self {
        Self {
            files,
            open: Mutex::default(),
        }
    }

    /// Opens a regular file. It stays this file, whatever happens to the path.
    ///
    /// # Errors
    ///
    /// Refuses a name that is in use or too long, the 129th file, and what is no regular file; else what the operating
    /// system says.
    pub async fn open(&self, id: &str, target: impl Into<Target>, access: Access) -> Result<(), FileError> {
        self.open_with(&self.files, id, target, access).await
    }

    /// As [`Handles::open`], with the file opened by `files`. In a sandbox, a file is replaced by emptying and writing it.
    ///
    /// # Errors
    ///
    /// As [`Handles::open`].
    pub async fn open_with(
        &self,
        files: &Files,
        id: &str,
        target: impl Into<Target>,
        access: Access,
    ) -> Result<(), FileError> {
        self.reserve(id)?;
        let reservation = Reservation { handles: self, id };
        let Ok(place) = Arc::clone(&self.files.handles).try_acquire_owned() else {
            return Err(FileError::refused(format!(
                "at most {MAX_HANDLES_TOTAL} file handles may be open on this executor"
            )));
        };
        let target = target.into();
        let file = match access {
            Access::Read => OpenFile::Reading(files.open(Call::Open(target)).await?),
            Access::Replace if files.is_confined() => {
                let file = files.open(Call::Create(target)).await?;
                OpenFile::Replacing(Mutex::new(Some(Staged::InPlace(file))))
            }
            Access::Replace => {
                let staged = files.run(move |_| Staged::open(&target)).await?;
                OpenFile::Replacing(Mutex::new(Some(staged)))
            }
        };
        let open = Arc::new(Open { file, _place: place });
        self.table().insert(id.to_owned(), Slot::Open(open));
        std::mem::forget(reservation);
        Ok(())
    }

    /// Reads up to `len` bytes from `offset`. A failed read closes the handle.
    ///
    /// # Errors
    ///
    /// Refuses a `len` of 0 or above [`MAX_BLOCK`], and unknown handles; else what the operating system says.
    pub async fn read(&self, id: &str, offset: u64, len: u64) -> Result<Block, FileError> {
        let Ok(len @ 1..=MAX_BLOCK) = usize::try_from(len) else {
            return Err(FileError::refused(format!(
                "file read block length must be between 1 and {MAX_BLOCK}"
            )));
        };
        let open = self.get(id)?;
        let block = self.files.run(move |_| open.read(offset, len)).await;
        if block.is_err() {
            self.forget(id);
        }
        block
    }

    /// Writes a block at `offset`. What lies before and was never written reads as zeros. A failed write closes the handle and
    /// leaves the old file.
    ///
    /// # Errors
    ///
    /// Refuses empty blocks and those above [`MAX_BLOCK`], what goes beyond 63 bits, and unknown handles; else what the
    /// operating system says.
    pub async fn write(&self, id: &str, offset: u64, data: Bytes) -> Result<(), FileError> {
        if data.is_empty() || data.len() > MAX_BLOCK {
            return Err(FileError::refused(format!(
                "file write block length must be between 1 and {MAX_BLOCK}"
            )));
        }
        if offset
            .checked_add(data.len() as u64)
            .is_none_or(|end| i64::try_from(end).is_err())
        {
            return Err(FileError::refused(
                "file write range exceeds the signed 64-bit file offset limit",
            ));
        }
        let open = self.get(id)?;
        let name = id.to_owned();
        let written = self.files.run(move |_| open.write(&name, offset, &data)).await;
        if written.is_err() {
            self.forget(id);
        }
        written
    }

    /// Closes a handle; an unknown one is fine. A replaced file has its new content from here on.
    ///
    /// # Errors
    ///
    /// Refuses a name that is too long. When the new content could not take its place, what the operating system says; the
    /// handle is closed then, too.
    pub async fn close(&self, id: &str) -> Result<(), FileError> {
        check_id(id)?;
        match self.forget(id) {
            Some(Slot::Open(open)) if matches!(open.file, OpenFile::Replacing(_)) => {
                // Nobody need wait until the old content is given back.
                let committing = self.files.run_leaving(move |_| {
                    let old = open.commit();
                    drop(open);
                    Ok(((), old?))
                });
                committing.await
            }
            _ => Ok(()),
        }
    }

    fn forget(&self, id: &str) -> Option<Slot> {
        self.table().remove(id)
    }

    fn get(&self, id: &str) -> Result<Arc<Open>, FileError> {
        match self.table().get(id) {
            Some(Slot::Open(open)) => Ok(Arc::clone(open)),
            Some(Slot::Opening) | None => Err(FileError::UnknownHandle(id.to_owned())),
        }
    }

    fn reserve(&self, id: &str) -> Result<(), FileError> {
        check_id(id)?;
        let mut open = self.table();
        if open.contains_key(id) {
            return Err(FileError::refused(format!("file handle `{id}` already exists")));
        }
        if open.len() >= MAX_HANDLES {
            return Err(FileError::refused(format!(
                "at most {MAX_HANDLES} file handles may be open per connection"
            )));
        }
        open.insert(id.to_owned(), Slot::Opening);
        Ok(())
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that is given back when its file is not opened.
struct Reservation<'a> {
    handles: &'a Handles,
    id: &'a str,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.handles.forget(self.id);
    }
}

fn check_id(id: &str) -> Result<(), FileError> {
    if id.len() > MAX_HANDLE_ID {
        return Err(FileError::refused(format!(
            "file handle ID must not exceed {MAX_HANDLE_ID} bytes"
        )));
    }
    Ok(())
}

impl Open {
    fn read(&self, offset: u64, len: usize) -> Result<Block, FileError> {
        let OpenFile::Reading(file) = &self.file else {
            return Err(wrong_access());
        };
        let mut data = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match file.read_at(&mut data[filled..], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        data.truncate(filled);
        Ok(Block {
            data,
            is_end: filled < len,
        })
    }

    fn write(&self, id: &str, offset: u64, data: &[u8]) -> Result<(), FileError> {
        let OpenFile::Replacing(staged) = &self.file else {
            return Err(wrong_access());
        };
        match &*staged.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(staged) => Ok(staged.write_at(data, offset)?),
            None => Err(FileError::UnknownHandle(id.to_owned())),
        }
    }

    /// Replaces the file, and gives the old one.
    fn commit(&self) -> Result<Option<File>, FileError> {
        let OpenFile::Replacing(staged) = &self.file else {
            return Ok(None);
        };
        let staged = staged.lock().unwrap_or_else(PoisonError::into_inner).take();
        match staged {
            Some(staged) => Ok(staged.commit()?),
            None => Ok(None),
        }
    }
}

/// What the operating system says of a file that was opened for something else.
fn wrong_access() -> FileError {
    std::io::Error::from(rustix::io::Errno::BADF).into()
}
