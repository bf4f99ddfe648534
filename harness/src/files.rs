//! Files on an executor, or on this machine.

mod local;
mod open;

use bytes::Bytes;
use rendezvous_rpc::method::fs::{
    self, CanonicalizeResult, CopyParams, CreateDirectoryParams, OpenMode, OpenParams, PathParams, RemoveParams,
    WalkParams, WriteFileParams,
};
pub use rendezvous_rpc::method::fs::{DirectoryEntry, EntryKind, Metadata, WalkOptions, WalkResult};
use rendezvous_rpc::{Base64, PathUri};

pub(crate) use self::local::LocalFiles;
pub use self::open::{Block, FileReader, FileWriter};
use self::open::{ReaderAt, RemoteFile, RemoteWriter, WriterAt};
use crate::client::Harness;
use crate::error::HarnessError;

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
    pub async fn open(&self, path: &PathUri) -> Result<FileReader, HarnessError> {
        let handle = format!("f{}", self.next_number());
        let params = OpenParams {
            handle_id: handle.clone(),
            path: path.clone(),
            mode: OpenMode::Read,
            follow_symlinks: None,
            sandbox: None,
        };
        self.call::<fs::Open>(&params).await?;
        let file = RemoteFile {
            harness: self.clone(),
            handle,
        };
        Ok(FileReader(ReaderAt::Remote(file)))
    }

    /// Begins to replace a regular file, or to create one in an existing directory, by blocks. Our executors put the new
    /// content in place at [`FileWriter::finish`]; stock ones empty the file at once. Needs the capability
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
    pub async fn replace(&self, path: &PathUri) -> Result<FileWriter, HarnessError> {
        let mut connection = self.connections();
        connection.mark_unchanged();
        let handle = format!("f{}", self.next_number());
        let params = OpenParams {
            handle_id: handle.clone(),
            path: path.clone(),
            mode: OpenMode::Replace,
            follow_symlinks: None,
            sandbox: None,
        };
        self.call::<fs::Open>(&params).await?;
        let writer = RemoteWriter {
            harness: self.clone(),
            handle,
            connection,
        };
        Ok(FileWriter(WriterAt::Remote(writer)))
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
