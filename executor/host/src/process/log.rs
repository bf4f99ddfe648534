//! The changes of one process, in order: what is retained, and what still has to be pushed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

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

/// What to read of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// Only changes with a higher `seq`.
    pub after: u64,
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
}

/// The log of one process.
#[derive(Debug)]
pub(super) struct Log {
    budget: Arc<Budget>,
    chunks: VecDeque<Chunk>,
    bytes: usize,
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
            if !over || oldest.seq >= self.cursor || (is_awaited && self.has_window()) {
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

    /// Whether the program should be read on.
    pub(super) fn has_room(&self) -> bool {
        let keeps_up = self.unsent_bytes < MAX_UNSENT_BYTES && self.next_seq - self.cursor < MAX_UNSENT_CHUNKS;
        keeps_up && (!self.has_window() || (self.fits_window() && !self.is_starved()))
    }

    fn fits_window(&self) -> bool {
        self.unconsumed_bytes < WINDOW_BYTES && self.next_seq - 1 - self.consumed < WINDOW_CHUNKS
    }

    /// Whether only the budget of all processes keeps the program from being read.
    pub(super) fn is_starved(&self) -> bool {
        self.has_window() && self.unconsumed_bytes >= RETAINED_FLOOR && self.budget.is_full()
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
        for chunk in self.chunks.range(self.position(request.after.saturating_add(1))..) {
            bytes = bytes.saturating_add(chunk.data.len());
            if !chunks.is_empty() && request.max_bytes.is_some_and(|max| bytes > max) {
                break;
            }
            chunks.push(chunk.clone());
        }
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
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        Log::new(Arc::new(Budget::default()), false, Arc::default())
    }

    fn with_window(budget: &Arc<Budget>) -> Log {
        Log::new(Arc::clone(budget), false, Arc::new(AtomicBool::new(true)))
    }

    fn write(log: &mut Log, len: usize) {
        log.output(Stream::Stdout, Bytes::from(vec![b'x'; len]));
    }

    fn read(log: &Log, after: u64, max_bytes: Option<usize>) -> Page {
        log.page_now(ReadRequest {
            after,
            max_bytes,
            wait: Duration::ZERO,
        })
    }

    fn seqs(page: &Page) -> Vec<u64> {
        page.chunks.iter().map(|chunk| chunk.seq).collect()
    }

    #[test]
    fn numbers_output_exit_and_end_together() {
        let mut log = log();
        write(&mut log, 3);
        log.exited(7);
        write(&mut log, 2);
        log.close();
        let pushed: Vec<_> = std::iter::from_fn(|| log.next_unsent()).collect();
        assert_eq!(pushed.iter().map(Change::seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(
            pushed[1],
            Change::Exited {
                seq: 2,
                code: 7,
                denied: false
            }
        );
        assert_eq!(pushed[3], Change::Closed { seq: 4 });
        let page = read(&log, 0, None);
        assert_eq!(seqs(&page), [1, 3]);
        assert_eq!((page.next_seq, page.exit_code, page.closed), (5, Some(7), true));
    }

    #[test]
    fn pages_by_bytes_but_gives_at_least_one_piece() {
        let mut log = log();
        for _ in 0..4 {
            write(&mut log, 10);
        }
        for (max, expected, next) in [
            (0, vec![1], 2),
            (10, vec![1], 2),
            (19, vec![1], 2),
            (20, vec![1, 2], 3),
            (99, vec![1, 2, 3, 4], 5),
        ] {
            let page = read(&log, 0, Some(max));
            assert_eq!((seqs(&page), page.next_seq), (expected, next), "{max} bytes");
        }
        assert_eq!(read(&log, 4, Some(1)).next_seq, 5);
        assert_eq!(seqs(&read(&log, 2, None)), [3, 4]);
        assert!(read(&log, u64::MAX, None).chunks.is_empty());
    }

    #[test]
    fn retains_a_bounded_tail_with_a_visible_gap() {
        let mut log = log();
        for _ in 0..300 {
            write(&mut log, 8192);
            log.skip_unsent();
        }
        let page = read(&log, 0, None);
        assert_eq!(page.chunks.len(), MAX_RETAINED_BYTES / 8192);
        assert_eq!(page.chunks[0].seq, 300 - 128 + 1);
        assert_eq!(page.next_seq, 301);

        let mut log = self::log();
        for _ in 0..MAX_RETAINED_CHUNKS + 10 {
            write(&mut log, 1);
            log.skip_unsent();
        }
        let page = read(&log, 0, None);
        assert_eq!((page.chunks.len(), page.chunks[0].seq), (MAX_RETAINED_CHUNKS, 11));
    }

    #[test]
    fn stops_reading_when_pushing_falls_behind() {
        let mut log = log();
        while log.has_room() {
            write(&mut log, 44 * 1024);
        }
        assert!(log.bytes <= MAX_UNSENT_BYTES + 44 * 1024);
        while log.next_unsent().is_some() {}
        assert!(log.has_room() && !log.has_unsent());
        for _ in 0..MAX_UNSENT_CHUNKS {
            assert!(log.has_room());
            write(&mut log, 1);
        }
        assert!(!log.has_room());
        log.skip_unsent();
        assert!(log.has_room());
    }

    #[test]
    fn never_drops_what_is_still_to_be_pushed() {
        let budget = Arc::new(Budget::new(1, 0));
        let mut log = Log::new(Arc::clone(&budget), false, Arc::default());
        for _ in 0..8 {
            write(&mut log, RETAINED_FLOOR);
        }
        assert_eq!(log.chunks.len(), 8);
        log.skip_unsent();
        assert_eq!(log.chunks.len(), 1, "a full budget leaves the floor");
        assert_eq!(budget.retained(), RETAINED_FLOOR);
        drop(log);
        assert_eq!(budget.retained(), 0);
    }

    #[test]
    fn keeps_what_its_reader_has_not_taken() {
        let budget = Arc::new(Budget::default());
        let mut log = with_window(&budget);
        let mut written = 0;
        while log.has_room() {
            write(&mut log, 8192);
            // Detached or not, what was sent may not have arrived.
            log.skip_unsent();
            written += 1;
        }
        assert_eq!(written, WINDOW_BYTES / 8192);
        assert_eq!(seqs(&read(&log, 0, None)).len(), written, "nothing was dropped");
        log.consume(0);
        assert!(!log.has_room());
        log.consume(1);
        assert!(log.has_room());
        assert!(log.bytes <= WINDOW_BYTES, "what was taken goes first");
        log.consume(u64::MAX);
        assert_eq!(log.unconsumed_bytes, 0);
        log.consume(3);
        assert_eq!(log.consumed, written as u64, "it never goes back");
        write(&mut log, 8192);
        log.skip_unsent();
        assert!(log.bytes <= MAX_RETAINED_BYTES && log.is_awaited());
        log.close();
        log.consume(u64::MAX);
        assert!(!log.is_awaited());

        let mut log = with_window(&budget);
        while log.has_room() {
            write(&mut log, 1);
            log.skip_unsent();
        }
        assert_eq!(log.next_seq - 1, WINDOW_CHUNKS);
    }

    #[test]
    fn a_window_closes_early_when_the_budget_is_full_but_never_wholly() {
        let budget = Arc::new(Budget::new(1, 0));
        let mut log = with_window(&budget);
        write(&mut log, RETAINED_FLOOR - 1);
        log.skip_unsent();
        assert!(log.has_room());
        write(&mut log, 1);
        log.skip_unsent();
        assert!(!log.has_room() && log.is_starved());
        assert_eq!(read(&log, 0, None).chunks.len(), 2);
        log.consume(1);
        assert!(log.has_room());
    }

    #[test]
    fn a_reader_without_a_window_frees_what_one_with_it_held() {
        let mut log = with_window(&Arc::new(Budget::default()));
        while log.has_room() {
            write(&mut log, 8192);
            log.skip_unsent();
        }
        log.has_window.store(false, Ordering::Relaxed);
        assert!(log.has_room());
        write(&mut log, 8192);
        log.skip_unsent();
        assert!(log.bytes <= MAX_RETAINED_BYTES);
        log.consume(u64::MAX);
        assert_eq!(log.unconsumed_bytes, 0);
    }

    #[test]
    fn answers_a_long_poll_only_with_news() {
        let mut log = log();
        let after = |after| ReadRequest {
            after,
            ..ReadRequest::default()
        };
        assert_eq!(log.page(after(0)), None);
        write(&mut log, 1);
        assert!(log.page(after(0)).is_some());
        assert_eq!(log.page(after(1)), None);
        log.exited(0);
        assert!(log.page(after(1)).is_some());
        assert_eq!(log.page(after(2)), None, "the exit is known already");
        log.close();
        assert!(log.page(after(3)).is_some());
    }
}
