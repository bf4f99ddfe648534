//! What a log knows of its output on disk.

use crate::process::spool::{Contents, MAX_WAITING};

/// What a log knows of its output on disk.
#[derive(Debug)]
pub(super) struct Kept {
    contents: Contents,
    /// The last piece that is on disk, or is not to go there.
    through: u64,
    /// Bytes of the pieces after it.
    waiting: usize,
}

impl Kept {
    /// Nothing is on disk yet, and so many bytes have to go there.
    pub(super) fn new(waiting: usize) -> Self {
        Self {
            contents: Contents::default(),
            through: 0,
            waiting,
        }
    }

    pub(super) fn through(&self) -> u64 {
        self.through
    }

    /// Whether a piece need not be in memory any more.
    pub(super) fn has(&self, seq: u64) -> bool {
        seq <= self.through
    }

    /// A piece was added.
    pub(super) fn output(&mut self, bytes: usize) {
        if self.through < u64::MAX {
            self.waiting += bytes;
        }
    }

    /// Pieces of so many bytes, up to `through`, are on disk now.
    pub(super) fn written(&mut self, through: u64, bytes: usize, contents: Contents) {
        // A reader may have given the disk up meanwhile.
        if self.through < u64::MAX {
            (self.through, self.contents) = (through, contents);
            self.waiting -= bytes;
        }
    }

    /// The disk takes nothing more: from now on, memory has to do.
    pub(super) fn give_up(&mut self) {
        *self = Self {
            through: u64::MAX,
            ..Self::new(0)
        };
    }

    /// Whether something still has to go to disk.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the disk keeps up.
    pub(super) fn has_room(&self) -> bool {
        self.waiting < MAX_WAITING
    }

    /// Whether what a reader who has come to `consumed` has not taken would be the next to go.
    pub(super) fn endangers(&self, consumed: u64) -> bool {
        self.contents.next_to_go > consumed
    }

    /// The first piece on disk.
    pub(super) fn first(&self) -> Option<u64> {
        self.contents.first
    }

    /// Bytes that can be read, from disk and of what is on its way there.
    pub(super) fn bytes(&self) -> u64 {
        self.contents.data + self.waiting as u64
    }
}
