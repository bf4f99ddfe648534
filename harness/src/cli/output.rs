//! stdin, stdout and stderr of this process, byte for byte.

use std::io;
use std::os::fd::BorrowedFd;

use rendezvous_harness::stdin::CHUNK;
use rendezvous_harness::{OutputStream, ProcessEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Stat;
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};

/// Batches of events that wait to be written.
const MAX_BATCHES: usize = 2;
/// Events of one batch.
pub(crate) const BATCH: usize = 256;
/// Bytes that are gathered for one write.
const GATHER: usize = 256 * 1024;

/// A thread that writes to stdout and stderr, in the order of events.
#[derive(Debug)]
pub(crate) struct Writer {
    batches: mpsc::Sender<Vec<ProcessEvent>>,
    result: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    pub(crate) fn start() -> io::Result<Self> {
        let (batches, mut batches_end) = mpsc::channel::<Vec<ProcessEvent>>(MAX_BATCHES);
        let (result_end, result) = oneshot::channel();
        std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            let mut result = Ok(());
            let mut gathered = Vec::with_capacity(GATHER);
            while let Some(batch) = batches_end.blocking_recv() {
                result = write_batch(&batch, &mut gathered);
                if result.is_err() {
                    break;
                }
            }
            let _ = result_end.send(result);
        })?;
        Ok(Self { batches, result })
    }

    /// Waits until a batch can be handed over; none when the writer has ended, and [`Writer::finish`] says why.
    pub(crate) async fn room(&self) -> Option<mpsc::Permit<'_, Vec<ProcessEvent>>> {
        self.batches.reserve().await.ok()
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.batches);
        self.result.await.unwrap_or(Ok(()))
    }
}

/// Writes runs of output of one stream with as few calls as possible.
fn write_batch(batch: &[ProcessEvent], gathered: &mut Vec<u8>) -> io::Result<()> {
    let mut target = OutputStream::Stdout;
    for event in batch {
        let ProcessEvent::Output { stream, bytes } = event else {
            continue;
        };
        if *stream != target || gathered.len() + bytes.len() > GATHER {
            flush(target, gathered)?;
            target = *stream;
        }
        gathered.extend_from_slice(bytes);
    }
    flush(target, gathered)
}

fn flush(target: OutputStream, gathered: &mut Vec<u8>) -> io::Result<()> {
    let result = match target {
        OutputStream::Stderr => write_all(rustix::stdio::stderr(), gathered),
        OutputStream::Stdout | OutputStream::Pty => write_all(rustix::stdio::stdout(), gathered),
    };
    gathered.clear();
    result
}

fn write_all(target: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(target, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Somebody who shares the terminal made it non-blocking.
            Err(Errno::AGAIN) => wait(target, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A thread that reads stdin: pieces of up to [`CHUNK`] bytes, none at the end.
pub(crate) fn read_stdin() -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (pieces, pieces_end) = mpsc::channel(1);
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        loop {
            let piece = read_piece(rustix::stdio::stdin());
            let ended = !matches!(&piece, Ok(bytes) if !bytes.is_empty());
            let last = piece.is_err();
            if ended && !last {
                break;
            }
            if pieces.blocking_send(piece).is_err() || last {
                break;
            }
        }
    })?;
    Ok(pieces_end)
}

/// What is there now, at least a byte; nothing at the end.
fn read_piece(source: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; CHUNK];
    let mut len = 0;
    while len < piece.len() {
        if len > 0 && !is_readable(source) {
            break;
        }
        match rustix::io::read(source, &mut piece[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(source, PollFlags::IN)?,
            // The far end of a terminal is gone.
            Err(Errno::IO) => break,
            Err(error) => return Err(error.into()),
        }
    }
    piece.truncate(len);
    Ok(piece)
}

fn is_readable(source: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&source, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&at_once)), Ok(ready) if ready > 0)
}

fn wait(target: BorrowedFd<'_>, what: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(&target, what)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether stdin is closed or `/dev/null`, so that nothing will come.
pub(crate) fn stdin_is_empty() -> bool {
    let Ok(stdin) = rustix::fs::fstat(rustix::stdio::stdin()) else {
        return true;
    };
    let Ok(null) = rustix::fs::stat("/dev/null") else {
        return false;
    };
    is_same_device(&stdin, &null)
}

fn is_same_device(one: &Stat, other: &Stat) -> bool {
    one.st_mode == other.st_mode && one.st_rdev == other.st_rdev
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_null_device_is_empty_for_good() {
        let null = rustix::fs::stat("/dev/null").unwrap();
        for (path, expected) in [("/dev/null", true), ("/dev/zero", false), ("/proc/self/exe", false)] {
            let stat = rustix::fs::stat(path).unwrap();
            assert_eq!(is_same_device(&stat, &null), expected, "{path}");
        }
    }
}
