//! The changes of one process, in order: what is retained, and what still has to be pushed.
//!
//! A process that is kept has its output on disk too; then memory is for what is not there yet, and for the last of it.

mod kept;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

use self::kept::Kept;
use super::spool::{Contents, MAX_WAITING};
use super::{Budget, Change, Chunk, RETAINED_FLOOR, Stream};
use crate::sandbox::is_denial;

/// Most bytes of output that one process retains; the oldest goes first.
pub const MAX_RETAINED_BYTES: usize = 1024 * 1024;
/// Most pieces of output that one process retains.
pub const MAX_RETAINED_CHUNKS: usize = 50_000;
/// Bytes that may wait to be pushed before the program is no longer read.
const MAX_UNSENT_BYTES: usize = 256 * 1024;
/// Pieces that may wait to be pushed before the program is no longer read.
const MAX_UNSENT_CHUNKS: u64 = 256;

/// Bytes that a reader who says how far it has come may leave unconsumed before the program is no longer read.
pub const WINDOW_BYTES: usize = 4 * 1024 * 1024;
/// Pieces that such a reader may leave unconsumed before the program is no longer read.
pub const WINDOW_CHUNKS: u64 = 2048;

/// Most bytes in a page of a process whose output is kept, unless its first piece is larger.
pub const MAX_KEPT_PAGE: usize = 4 * 1024 * 1024;

/// What to read of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// Only changes with a higher `seq`.
    pub after: u64,
    /// Instead of that, what begins about so many bytes before the end of the output, up to 256 KiB more.
    pub tail: Option<u64>,
    /// Stop before the piece that would exceed so many bytes, but give at least one.
    pub max_bytes: Option<usize>,
    /// How long to wait while there is nothing.
    pub wait: Duration,
}

/// A part of what a process wrote, and its present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Retained output in order; a gap in `seq` that is no exit or end means that output was dropped.
    pub chunks: Vec<Chunk>,
    /// Reading on with `after` = `next_seq` - 1 continues this page.
    pub next_seq: u64,
    /// How the program ended, if it did.
    pub exit_code: Option<i32>,
    /// Whether a sandbox was likely what made it fail; nothing while that is open.
    pub denied: Option<bool>,
    /// Whether nothing more will come.
    pub closed: bool,
    /// The number of the exit, if the program ended.
    pub exit_seq: Option<u64>,
    /// What can be read no more.
    pub dropped: Option<Dropped>,
    /// Whether the output is kept ([`super::Processes::keep`]). Then a page has an end even if none was asked for.
    pub is_kept: bool,
}

/// Output that can be read no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The last number before the first piece that can be read.
    pub through: u64,
    /// All bytes that were dropped.
    pub bytes: u64,
}

/// The log of one process.
#[derive(Debug)]
pub(super) struct Log {
    budget: Arc<Budget>,
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// Bytes that were ever written.
    written: u64,
    kept: Option<Kept>,
    next_seq: u64,
    exit: Option<Exit>,
    /// Whether the program runs in a sandbox.
    is_confined: bool,
    closed: Option<u64>,
    /// The next change to push.
    cursor: u64,
    unsent_bytes: usize,
    /// Whether the reader says how far it has come; nothing beyond that is dropped.
    has_window: Arc<AtomicBool>,
    /// The last change that the reader has taken.
    consumed: u64,
    unconsumed_bytes: usize,
}

/// How the program ended.
#[derive(Clone, Copy, Debug)]
struct Exit {
    seq: u64,
    code: i32,
    denied: bool,
}

impl Log {
    pub(super) fn new(budget: Arc<Budget>, is_confined: bool, has_window: Arc<AtomicBool>) -> Self {
        Self {
            budget,
            chunks: VecDeque::new(),
            bytes: 0,
            written: 0,
            kept: None,
            next_seq: 1,
            exit: None,
            is_confined,
            closed: None,
            cursor: 1,
            unsent_bytes: 0,
            has_window,
            consumed: 0,
            unconsumed_bytes: 0,
        }
    }

    pub(super) fn output(&mut self, stream: Stream, data: Bytes) {
        self.bytes += data.len();
        self.written += data.len() as u64;
        if let Some(kept) = &mut self.kept {
            kept.output(data.len());
        }
        self.unsent_bytes += data.len();
        self.unconsumed_bytes += data.len();
        self.budget.retain(data.len());
        let seq = self.take_seq();
        self.chunks.push_back(Chunk { seq, stream, data });
        self.trim();
    }

    pub(super) fn exited(&mut self, code: i32) {
        let denied = self.is_confined && self.tells_of_denial(code);
        let seq = self.take_seq();
        self.exit = Some(Exit { seq, code, denied });
    }

    fn tells_of_denial(&self, code: i32) -> bool {
        let streams = [Stream::Stdout, Stream::Stderr, Stream::Pty].map(|stream| {
            let chunks = self.chunks.iter().filter(|chunk| chunk.stream == stream);
            chunks.flat_map(|chunk| chunk.data.iter().copied()).collect::<Vec<u8>>()
        });
        is_denial(code, streams.iter().map(Vec::as_slice))
    }

    pub(super) fn close(&mut self) {
        self.closed = Some(self.take_seq());
    }

    pub(super) fn exit_code(&self) -> Option<i32> {
        self.exit.map(|exit| exit.code)
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Bytes of output that can be read.
    pub(super) fn retained_bytes(&self) -> u64 {
        match self.kept.as_ref().filter(|kept| kept.first().is_some()) {
            Some(kept) => kept.bytes().max(self.bytes as u64),
            None => self.bytes as u64,
        }
    }

    /// Output that can be read no more.
    pub(super) fn dropped(&self) -> Option<Dropped> {
        let bytes = self.written - self.retained_bytes();
        let on_disk = self.kept.as_ref().and_then(Kept::first);
        let first = on_disk.into_iter().chain(self.first_in_memory()).min();
        (bytes > 0).then(|| Dropped {
            through: first.unwrap_or(self.next_seq) - 1,
            bytes,
        })
    }

    /// Whether something still has to go to disk.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.kept.as_ref().is_some_and(Kept::is_waiting)
    }

    fn first_in_memory(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.seq)
    }

    /// From now on the output goes to disk, beginning with what is here.
    pub(super) fn keep(&mut self) {
        self.kept = Some(Kept::new(self.bytes));
    }

    /// What has to go to disk next; empty when all is there.
    pub(super) fn to_keep(&self) -> Vec<Chunk> {
        let Some(kept) = &self.kept else { return Vec::new() };
        let waiting = self.chunks.range(self.position(kept.through().saturating_add(1))..);
        let mut bytes = 0;
        let fits = |chunk: &&Chunk| {
            bytes += chunk.data.len();
            bytes <= MAX_WAITING
        };
        waiting.take_while(fits).cloned().collect()
    }

    /// These pieces are on disk now.
    pub(super) fn is_on_disk(&mut self, pieces: &[Chunk], contents: Contents) {
        if let (Some(kept), Some(last)) = (&mut self.kept, pieces.last()) {
            kept.written(last.seq, pieces.iter().map(|chunk| chunk.data.len()).sum(), contents);
        }
        self.trim();
    }

    /// The disk takes nothing more. What is there can be read no more either, so that one gap is all that is lost.
    pub(super) fn give_up_disk(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.give_up();
        }
        self.trim();
    }

    /// Whether the answer to a request begins on disk.
    pub(super) fn is_answered_from_disk(&self, after: u64) -> bool {
        let Some(first) = self.kept.as_ref().and_then(Kept::first) else {
            return false;
        };
        let in_memory = self.first_in_memory().unwrap_or(self.next_seq);
        first < in_memory && after.saturating_add(1) < in_memory
    }

    /// The number in memory after which there are so many bytes; nothing when there are fewer.
    pub(super) fn tail(&self, bytes: u64) -> Option<u64> {
        let mut left = bytes;
        for chunk in self.chunks.iter().rev() {
            if left == 0 {
                return Some(chunk.seq);
            }
            left = left.saturating_sub(chunk.data.len() as u64);
        }
        match self.first_in_memory() {
            _ if bytes == 0 => Some(self.next_seq - 1),
            Some(first) if left == 0 => Some(first - 1),
            _ => None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    fn has_window(&self) -> bool {
        self.has_window.load(Ordering::Relaxed)
    }

    /// The reader has come to `seq`.
    pub(super) fn consume(&mut self, seq: u64) {
        let seq = seq.min(self.next_seq - 1);
        if seq <= self.consumed {
            return;
        }
        let range = self.position(self.consumed + 1)..self.position(seq + 1);
        let bytes: usize = self.chunks.range(range).map(|chunk| chunk.data.len()).sum();
        self.unconsumed_bytes -= bytes;
        self.consumed = seq;
        self.trim();
    }

    /// A new reader has taken nothing yet. Where nothing is kept, it goes on where the last one was.
    pub(super) fn read_anew(&mut self) {
        if self.kept.is_some() {
            self.consumed = 0;
            self.unconsumed_bytes = self.bytes;
        }
    }

    /// Whether the reader still has to take something.
    pub(super) fn is_awaited(&self) -> bool {
        self.has_window() && self.consumed < self.next_seq - 1
    }

    /// Drops the oldest output above the limits, but nothing that is still to be pushed or waits in a reader's window.
    fn trim(&mut self) {
        while let Some(oldest) = self.chunks.front() {
            let over = self.bytes > MAX_RETAINED_BYTES
                || self.chunks.len() > MAX_RETAINED_CHUNKS
                || (self.bytes > RETAINED_FLOOR && self.budget.is_full());
            let is_awaited = oldest.seq > self.consumed;
            let is_needed = match &self.kept {
                Some(kept) => !kept.has(oldest.seq),
                None => is_awaited && self.has_window(),
            };
            if !over || oldest.seq >= self.cursor || is_needed {
                return;
            }
            self.bytes -= oldest.data.len();
            if is_awaited {
                self.unconsumed_bytes -= oldest.data.len();
            }
            self.budget.release(oldest.data.len());
            self.chunks.pop_front();
        }
    }

    /// Whether the program should be read on, while somebody is attached or not.
    pub(super) fn has_room(&self, is_attended: bool) -> bool {
        let keeps_up = self.unsent_bytes < MAX_UNSENT_BYTES && self.next_seq - self.cursor < MAX_UNSENT_CHUNKS;
        let is_followed = match &self.kept {
            // Nobody who is away holds up what is kept for them; who is there loses nothing.
            Some(kept) => kept.has_room() && !(is_attended && self.has_window() && kept.endangers(self.consumed)),
            None => !self.has_window() || (self.fits_window() && !self.is_starved()),
        };
        keeps_up && is_followed
    }

    fn fits_window(&self) -> bool {
        self.unconsumed_bytes < WINDOW_BYTES && self.next_seq - 1 - self.consumed < WINDOW_CHUNKS
    }

    /// Whether only the budget of all processes keeps the program from being read.
    pub(super) fn is_starved(&self) -> bool {
        self.kept.is_none() && self.has_window() && self.unconsumed_bytes >= RETAINED_FLOOR && self.budget.is_full()
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.cursor < self.next_seq
    }

    /// Takes the next change to push.
    pub(super) fn next_unsent(&mut self) -> Option<Change> {
        let seq = self.cursor;
        let change = if let Some(Exit { code, denied, .. }) = self.exit.filter(|exit| exit.seq == seq) {
            Change::Exited { seq, code, denied }
        } else if self.closed == Some(seq) {
            Change::Closed { seq }
        } else {
            let chunk = self.chunks.get(self.position(seq))?.clone();
            self.unsent_bytes -= chunk.data.len();
            Change::Output(chunk)
        };
        self.cursor += 1;
        self.trim();
        Some(change)
    }

    /// Counts everything as pushed: nobody listens.
    pub(super) fn skip_unsent(&mut self) {
        self.cursor = self.next_seq;
        self.unsent_bytes = 0;
        self.trim();
    }

    /// Index of the first retained piece with `seq` or higher.
    fn position(&self, seq: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.seq < seq)
    }

    /// The page that answers a request now, or nothing if the request may still wait.
    pub(super) fn page(&self, request: ReadRequest) -> Option<Page> {
        let exit_is_news = self.exit.is_some() && request.after < self.next_seq - 1;
        let has_chunks = self.chunks.back().is_some_and(|last| last.seq > request.after);
        (has_chunks || self.is_closed() || exit_is_news).then(|| self.page_now(request))
    }

    /// The page that answers a request now.
    pub(super) fn page_now(&self, request: ReadRequest) -> Page {
        let mut chunks = Vec::new();
        let mut bytes = 0_usize;
        let request = self.bounded(request);
        for chunk in self.chunks.range(self.position(request.after.saturating_add(1))..) {
            bytes = bytes.saturating_add(chunk.data.len());
            if !chunks.is_empty() && request.max_bytes.is_some_and(|max| bytes > max) {
                break;
            }
            chunks.push(chunk.clone());
        }
        self.page_of(chunks, request)
    }

    /// A request as it is answered: a page of what is kept has an end.
    pub(super) fn bounded(&self, request: ReadRequest) -> ReadRequest {
        if self.kept.is_none() {
            return request;
        }
        let max_bytes = request.max_bytes.unwrap_or(MAX_KEPT_PAGE).min(MAX_KEPT_PAGE);
        ReadRequest {
            max_bytes: Some(max_bytes),
            ..request
        }
    }

    /// The page with these pieces, and the present state.
    pub(super) fn page_of(&self, chunks: Vec<Chunk>, request: ReadRequest) -> Page {
        let next_seq = match (request.max_bytes, chunks.last()) {
            (Some(_), Some(last)) => last.seq + 1,
            _ => self.next_seq,
        };
        Page {
            chunks,
            next_seq,
            exit_code: self.exit_code(),
            denied: if self.is_confined {
                self.exit.map(|exit| exit.denied)
            } else {
                Some(false)
            },
            closed: self.is_closed(),
            exit_seq: self.exit.map(|exit| exit.seq),
            dropped: self.dropped(),
            is_kept: self.kept.is_some(),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests;
