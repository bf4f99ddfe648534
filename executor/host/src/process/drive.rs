//! One running process: its handle, and the task that reads it, watches it and pushes what happens.

mod kept;

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::input::Input;
use super::log::Log;
use super::outlet::{Event, Outlet};
use super::source::{Read, Source};
use super::spawn::{Ended, Leader, Spawned};
use super::spool::Spool;
use super::{Budget, Signal, State, Stream, Summary, WriteError, WriteStatus, sys};
use crate::proxy::Serving;

/// What a program wrote before it ended is read before its exit is reported, up to the capacity of a pipe.
const DRAIN_LIMIT: usize = 64 * 1024;
/// How long the exit of a program in a sandbox waits for what explains it.
const EXPLANATION_LIMIT: Duration = Duration::from_millis(20);
/// How often a terminal that nobody has open is looked at again while its program lives.
const TERMINAL_RETRY: Duration = Duration::from_millis(100);
/// How often a program that only the budget holds up is looked at again.
const BUDGET_RETRY: Duration = Duration::from_millis(100);
/// Exit code of a program on a terminal that a signal ended, as stock executors report it.
const TERMINAL_KILLED: i32 = 1;
/// Exit code when the operating system could not say.
const UNKNOWN_EXIT: i32 = -1;

/// A started process.
#[derive(Clone, Debug)]
pub struct Process {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: Arc<str>,
    /// As it is shown.
    argv: Vec<String>,
    pid: i32,
    started: Instant,
    terminal: bool,
    log: Mutex<Log>,
    leader: Mutex<Leader>,
    input: Input,
    changed: Notify,
    /// The program's terminal, if it has one, until it is read to its end.
    screen: Weak<OwnedFd>,
    /// The reader's window has opened.
    consumed: Notify,
    /// Its output on disk, if it is kept.
    spool: OnceLock<Arc<Mutex<Spool>>>,
    terminated: CancellationToken,
    abandoned: CancellationToken,
}

impl Process {
    /// Takes over a program that was started. The driver must be run for anything to happen.
    pub(super) fn new(
        id: Arc<str>,
        spawned: Spawned,
        budget: Arc<Budget>,
        has_window: Arc<AtomicBool>,
        proxy: Option<Arc<Serving>>,
    ) -> io::Result<(Self, Driver)> {
        let Spawned {
            leader,
            argv,
            stdin,
            outputs,
            is_confined,
            ..
        } = spawned;
        let terminal = outputs.iter().any(|(stream, _)| *stream == Stream::Pty);
        let input = match stdin {
            Some(fd) => Input::open(fd, terminal)?,
            None => Input::closed(),
        };
        let sources: Vec<Source> = outputs
            .into_iter()
            .map(|(stream, fd)| Source::new(stream, fd))
            .collect::<io::Result<_>>()?;
        let screen = sources.iter().find(|source| source.stream == Stream::Pty);
        let screen = screen.map(Source::shared).unwrap_or_default();
        let exit = sys::watch(leader.watch()?, Interest::READABLE)?;
        let shared = Arc::new(Shared {
            id,
            argv,
            pid: leader.pid(),
            started: Instant::now(),
            terminal,
            log: Mutex::new(Log::new(budget, is_confined, has_window)),
            leader: Mutex::new(leader),
            input,
            changed: Notify::new(),
            screen,
            consumed: Notify::new(),
            spool: OnceLock::new(),
            terminated: CancellationToken::new(),
            abandoned: CancellationToken::new(),
        });
        let driver = Driver {
            shared: Arc::clone(&shared),
            exit,
            sources,
            turn: 0,
            is_confined,
            _proxy: proxy,
        };
        Ok((Self { shared }, driver))
    }

    /// Its id in its table.
    pub fn id(&self) -> &Arc<str> {
        &self.shared.id
    }

    /// The operating system's number of the program; also of its session and group.
    pub fn pid(&self) -> i32 {
        self.shared.pid
    }

    /// The reader has taken everything up to `seq`; see [`super::Processes::set_window`].
    pub fn consume(&self, seq: u64) {
        self.shared.log().consume(seq);
        self.shared.consumed.notify_one();
    }

    /// A new reader is there, which has taken nothing yet of what is kept.
    pub(super) fn read_anew(&self) {
        self.shared.log().read_anew();
        self.shared.consumed.notify_one();
    }

    /// Whether a reader with a window still has to take something.
    pub(super) fn is_awaited(&self) -> bool {
        self.shared.log().is_awaited()
    }

    /// The rules for its reader have changed.
    pub(super) fn look_again(&self) {
        self.shared.consumed.notify_one();
    }

    /// Queues bytes for the program, unless a write with the same id (at most 256 bytes) was accepted before. Waits for
    /// room in the queue.
    ///
    /// # Errors
    ///
    /// When the process was terminated.
    pub async fn write(&self, id: &str, data: Bytes) -> Result<WriteStatus, WriteError> {
        if self.shared.terminated.is_cancelled() {
            return Err(WriteError);
        }
        Ok(self.shared.input.write(id, data).await)
    }

    /// Ends the program's input after what is queued: closes its pipe, or types the terminal's end-of-file character.
    /// Returns whether the input was open.
    pub fn close_stdin(&self) -> bool {
        self.shared.input.close()
    }

    /// Gives the program's terminal another size, of which the kernel tells the program. Returns whether it has a terminal.
    pub fn resize(&self, rows: u16, columns: u16) -> bool {
        if let Some(screen) = self.shared.screen.upgrade() {
            let size = Winsize {
                ws_row: rows,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            // A terminal that is gone has no size that matters.
            let _gone = tcsetwinsize(&*screen, size);
        }
        self.shared.terminal
    }

    /// Signals the group, unless the program has ended.
    pub fn signal(&self, signal: Signal) {
        self.shared.leader().signal(signal.as_system());
    }

    /// Where it stands.
    pub fn summary(&self) -> Summary {
        let shared = &self.shared;
        let log = shared.log();
        let state = match (log.is_closed() && !log.is_on_its_way(), log.exit_code()) {
            (true, _) => State::Closed,
            (false, Some(_)) => State::Exited,
            (false, None) => State::Running,
        };
        Summary {
            state,
            exit_code: log.exit_code(),
            argv: shared.argv.clone(),
            terminal: shared.terminal,
            pid: shared.pid,
            age: shared.started.elapsed(),
            next_seq: log.next_seq(),
            retained_bytes: log.retained_bytes(),
            dropped_bytes: log.dropped().map_or(0, |dropped| dropped.bytes),
        }
    }

    /// Kills the group at once, unless the program has ended. Returns whether it had not.
    ///
    /// The end follows promptly, even if a descendant that left the group still holds the output.
    pub fn terminate(&self) -> bool {
        let leader = self.shared.leader();
        if leader.is_reaped() {
            return false;
        }
        self.shared.terminated.cancel();
        leader.signal(rustix::process::Signal::KILL);
        self.shared.input.abandon();
        true
    }

    /// Kills whatever is left of the group and stops watching: nobody will ask for this process any more.
    pub(super) fn abandon(&self) {
        self.shared.leader().kill_group();
        self.shared.input.abandon();
        self.shared.abandoned.cancel();
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leader(&self) -> MutexGuard<'_, Leader> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the log and wakes its readers.
    fn record(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.log());
        self.changed.notify_waiters();
    }

    fn exit_code(&self, ended: Ended) -> i32 {
        match ended {
            Ended::Code(code) => code,
            Ended::Signal(_) if self.terminal => TERMINAL_KILLED,
            Ended::Signal(signal) => 128 + signal,
            Ended::Unknown => UNKNOWN_EXIT,
        }
    }
}

/// Reads and watches one process until its end.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    exit: AsyncFd<OwnedFd>,
    sources: Vec<Source>,
    /// Which source is asked first, so that a busy one does not starve the other.
    turn: usize,
    is_confined: bool,
    /// At work until the process is closed.
    _proxy: Option<Arc<Serving>>,
}

impl Driver {
    /// Runs until the process is closed, or until it is abandoned and its program reaped. Closing does not wait for the
    /// outlet; [`push_rest`] sends what it has not taken yet.
    pub(super) async fn run(mut self, outlet: &Outlet) {
        let abandoned = self.shared.abandoned.clone();
        let mut exited = false;
        while !exited || !self.sources.is_empty() {
            let (has_room, has_unsent, is_starved) = {
                let log = self.shared.log();
                (log.has_room(outlet.is_attached()), log.has_unsent(), log.is_starved())
            };
            let may_read = has_room && !self.sources.is_empty();
            let has_parked = self.sources.iter().any(Source::is_parked);
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                () = abandoned.cancelled() => {
                    self.sources.clear();
                    while !exited {
                        exited = self.ended().await.is_some();
                    }
                    return;
                }
                ended = ended(&self.exit, &self.shared), if !exited => {
                    if let Some(ended) = ended {
                        exited = true;
                        self.exited(ended).await;
                    }
                }
                () = push_one(&shared, outlet), if has_unsent => {}
                (index, read) = next(&mut self.sources, self.turn), if may_read => {
                    self.turn = index + 1;
                    if read == Read::End && !exited && !self.sources[index].ends_before_program() {
                        self.sources[index].park(true);
                    } else {
                        self.took(index, read);
                    }
                }
                () = shared.consumed.notified(), if !has_room => {}
                () = sleep(TERMINAL_RETRY), if has_parked => self.unpark(),
                () = sleep(BUDGET_RETRY), if is_starved => {}
            }
        }
        self.shared.input.abandon();
        self.shared.record(Log::close);
    }

    async fn ended(&self) -> Option<Ended> {
        ended(&self.exit, &self.shared).await
    }

    /// Records the exit after what was written before it.
    async fn exited(&mut self, ended: Ended) {
        self.unpark();
        self.drain();
        let code = self.shared.exit_code(ended);
        if self.is_confined {
            if code != 0 {
                self.wait_for_explanation().await;
            }
            self.release().await;
        }
        self.shared.record(|log| log.exited(code));
        // Whoever terminated it asked for the end, not for what its lost descendants may write.
        if self.shared.terminated.is_cancelled() {
            self.sources.clear();
        }
    }

    /// Reads on to the end of all output, but not for long: the processes of a sandbox die just after its program.
    async fn wait_for_explanation(&mut self) {
        let deadline = Instant::now() + EXPLANATION_LIMIT;
        while !self.sources.is_empty() && self.shared.log().has_room(true) {
            tokio::select! {
                biased;
                () = self.shared.abandoned.cancelled() => return,
                (index, read) = next(&mut self.sources, self.turn) => self.took(index, read),
                () = sleep_until(deadline) => return,
            }
        }
    }

    /// Gives up what the sandbox needed, so that nobody who hears of the end finds it in its place.
    async fn release(&self) {
        let held = self.shared.leader().take_held();
        if let Some(held) = held.filter(|held| !held.is_empty()) {
            let _stopped = spawn_blocking(move || held.release()).await;
        }
    }

    fn drain(&mut self) {
        let mut index = 0;
        let mut drained = 0;
        while index < self.sources.len() {
            let can_read = drained < DRAIN_LIMIT && self.shared.log().has_room(true);
            let read = if can_read { self.sources[index].read_now() } else { None };
            match &read {
                Some(Read::Data(data)) => drained += data.len(),
                Some(Read::End) => drained = 0,
                None => {
                    drained = 0;
                    index += 1;
                }
            }
            if let Some(read) = read {
                self.took(index, read);
            }
        }
    }

    fn unpark(&mut self) {
        for source in &mut self.sources {
            source.park(false);
        }
    }

    fn took(&mut self, index: usize, read: Read) {
        match read {
            Read::Data(data) => {
                let stream = self.sources[index].stream;
                self.shared.record(|log| log.output(stream, data));
            }
            Read::End => drop(self.sources.remove(index)),
        }
    }
}

/// Waits for the program's end and reaps it.
async fn ended(exit: &AsyncFd<OwnedFd>, shared: &Shared) -> Option<Ended> {
    let Ok(mut ready) = exit.readable().await else {
        return Some(Ended::Unknown);
    };
    let ended = shared.leader().try_reap();
    if ended.is_none() {
        ready.clear_ready();
    }
    ended
}

async fn next(sources: &mut [Source], turn: usize) -> (usize, Read) {
    poll_fn(|cx| {
        for offset in 0..sources.len() {
            let index = (turn + offset) % sources.len();
            if let Poll::Ready(read) = sources[index].poll_read(cx) {
                return Poll::Ready((index, read));
            }
        }
        Poll::Pending
    })
    .await
}

/// Pushes the next change, or skips everything when nobody listens.
async fn push_one(shared: &Shared, outlet: &Outlet) {
    match outlet.room().await {
        None => shared.log().skip_unsent(),
        Some(permit) => {
            if let Some(change) = shared.log().next_unsent() {
                permit.send(Event {
                    process: Arc::clone(&shared.id),
                    change,
                });
            }
        }
    }
}

/// Pushes what the outlet has not taken yet of a closed process.
pub(super) async fn push_rest(process: &Process, outlet: &Outlet) {
    let shared = &process.shared;
    loop {
        if !shared.log().has_unsent() {
            return;
        }
        tokio::select! {
            biased;
            () = shared.abandoned.cancelled() => return,
            () = push_one(shared, outlet) => {}
        }
    }
}

#[cfg(test)]
mod tests;
