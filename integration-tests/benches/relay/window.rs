//! Credit between a sender and a receiver in one process: frames under way are limited without a byte on the wire.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// A blocked sender looks again after this long, in case that its receiver is gone.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Window {
    size: u64,
    sent: AtomicU64,
    received: AtomicU64,
    waiting: AtomicBool,
}

impl Window {
    /// At most `size` bytes are under way.
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
        }
    }

    /// Waits until `bytes` more may be sent; for the only sender.
    pub(crate) fn take(&self, bytes: u64) {
        let sent = self.sent.load(Ordering::Relaxed) + bytes;
        self.sent.store(sent, Ordering::Relaxed);
        while sent > self.received.load(Ordering::SeqCst) + self.size {
            self.waiting.store(true, Ordering::SeqCst);
            // The receiver may have missed that somebody waits.
            if sent > self.received.load(Ordering::SeqCst) + self.size {
                thread::park_timeout(LOOK);
            }
            self.waiting.store(false, Ordering::SeqCst);
        }
    }

    /// Tells that `bytes` arrived; for the only receiver.
    pub(crate) fn give(&self, bytes: u64, sender: &Thread) {
        let received = self.received.load(Ordering::Relaxed) + bytes;
        self.received.store(received, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) && self.sent.load(Ordering::Relaxed) <= received + self.size {
            sender.unpark();
        }
    }
}
