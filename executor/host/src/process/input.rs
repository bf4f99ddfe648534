//! What is written to a process.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::sys;

/// Writes that may wait for the program; a further one waits for them.
const MAX_QUEUED: usize = 128;
/// Bytes that may wait for the program, or one larger write.
const MAX_QUEUED_BYTES: u32 = 1024 * 1024;
/// Ids of accepted writes that are remembered.
const MAX_REMEMBERED: usize = 4096;
/// Longest id of a write that is remembered as it is, in bytes. What is longer costs its sender the protection.
const MAX_WRITE_ID: usize = 256;
/// What a terminal takes as the end of its input.
const END_OF_TRANSMISSION: Bytes = Bytes::from_static(b"\x04");

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStatus {
    /// The bytes are queued, or a write with this id was accepted before.
    Accepted,
    /// The process was started without input, or its input was closed.
    StdinClosed,
}

/// The process was terminated, so nothing can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to write to process stdin")]
pub struct WriteError;

/// The input of one process.
#[derive(Debug)]
pub(super) struct Input {
    queue: Mutex<Option<mpsc::Sender<Piece>>>,
    bytes: Arc<Semaphore>,
    accepted: Mutex<Remembered>,
    writer: Option<AbortHandle>,
}

#[derive(Debug)]
struct Piece {
    data: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Input {
    /// Input that is closed from the start.
    pub(super) fn closed() -> Self {
        Self::new(None, None)
    }

    /// Input that a task writes to `fd`, the child's pipe, or the terminal.
    pub(super) fn open(fd: OwnedFd, terminal: bool) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let fd = sys::watch(fd, Interest::WRITABLE)?;
        let writer = tokio::spawn(write_all(fd, receiver, terminal)).abort_handle();
        Ok(Self::new(Some(sender), Some(writer)))
    }

    fn new(queue: Option<mpsc::Sender<Piece>>, writer: Option<AbortHandle>) -> Self {
        Self {
            queue: Mutex::new(queue),
            bytes: Arc::new(Semaphore::new(MAX_QUEUED_BYTES as usize)),
            accepted: Mutex::default(),
            writer,
        }
    }

    /// Queues bytes, unless a write with the same id was accepted before. Waits for room.
    pub(super) async fn write(&self, id: &str, data: Bytes) -> WriteStatus {
        let Some(queue) = self.queue() else {
            return WriteStatus::StdinClosed;
        };
        if self.remembered().contains(id) {
            return WriteStatus::Accepted;
        }
        let size = u32::try_from(data.len()).unwrap_or(u32::MAX).min(MAX_QUEUED_BYTES);
        // A closed semaphore or queue means that the process has ended; such a write is accepted and lost, as it would
        // be in the pipe of a program that ends without reading.
        if let Ok(room) = Arc::clone(&self.bytes).acquire_many_owned(size).await {
            let _ended = queue.send(Piece { data, _room: room }).await;
        }
        self.remembered().insert(id);
        WriteStatus::Accepted
    }

    /// Ends the input after what is queued. Returns whether it was open.
    pub(super) fn close(&self) -> bool {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .is_some()
    }

    /// Gives up what is queued: the process is at its end.
    pub(super) fn abandon(&self) {
        self.bytes.close();
        if let Some(writer) = &self.writer {
            writer.abort();
        }
    }

    fn queue(&self) -> Option<mpsc::Sender<Piece>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Writes every piece. Once the program no longer reads, the rest is discarded, so that writers need not wait.
async fn write_all(fd: AsyncFd<OwnedFd>, mut pieces: mpsc::Receiver<Piece>, terminal: bool) {
    let mut fd = Some(fd);
    while let Some(mut piece) = pieces.recv().await {
        if let Some(open) = &fd
            && write_piece(open, &mut piece.data).await.is_err()
        {
            fd = None;
        }
    }
    if terminal && let Some(open) = &fd {
        let _gone = write_piece(open, &mut END_OF_TRANSMISSION.clone()).await;
    }
}

async fn write_piece(fd: &AsyncFd<OwnedFd>, data: &mut Bytes) -> io::Result<()> {
    while data.has_remaining() {
        let written = fd
            .async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, data)?))
            .await?;
        data.advance(written);
    }
    Ok(())
}

/// The ids of the last accepted writes.
#[derive(Debug, Default)]
struct Remembered {
    ids: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Remembered {
    fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    fn insert(&mut self, id: &str) {
        if id.len() > MAX_WRITE_ID {
            return;
        }
        let id: Arc<str> = id.into();
        if !self.ids.insert(Arc::clone(&id)) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_a_bounded_number_of_ids() {
        let mut remembered = Remembered::default();
        for n in 0..=MAX_REMEMBERED {
            remembered.insert(&n.to_string());
        }
        assert!(!remembered.contains("0"));
        assert!(remembered.contains("1"));
        assert_eq!(remembered.ids.len(), MAX_REMEMBERED);
        remembered.insert("1");
        assert_eq!(remembered.order.len(), MAX_REMEMBERED);
        remembered.insert(&"x".repeat(MAX_WRITE_ID + 1));
        assert_eq!(remembered.order.len(), MAX_REMEMBERED);
    }
}
