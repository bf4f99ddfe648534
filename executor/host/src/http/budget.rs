//! Memory for bodies that are collected whole.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of collected bodies of all clients together.
pub const MAX_BUFFERED_TOTAL: usize = 256 * 1024 * 1024;

/// A bound on the bytes of all bodies that are being collected.
#[derive(Clone, Debug)]
pub struct Buffer {
    bytes: Arc<Semaphore>,
}

impl Buffer {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(bytes)),
        }
    }

    /// Takes room for so many bytes, given back when `held` is dropped. Returns whether there was room; nobody waits for
    /// it, since those who hold the rest might wait too.
    pub fn take(&self, bytes: usize, held: &mut Option<OwnedSemaphorePermit>) -> bool {
        let Ok(bytes) = u32::try_from(bytes) else { return false };
        let Ok(more) = Arc::clone(&self.bytes).try_acquire_many_owned(bytes) else {
            return false;
        };
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        true
    }
}
