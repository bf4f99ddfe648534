//! Processes: start, output in order, input, signals, end.
//!
//! A process is a session of its own (`setsid`), so its id names its group too. Its output, its exit and its end share
//! one counter, `seq`, from 1; the end ([`Change::Closed`]) is always last and follows as soon as the program has
//! exited and nobody holds its output any more. What it wrote is retained up to [`MAX_RETAINED_BYTES`] for readers that
//! come late, and pushed to an [`Outlet`] while one is attached. A slow outlet holds up the program, never memory.
//! A reader that says how far it has come ([`Processes::set_window`]) loses nothing: its program waits for it. A table whose
//! processes are to outlive their readers for long keeps their output on disk ([`Processes::keep`]).

mod drive;
mod input;
mod log;
mod outlet;
mod pty;
mod signal;
mod source;
mod spawn;
mod spool;
mod summary;
pub(crate) mod sys;
mod table;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::sandbox::Jail;

pub use self::drive::Process;
pub use self::input::{WriteError, WriteStatus};
pub use self::log::{
    Dropped, MAX_KEPT_PAGE, MAX_RETAINED_BYTES, MAX_RETAINED_CHUNKS, Page, ReadRequest, WINDOW_BYTES, WINDOW_CHUNKS,
};
pub use self::outlet::{Event, Outlet};
pub use self::signal::{Signal, UnknownSignal};
pub use self::spool::{SLOT, SessionSpool, SpoolLimits, Spooling};
pub use self::summary::{MAX_SHOWN_ARGV, State, Summary};
pub use self::sys::limit_child_files;
pub use self::table::{Lookup, Processes, StartError};

/// Most bytes in one piece of output. In base64 and with its JSON around it, a piece fits one record of a stream.
pub const MAX_CHUNK: usize = 44 * 1024;
/// Processes of one table that are starting or not yet closed.
pub const MAX_PROCESSES: usize = 1024;
/// Closed processes of one table that can still be read. The oldest that was read to its end goes first, else the oldest.
pub const MAX_CLOSED: usize = 256;
/// How long a closed process can be read and keeps its id: as long as a session without a connection is kept, so that a
/// harness that comes back in time finds what ended meanwhile.
pub const CLOSED_RETENTION: Duration = Duration::from_secs(80);
/// So many times [`CLOSED_RETENTION`] a closed process stays when its reader still has to take something.
pub const MAX_CLOSED_PERIODS: u32 = 4;
/// Most descriptors that a process needs: three pipes, and two that tell of its end.
const FILES_OF_PROCESS: u64 = 5;
/// Descriptors that no process gets: for connections, files that are read, and the start of the next process.
const RESERVED_FILES: u64 = 384;
/// Processes of all tables that share a [`Budget`], closed ones included.
pub const MAX_PROCESSES_TOTAL: usize = 4096;
/// Bytes of output that all processes that share a [`Budget`] retain together, above [`RETAINED_FLOOR`] each.
pub const MAX_RETAINED_TOTAL: usize = 256 * 1024 * 1024;
/// What a process may retain however full the budget is.
pub const RETAINED_FLOOR: usize = 16 * 1024;

/// What to run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program and its arguments; not empty. A program without a slash is looked up in the child's `PATH`.
    pub argv: Vec<OsString>,
    /// What the program sees as its own name, instead of `argv[0]`.
    pub arg0: Option<OsString>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// What its standard streams are.
    pub stdio: Stdio,
    /// What it is confined to.
    pub jail: Option<Jail>,
}

/// What a child's standard streams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// Separate pipes for output and errors; input is a pipe, or `/dev/null`.
    Pipes {
        /// Whether the child can be written to.
        stdin: bool,
    },
    /// A terminal of 24 rows and 80 columns, which controls the child's session.
    Terminal,
}

/// Where a piece of output was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal, for both.
    Pty,
}

/// A piece of output, exactly as it was read: no line and no character need be whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its number among all changes of its process.
    pub seq: u64,
    /// Where it was written.
    pub stream: Stream,
    /// 1 to [`MAX_CHUNK`] bytes.
    pub data: Bytes,
}

/// One change of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It wrote something.
    Output(Chunk),
    /// The program itself ended; descendants may still write.
    Exited {
        /// The number of this change.
        seq: u64,
        /// Its exit code; 128 + N when signal N ended it (1 on a terminal without a sandbox).
        code: i32,
        /// Whether a sandbox was likely what made it fail.
        denied: bool,
    },
    /// It exited and its output is at an end: the last change.
    Closed {
        /// The number of this change.
        seq: u64,
    },
}

impl Change {
    /// The number of this change.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Output(Chunk { seq, .. }) | Self::Exited { seq, .. } | Self::Closed { seq } => *seq,
        }
    }
}

/// What all tables of one executor may use together.
#[derive(Debug)]
pub struct Budget {
    max_processes: usize,
    max_retained: usize,
    processes: AtomicUsize,
    retained: AtomicUsize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MAX_PROCESSES_TOTAL, MAX_RETAINED_TOTAL)
    }
}

impl Budget {
    /// A budget of so many processes and so many bytes of retained output.
    pub fn new(max_processes: usize, max_retained: usize) -> Self {
        Self {
            max_processes,
            max_retained,
            processes: AtomicUsize::new(0),
            retained: AtomicUsize::new(0),
        }
    }

    /// A budget for an executor that may open so many files, or any number.
    pub fn for_files(limit: Option<u64>) -> Self {
        let free = limit.unwrap_or(u64::MAX).saturating_sub(RESERVED_FILES);
        let processes = usize::try_from(free / FILES_OF_PROCESS).unwrap_or(usize::MAX);
        Self::new(processes.clamp(1, MAX_PROCESSES_TOTAL), MAX_RETAINED_TOTAL)
    }

    /// Processes that exist now, closed ones included.
    pub fn processes(&self) -> usize {
        self.processes.load(Ordering::Relaxed)
    }

    /// Bytes of output that are retained now.
    pub fn retained(&self) -> usize {
        self.retained.load(Ordering::Relaxed)
    }

    fn admit(self: &Arc<Self>) -> Option<Admission> {
        self.processes
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < self.max_processes).then_some(count + 1)
            })
            .ok()
            .map(|_| Admission(Arc::clone(self)))
    }

    fn retain(&self, bytes: usize) {
        self.retained.fetch_add(bytes, Ordering::Relaxed);
    }

    fn release(&self, bytes: usize) {
        self.retained.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.retained() > self.max_retained
    }
}

/// One process's place in a [`Budget`], given back when dropped.
#[derive(Debug)]
struct Admission(Arc<Budget>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.processes.fetch_sub(1, Ordering::Relaxed);
    }
}
