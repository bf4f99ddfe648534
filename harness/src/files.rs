//! Files on the executor.

use bytes::Bytes;
use rendezvous_rpc::method::fs::{
    self, CanonicalizeResult, CloseParams, CopyParams, CreateDirectoryParams, DirectoryEntry, Metadata, OpenMode,
    OpenParams, PathParams, ReadBlockParams, RemoveParams, WalkOptions, WalkParams, WalkResult, WriteBlockParams,
    WriteFileParams,
};
use rendezvous_rpc::{Base64, Method as _, PathUri};
use tokio::sync::watch;

use crate::client::Harness;
use crate::error::HarnessError;
use crate::session::Class;
use crate::session::driver::LinkState;

impl Harness {
    /// Reads a whole regular file. Stock executors give up to 512 MiB but send it as one message, so that about 45 MiB is
    /// the most that passes; [`Harness::open`] has no such limit.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn read_file(&self, path: &PathUri) -> Result<Bytes, HarnessError> {
        let result = self.call::<fs::ReadFile>(&PathParams::new(path.clone())).await?;
        Ok(result.data_base64.0)
    }

    /// Replaces or creates a file, whose directory must exist, with one message: at most about 45 MiB.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn write_file(&self, path: &PathUri, bytes: Bytes) -> Result<(), HarnessError> {
        let params = WriteFileParams {
            path: path.clone(),
            data_base64: Ok(Base64(bytes)),
            follow_symlinks: None,
            sandbox: None,
        };
        self.call::<fs::WriteFile>(&params).await.map(drop)
    }

    /// Opens a regular file for reading by blocks. The file is closed when the connection is lost; blocks fail then.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn open(&self, path: &PathUri) -> Result<RemoteFile, HarnessError> {
        let handle = format!("f{}", self.next_number());
        let params = OpenParams {
            handle_id: handle.clone(),
            path: path.clone(),
            mode: OpenMode::Read,
            follow_symlinks: None,
            sandbox: None,
        };
        self.call::<fs::Open>(&params).await?;
        Ok(RemoteFile {
            harness: self.clone(),
            handle,
        })
    }

    /// Begins to replace a regular file, or to create one in an existing directory, by blocks. Our executors put the new
    /// content in place at [`RemoteWriter::finish`]; stock ones empty the file at once. Needs the capability
    /// `fileWriteStreaming`.
    ///
    /// ```no_run
    /// # async fn example(harness: rendezvous_harness::Harness) -> Result<(), rendezvous_harness::HarnessError> {
    /// # use rendezvous_harness::PathUri;
    /// let writer = harness.replace(&PathUri::parse("file:///home/me/large")?).await?;
    /// writer.write_block(0, "first, ".into()).await?;
    /// writer.write_block(7, "second".into()).await?;
    /// writer.finish().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn replace(&self, path: &PathUri) -> Result<RemoteWriter, HarnessError> {
        let mut link = self.link_state();
        link.mark_unchanged();
        let handle = format!("f{}", self.next_number());
        let params = OpenParams {
            handle_id: handle.clone(),
            path: path.clone(),
            mode: OpenMode::Replace,
            follow_symlinks: None,
            sandbox: None,
        };
        self.call::<fs::Open>(&params).await?;
        Ok(RemoteWriter {
            harness: self.clone(),
            handle,
            link,
        })
    }

    /// Describes what a path names.
    ///
    /// # Errors
    ///
    /// As any call; see [`HarnessError::is_not_found`].
    pub async fn metadata(&self, path: &PathUri) -> Result<Metadata, HarnessError> {
        self.call::<fs::GetMetadata>(&PathParams::new(path.clone())).await
    }

    /// Lists a directory, in no order.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn list(&self, path: &PathUri) -> Result<Vec<DirectoryEntry>, HarnessError> {
        let result = self.call::<fs::ReadDirectory>(&PathParams::new(path.clone())).await?;
        Ok(result.entries)
    }

    /// Lists a tree, breadth first.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn walk(&self, path: &PathUri, options: WalkOptions) -> Result<WalkResult, HarnessError> {
        let params = WalkParams {
            path: path.clone(),
            options,
            sandbox: None,
        };
        self.call::<fs::Walk>(&params).await
    }

    /// Creates a directory and those above it; an existing one is no error.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn create_directory(&self, path: &PathUri) -> Result<(), HarnessError> {
        let params = CreateDirectoryParams {
            path: path.clone(),
            recursive: Some(true),
            follow_symlinks: None,
            sandbox: None,
        };
        self.call::<fs::CreateDirectory>(&params).await.map(drop)
    }

    /// Removes a file, a link itself or an empty directory; with `recursive` also a full one.
    ///
    /// # Errors
    ///
    /// As any call; see [`HarnessError::is_not_found`].
    pub async fn remove(&self, path: &PathUri, recursive: bool) -> Result<(), HarnessError> {
        let params = RemoveParams {
            path: path.clone(),
            recursive: Some(recursive),
            force: Some(false),
            follow_symlinks: None,
            sandbox: None,
        };
        self.call::<fs::Remove>(&params).await.map(drop)
    }

    /// Copies a file, a link itself or, with `recursive`, a tree, on the executor.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn copy(&self, from: &PathUri, to: &PathUri, recursive: bool) -> Result<(), HarnessError> {
        let params = CopyParams {
            source_path: from.clone(),
            destination_path: to.clone(),
            recursive,
            sandbox: None,
        };
        self.call::<fs::Copy>(&params).await.map(drop)
    }

    /// The path without links; it must exist.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn canonicalize(&self, path: &PathUri) -> Result<PathUri, HarnessError> {
        let CanonicalizeResult { path } = self.call::<fs::Canonicalize>(&PathParams::new(path.clone())).await?;
        Ok(path)
    }
}

/// An open file on the executor. [`RemoteFile::close`] gives its handle back; executors hold 128 for each connection.
#[derive(Debug)]
pub struct RemoteFile {
    harness: Harness,
    handle: String,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The bytes. Only the end of the file, or an executor that may give less at once, makes them fewer than asked for.
    pub bytes: Bytes,
    /// Whether the file ends with them.
    pub is_end: bool,
}

impl RemoteFile {
    /// Longest block.
    pub const MAX_BLOCK: u64 = fs::MAX_BLOCK;

    /// Reads up to `len` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// As any call; [`HarnessError::is_not_found`] when a lost connection has closed the file.
    pub async fn read_block(&self, offset: u64, len: u64) -> Result<Block, HarnessError> {
        let params = ReadBlockParams {
            handle_id: self.handle.clone(),
            offset,
            len,
        };
        // Reading twice is the same as once, but on a new connection the handle is unknown, and the caller is told so.
        let result = self
            .harness
            .call_as::<fs::ReadBlock>(&params, Class::Repeatable)
            .await?;
        Ok(Block {
            bytes: result.chunk.0,
            is_end: result.eof,
        })
    }

    /// Closes the file.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn close(self) -> Result<(), HarnessError> {
        let params = CloseParams {
            handle_id: self.handle.clone(),
        };
        self.harness
            .call_as::<fs::Close>(&params, Class::Cleanup)
            .await
            .map(drop)
    }
}

/// A file on the executor that is being replaced. [`RemoteWriter::finish`] or [`RemoteWriter::discard`] gives its handle
/// back; dropped, it stays open until the connection ends, which discards it.
#[derive(Debug)]
pub struct RemoteWriter {
    harness: Harness,
    handle: String,
    /// Changes when the connection that holds the handle is lost.
    link: watch::Receiver<LinkState>,
}

impl RemoteWriter {
    /// Longest block.
    pub const MAX_BLOCK: u64 = fs::MAX_BLOCK;

    /// Writes a block of 1 to [`Self::MAX_BLOCK`] bytes at `offset`, in any order; what no block covers reads as zeros.
    ///
    /// # Errors
    ///
    /// As any call; [`HarnessError::is_not_found`] when a lost connection has discarded the file.
    pub async fn write_block(&self, offset: u64, bytes: Bytes) -> Result<(), HarnessError> {
        let params = WriteBlockParams {
            handle_id: self.handle.clone(),
            offset,
            chunk: Base64(bytes),
        };
        // Writing twice is the same as once; on a new connection the handle is unknown.
        let written = self.harness.call_as::<fs::WriteBlock>(&params, Class::Repeatable);
        written.await.map(drop)
    }

    /// Puts the new content in place.
    ///
    /// # Errors
    ///
    /// As any call; [`HarnessError::OutcomeUnknown`] when the connection was lost since the file was opened.
    pub async fn finish(self) -> Result<(), HarnessError> {
        let params = CloseParams {
            handle_id: self.handle.clone(),
        };
        let closed = self.harness.call::<fs::Close>(&params).await;
        // On a new connection the handle is unknown, and closing an unknown one succeeds.
        if self.link.has_changed().unwrap_or(true) {
            return Err(HarnessError::OutcomeUnknown(fs::Close::NAME));
        }
        closed.map(drop)
    }

    /// Gives up. Our executors leave the old content; stock ones what was written so far.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn discard(self) -> Result<(), HarnessError> {
        // No call does only this, but a file that is open for the other purpose is closed by a failed one.
        let params = ReadBlockParams {
            handle_id: self.handle.clone(),
            offset: 0,
            len: 1,
        };
        match self.harness.call_as::<fs::ReadBlock>(&params, Class::Cleanup).await {
            Ok(_) | Err(HarnessError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
