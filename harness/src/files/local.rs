//! Files on this machine.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use rendezvous_host::files::{Access, Files, Handles, MAX_FILE, WalkOptions as HostWalkOptions};
use rendezvous_rpc::PathUri;
use rendezvous_rpc::method::fs::{DirectoryEntry, EntryKind, Metadata, WalkEntry, WalkError, WalkOptions, WalkResult};

use super::open::{Block, FileReader, FileWriter, ReaderAt, WriterAt};
use crate::backend::FileSystem;
use crate::error::{HarnessError, LocalError};

/// The one file of a set of handles.
const HANDLE: &str = "file";

/// Calls on this machine's files.
#[derive(Debug, Default)]
pub(crate) struct LocalFiles {
    files: Files,
}

impl LocalFiles {
    async fn open_as(&self, path: &PathUri, access: Access) -> Result<Handles, HarnessError> {
        let handles = Handles::new(self.files.clone());
        let opened = handles.open(HANDLE, native(path)?, access).await;
        opened.map_err(LocalError::from)?;
        Ok(handles)
    }
}

#[async_trait]
impl FileSystem for LocalFiles {
    async fn read_file(&self, path: &PathUri) -> Result<Bytes, HarnessError> {
        let read = self.files.read(native(path)?, MAX_FILE);
        Ok(read.await.map_err(LocalError::from)?.into())
    }

    async fn write_file(&self, path: &PathUri, bytes: Bytes) -> Result<(), HarnessError> {
        let written = self.files.write(native(path)?, bytes);
        Ok(written.await.map_err(LocalError::from)?)
    }

    async fn open(&self, path: &PathUri) -> Result<FileReader, HarnessError> {
        let handles = self.open_as(path, Access::Read).await?;
        Ok(FileReader(ReaderAt::Local(LocalFile { handles })))
    }

    async fn replace(&self, path: &PathUri) -> Result<FileWriter, HarnessError> {
        let handles = self.open_as(path, Access::Replace).await?;
        Ok(FileWriter(WriterAt::Local(LocalWriter { handles })))
    }

    async fn metadata(&self, path: &PathUri) -> Result<Metadata, HarnessError> {
        let metadata = self.files.metadata(native(path)?).await.map_err(LocalError::from)?;
        Ok(Metadata {
            is_directory: metadata.is_directory,
            is_file: metadata.is_file,
            is_symlink: metadata.is_symlink,
            size: metadata.size,
            created_at_ms: milliseconds(metadata.created),
            modified_at_ms: milliseconds(metadata.modified),
        })
    }

    async fn list(&self, path: &PathUri) -> Result<Vec<DirectoryEntry>, HarnessError> {
        let entries = self
            .files
            .read_directory(native(path)?)
            .await
            .map_err(LocalError::from)?;
        let entry = |entry: rendezvous_host::files::Entry| DirectoryEntry {
            file_name: entry.name.to_string_lossy().into_owned(),
            is_directory: entry.is_directory,
            is_file: entry.is_file,
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    async fn walk(&self, path: &PathUri, options: WalkOptions) -> Result<WalkResult, HarnessError> {
        let limit = |value| usize::try_from(value).unwrap_or(usize::MAX);
        let options = HostWalkOptions {
            max_depth: limit(options.max_depth),
            max_directories: limit(options.max_directories),
            max_entries: limit(options.max_entries),
            follow_directory_symlinks: options.follow_directory_symlinks,
            prune_hidden_directories: options.prune_hidden_directories,
        };
        let walk = self
            .files
            .walk(native(path)?, options)
            .await
            .map_err(LocalError::from)?;
        let entries = walk.entries.into_iter().map(|entry| {
            let kind = if entry.is_directory {
                EntryKind::Directory
            } else {
                EntryKind::File
            };
            let path = PathUri::from_path(&entry.path)?;
            Ok(WalkEntry { path, kind })
        });
        let errors = walk.problems.into_iter().map(|problem| {
            let path = PathUri::from_path(&problem.path)?;
            let message = problem.message;
            Ok(WalkError { path, message })
        });
        Ok(WalkResult {
            entries: entries.collect::<Result<_, HarnessError>>()?,
            errors: errors.collect::<Result<_, HarnessError>>()?,
            truncated: walk.is_truncated,
        })
    }

    async fn create_directory(&self, path: &PathUri) -> Result<(), HarnessError> {
        let created = self.files.create_directory(native(path)?, true);
        Ok(created.await.map_err(LocalError::from)?)
    }

    async fn remove(&self, path: &PathUri, recursive: bool) -> Result<(), HarnessError> {
        let removed = self.files.remove(native(path)?, recursive, false);
        Ok(removed.await.map_err(LocalError::from)?)
    }

    async fn copy(&self, from: &PathUri, to: &PathUri, recursive: bool) -> Result<(), HarnessError> {
        let copied = self.files.copy(native(from)?, native(to)?, recursive);
        Ok(copied.await.map_err(LocalError::from)?)
    }

    async fn canonicalize(&self, path: &PathUri) -> Result<PathUri, HarnessError> {
        let path = self.files.canonicalize(native(path)?).await.map_err(LocalError::from)?;
        Ok(PathUri::from_path(&path)?)
    }
}

/// A file that is open for reading; dropped, it is closed.
#[derive(Debug)]
pub(super) struct LocalFile {
    handles: Handles,
}

impl LocalFile {
    pub(super) async fn read_block(&self, offset: u64, len: u64) -> Result<Block, HarnessError> {
        let block = self.handles.read(HANDLE, offset, len).await.map_err(LocalError::from)?;
        Ok(Block {
            bytes: block.data.into(),
            is_end: block.is_end,
        })
    }
}

/// A file that is being replaced; dropped, it keeps its old content.
#[derive(Debug)]
pub(super) struct LocalWriter {
    handles: Handles,
}

impl LocalWriter {
    pub(super) async fn write_block(&self, offset: u64, bytes: Bytes) -> Result<(), HarnessError> {
        let written = self.handles.write(HANDLE, offset, bytes);
        Ok(written.await.map_err(LocalError::from)?)
    }

    pub(super) async fn finish(self) -> Result<(), HarnessError> {
        Ok(self.handles.close(HANDLE).await.map_err(LocalError::from)?)
    }
}

fn native(path: &PathUri) -> Result<PathBuf, HarnessError> {
    Ok(path.to_path()?)
}

/// Milliseconds since 1970; 0 when unknown.
fn milliseconds(time: Option<SystemTime>) -> i64 {
    let since = |time: SystemTime| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).ok(),
        Err(before) => i64::try_from(before.duration().as_millis()).ok().map(|ms| -ms),
    };
    time.and_then(since).unwrap_or(0)
}
