//! Files that are open for reading in blocks.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{FileError, Files, regular};

/// Files that may be open in one set.
pub const MAX_HANDLES: usize = 128;
/// Longest name of a handle, in bytes.
pub const MAX_HANDLE_ID: usize = 32;
/// Largest block.
pub const MAX_BLOCK: usize = 1024 * 1024;

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
    open: Mutex<HashMap<String, Option<Arc<File>>>>,
}

impl Handles {
    /// An empty set whose calls count among those of `files`.
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
    pub async fn open(&self, id: &str, path: PathBuf) -> Result<(), FileError> {
        self.reserve(id)?;
        let reservation = Reservation { handles: self, id };
        let file = self.files.run(move |_| regular::open(&path)).await?;
        self.table().insert(id.to_owned(), Some(Arc::new(file)));
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
        let file = self.table().get(id).cloned().flatten();
        let Some(file) = file else {
            return Err(FileError::UnknownHandle(id.to_owned()));
        };
        let block = self.files.run(move |_| read_block(&file, offset, len)).await;
        if block.is_err() {
            self.close(id);
        }
        block
    }

    /// Closes a handle; an unknown one is fine.
    pub fn close(&self, id: &str) {
        self.table().remove(id);
    }

    fn reserve(&self, id: &str) -> Result<(), FileError> {
        if id.len() > MAX_HANDLE_ID {
            return Err(FileError::refused(format!(
                "file read handle ID must not exceed {MAX_HANDLE_ID} bytes"
            )));
        }
        let mut open = self.table();
        if open.contains_key(id) {
            return Err(FileError::refused(format!("file read handle `{id}` already exists")));
        }
        if open.len() >= MAX_HANDLES {
            return Err(FileError::refused(format!(
                "at most {MAX_HANDLES} file reads may be open per connection"
            )));
        }
        open.insert(id.to_owned(), None);
        Ok(())
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Option<Arc<File>>>> {
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
        self.handles.close(self.id);
    }
}

fn read_block(file: &File, offset: u64, len: usize) -> Result<Block, FileError> {
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
