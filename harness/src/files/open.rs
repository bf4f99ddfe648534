//! Files that are read or replaced by blocks.

use bytes::Bytes;
use rendezvous_rpc::method::fs::{self, CloseParams, ReadBlockParams, WriteBlockParams};
use rendezvous_rpc::{Base64, Method as _};
use tokio::sync::watch;

use super::local::{LocalFile, LocalWriter};
use crate::client::Harness;
use crate::error::HarnessError;
use crate::session::Class;

/// A file that is open for reading. [`FileReader::close`] gives its handle back; executors hold 128 for each connection.
#[derive(Debug)]
pub struct FileReader(pub(super) ReaderAt);

#[derive(Debug)]
pub(super) enum ReaderAt {
    Remote(RemoteFile),
    Local(LocalFile),
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The bytes. Only the end of the file, or an executor that may give less at once, makes them fewer than asked for.
    pub bytes: Bytes,
    /// Whether the file ends with them.
    pub is_end: bool,
}

impl FileReader {
    /// Longest block.
    pub const MAX_BLOCK: u64 = fs::MAX_BLOCK;

    /// Reads up to `len` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// As any call; [`HarnessError::is_not_found`] when a lost connection has closed the file.
    pub async fn read_block(&self, offset: u64, len: u64) -> Result<Block, HarnessError> {
        match &self.0 {
            ReaderAt::Remote(file) => file.read_block(offset, len).await,
            ReaderAt::Local(file) => file.read_block(offset, len).await,
        }
    }

    /// Closes the file.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn close(self) -> Result<(), HarnessError> {
        match self.0 {
            ReaderAt::Remote(file) => file.close().await,
            // Dropping it closes it.
            ReaderAt::Local(_) => Ok(()),
        }
    }
}

/// A file that is being replaced. [`FileWriter::finish`] or [`FileWriter::discard`] gives its handle back; dropped, it stays
/// open until the connection ends, which discards it.
#[derive(Debug)]
pub struct FileWriter(pub(super) WriterAt);

#[derive(Debug)]
pub(super) enum WriterAt {
    Remote(RemoteWriter),
    Local(LocalWriter),
}

impl FileWriter {
    /// Longest block.
    pub const MAX_BLOCK: u64 = fs::MAX_BLOCK;

    /// Writes a block of 1 to [`Self::MAX_BLOCK`] bytes at `offset`, in any order; what no block covers reads as zeros.
    ///
    /// # Errors
    ///
    /// As any call; [`HarnessError::is_not_found`] when a lost connection has discarded the file.
    pub async fn write_block(&self, offset: u64, bytes: Bytes) -> Result<(), HarnessError> {
        match &self.0 {
            WriterAt::Remote(writer) => writer.write_block(offset, bytes).await,
            WriterAt::Local(writer) => writer.write_block(offset, bytes).await,
        }
    }

    /// Puts the new content in place.
    ///
    /// # Errors
    ///
    /// As any call; [`HarnessError::OutcomeUnknown`] when the connection was lost since the file was opened.
    pub async fn finish(self) -> Result<(), HarnessError> {
        match self.0 {
            WriterAt::Remote(writer) => writer.finish().await,
            WriterAt::Local(writer) => writer.finish().await,
        }
    }

    /// Gives up. This machine and our executors leave the old content; stock ones what was written so far.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn discard(self) -> Result<(), HarnessError> {
        match self.0 {
            WriterAt::Remote(writer) => writer.discard().await,
            // Dropping it discards it.
            WriterAt::Local(_) => Ok(()),
        }
    }
}

/// A file that an executor holds open.
#[derive(Debug)]
pub(super) struct RemoteFile {
    pub(super) harness: Harness,
    pub(super) handle: String,
}

impl RemoteFile {
    async fn read_block(&self, offset: u64, len: u64) -> Result<Block, HarnessError> {
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

    async fn close(self) -> Result<(), HarnessError> {
        let params = CloseParams {
            handle_id: self.handle.clone(),
        };
        self.harness
            .call_as::<fs::Close>(&params, Class::Cleanup)
            .await
            .map(drop)
    }
}

/// A file that an executor replaces.
#[derive(Debug)]
pub(super) struct RemoteWriter {
    pub(super) harness: Harness,
    pub(super) handle: String,
    /// Changes when the connection that holds the handle is lost.
    pub(super) connection: watch::Receiver<u64>,
}

impl RemoteWriter {
    async fn write_block(&self, offset: u64, bytes: Bytes) -> Result<(), HarnessError> {
        let params = WriteBlockParams {
            handle_id: self.handle.clone(),
            offset,
            chunk: Base64(bytes),
        };
        // Writing twice is the same as once; on a new connection the handle is unknown.
        let written = self.harness.call_as::<fs::WriteBlock>(&params, Class::Repeatable);
        written.await.map(drop)
    }

    async fn finish(self) -> Result<(), HarnessError> {
        let params = CloseParams {
            handle_id: self.handle.clone(),
        };
        let closed = self.harness.call::<fs::Close>(&params).await;
        // On a new connection the handle is unknown, and closing an unknown one succeeds.
        if self.connection.has_changed().unwrap_or(true) {
            return Err(HarnessError::OutcomeUnknown(fs::Close::NAME));
        }
        closed.map(drop)
    }

    async fn discard(self) -> Result<(), HarnessError> {
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
