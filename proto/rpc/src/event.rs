//! The client's order of one process's events.
//!
//! Numbers say the order, the wire does not. Events that are early wait here, up to a bound. Whatever the connection
//! dropped is read again from the executor: [`EventOrder::catch_up`] takes the page and decides whether it closes the gap.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::method::process::{OutputStream, ReadResult};

/// Most events that wait for an earlier one.
pub const MAX_PENDING_EVENTS: usize = 256;
/// Most bytes of output that wait for an earlier event.
pub const MAX_PENDING_BYTES: usize = 1024 * 1024;

/// What happens to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Bytes came out.
    Output {
        /// Where they came from.
        stream: OutputStream,
        /// The bytes.
        bytes: Bytes,
    },
    /// The process itself ended; output may still follow.
    Exited {
        /// The code; 128 + N when a signal ended it.
        code: i32,
        /// Whether a sandbox was likely what stopped it.
        sandbox_denied: Option<bool>,
    },
    /// Output is missing here: the executor dropped it, as the oldest of what it kept. Told of kept sessions only.
    Dropped {
        /// All bytes that were dropped since the start of the process, also what was taken before.
        bytes: u64,
    },
    /// Nothing more comes.
    Closed,
}

impl ProcessEvent {
    fn len(&self) -> usize {
        match self {
            Self::Output { bytes, .. } => bytes.len(),
            Self::Exited { .. } | Self::Dropped { .. } | Self::Closed => 0,
        }
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// [`EventOrder::pop`] gives it next.
    Ready,
    /// It waits for an earlier one.
    Early,
    /// It was known already.
    Repeated,
    /// Too much is early, so all of that was dropped. The process must be read after [`EventOrder::delivered`].
    Overflow,
}

/// Why the events of a process cannot be put in order.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderError {
    /// The executor dropped output before it could be read again.
    #[error("process events are no longer retained while recovering through sequence {0}")]
    NotRetained(u64),
    /// The executor told something after the close, or numbered it twice.
    #[error("process event {0} comes at or after the close")]
    AfterClose(u64),
    /// The executor counts from 1.
    #[error("process event without a number")]
    Unnumbered,
}

/// Orders the events of one process.
#[derive(Debug, Default)]
pub struct EventOrder {
    delivered: u64,
    pending: BTreeMap<u64, ProcessEvent>,
    pending_bytes: usize,
    exit_seen: bool,
    closed_at: Option<u64>,
    gap: Option<Gap>,
}

/// Numbers that will never come.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The last of them.
    through: u64,
    /// What was dropped, until it is told.
    bytes: Option<u64>,
}

impl EventOrder {
    /// The number of the last event that [`EventOrder::pop`] gave, from which a read goes on; 0 before the first.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether the close was given.
    pub fn is_closed(&self) -> bool {
        self.closed_at == Some(self.delivered)
    }

    /// Takes an event as it arrives.
    ///
    /// # Errors
    ///
    /// When the executor breaks the numbering.
    pub fn push(&mut self, seq: u64, event: ProcessEvent) -> Result<Pushed, OrderError> {
        if seq == 0 {
            return Err(OrderError::Unnumbered);
        }
        if seq <= self.delivered || self.pending.contains_key(&seq) {
            return Ok(Pushed::Repeated);
        }
        self.check_close(seq, &event)?;
        if seq == self.delivered + 1 {
            self.insert(seq, event);
            return Ok(Pushed::Ready);
        }
        if self.pending.len() >= MAX_PENDING_EVENTS || self.pending_bytes + event.len() > MAX_PENDING_BYTES {
            self.drop_pending();
            return Ok(Pushed::Overflow);
        }
        self.insert(seq, event);
        Ok(Pushed::Early)
    }

    /// The next event, when it is here.
    pub fn pop(&mut self) -> Option<(u64, ProcessEvent)> {
        loop {
            let next = self.delivered.checked_add(1)?;
            if let Some(entry) = self.pending.first_entry().filter(|entry| *entry.key() == next) {
                let event = entry.remove();
                self.pending_bytes -= event.len();
                self.delivered = next;
                return Some((next, event));
            }
            let gap = self.gap.as_mut().filter(|gap| gap.through >= next)?;
            let early = self.pending.first_key_value().map(|(seq, _)| *seq - 1);
            self.delivered = early.map_or(gap.through, |before| before.min(gap.through));
            if let Some(bytes) = gap.bytes.take() {
                return Some((self.delivered, ProcessEvent::Dropped { bytes }));
            }
        }
    }

    /// Begins with a page of a kept session, as if what came before it had been given, but for the exit. The page is to be
    /// taken by [`EventOrder::catch_up`] next.
    pub fn begin_with(&mut self, page: &ReadResult) {
        let first = page.chunks.first().map_or(page.next_seq, |chunk| chunk.seq);
        let before = first.saturating_sub(1);
        let exit = page.exit_seq.map(|exit| exit.saturating_sub(1));
        self.delivered = exit.map_or(before, |exit| exit.min(before));
        self.gap = Some(Gap {
            through: before,
            bytes: None,
        });
    }

    /// Takes a page that was read after [`EventOrder::delivered`] without a byte limit.
    ///
    /// Every number up to the page's end must be a chunk, an event that waits here, or the exit, which has no chunk: then
    /// everything up to there is ready. The close is always the last number. A page of a kept session may have had a limit: it
    /// tells which number the exit has, and what was dropped.
    ///
    /// # Errors
    ///
    /// [`OrderError::NotRetained`] when a number is missing.
    pub fn catch_up(&mut self, mut page: ReadResult) -> Result<(), OrderError> {
        let Some(last) = page.next_seq.checked_sub(1) else {
            return Err(OrderError::Unnumbered);
        };
        for chunk in std::mem::take(&mut page.chunks) {
            let known = chunk.seq <= self.delivered || self.pending.contains_key(&chunk.seq);
            if known {
                continue;
            }
            let event = ProcessEvent::Output {
                stream: chunk.stream,
                bytes: chunk.chunk.0,
            };
            self.check_close(chunk.seq, &event)?;
            self.insert(chunk.seq, event);
        }
        if last <= self.delivered {
            return Ok(());
        }
        if page.closed && !self.pending.contains_key(&last) {
            self.check_close(last, &ProcessEvent::Closed)?;
            self.insert(last, ProcessEvent::Closed);
        }
        if let Some(exit) = page.exit_seq.filter(|exit| (self.delivered + 1..=last).contains(exit))
            && !self.exit_seen
        {
            self.exited(exit, &page);
        }
        let known = self.gap.map_or(self.delivered, |gap| gap.through.max(self.delivered));
        if let Some(dropped) = page.dropped.filter(|dropped| dropped.through > known) {
            self.gap = Some(Gap {
                through: dropped.through.min(last),
                bytes: Some(dropped.bytes),
            });
        }
        match self.missing_through(last) {
            (0, _) => Ok(()),
            (1, seq) if page.exited && page.exit_seq.is_none() && !self.exit_seen => {
                self.exited(seq, &page);
                Ok(())
            }
            _ => Err(OrderError::NotRetained(last)),
        }
    }

    /// The program ended, with this number, as a page tells.
    fn exited(&mut self, seq: u64, page: &ReadResult) {
        let event = ProcessEvent::Exited {
            code: page.exit_code.unwrap_or(-1),
            sandbox_denied: page.sandbox_denied,
        };
        self.insert(seq, event);
    }

    /// How many numbers up to `last` are neither given nor here nor dropped, and the first of them.
    fn missing_through(&self, last: u64) -> (u64, u64) {
        let mut missing = 0;
        let mut first = 0;
        let dropped = self.gap.map_or(0, |gap| gap.through);
        let mut expected = self.delivered.max(dropped) + 1;
        let present = self.pending.range(expected.min(last)..=last).map(|(seq, _)| *seq);
        let present = present.filter(|seq| *seq > dropped);
        for seq in present.chain(std::iter::once(last.saturating_add(1))) {
            if seq > expected && missing == 0 {
                first = expected;
            }
            missing += seq - expected;
            expected = seq.saturating_add(1);
        }
        (missing, first)
    }

    fn check_close(&mut self, seq: u64, event: &ProcessEvent) -> Result<(), OrderError> {
        let later = self.pending.last_key_value().map_or(0, |(seq, _)| *seq);
        let broken = match event {
            ProcessEvent::Closed => self.closed_at.is_some_and(|at| at != seq) || later > seq,
            _ => self.closed_at.is_some_and(|at| seq >= at),
        };
        if broken {
            return Err(OrderError::AfterClose(seq));
        }
        Ok(())
    }

    fn insert(&mut self, seq: u64, event: ProcessEvent) {
        match event {
            ProcessEvent::Exited { .. } => self.exit_seen = true,
            ProcessEvent::Closed => self.closed_at = Some(seq),
            ProcessEvent::Output { .. } | ProcessEvent::Dropped { .. } => {}
        }
        self.pending_bytes += event.len();
        self.pending.insert(seq, event);
    }

    fn drop_pending(&mut self) {
        for (seq, event) in std::mem::take(&mut self.pending) {
            match event {
                ProcessEvent::Exited { .. } => self.exit_seen = false,
                ProcessEvent::Closed if self.closed_at == Some(seq) => self.closed_at = None,
                _ => {}
            }
        }
        self.pending_bytes = 0;
    }
}

#[cfg(test)]
mod tests;
