//! One end that a child writes to, read without blocking.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{MAX_CHUNK, Stream, sys};

/// A buffer with less room than this is left to the pieces that were cut from it.
const MIN_READ: usize = MAX_CHUNK / 4;

/// A pipe or terminal.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) stream: Stream,
    fd: AsyncFd<Arc<OwnedFd>>,
    buffer: BytesMut,
    /// Nobody has the terminal open now, but the program, which it controls, may open it again.
    is_parked: bool,
}

/// What a read gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Data(Bytes),
    /// Nobody can write any more.
    End,
}

impl Source {
    pub(super) fn new(stream: Stream, fd: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            stream,
            fd: sys::watch_shared(Arc::new(fd), Interest::READABLE)?,
            buffer: BytesMut::new(),
            is_parked: false,
        })
    }

    /// Whether an end can be taken for the last while the program lives. A terminal must also be kept till then: closing
    /// it would hang up the program, even one that is just about to exit.
    pub(super) fn ends_before_program(&self) -> bool {
        self.stream != Stream::Pty
    }

    /// Stops or goes on giving reads from [`Source::poll_read`].
    pub(super) fn park(&mut self, is_parked: bool) {
        self.is_parked = is_parked;
    }

    pub(super) fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// The pipe or terminal, for as long as it is read.
    pub(super) fn shared(&self) -> Weak<OwnedFd> {
        Arc::downgrade(self.fd.get_ref())
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        if self.is_parked {
            return Poll::Pending;
        }
        loop {
            let Ok(mut ready) = ready!(self.fd.poll_read_ready(cx)) else {
                return Poll::Ready(Read::End);
            };
            match read(ready.get_inner(), &mut self.buffer) {
                Some(read) => return Poll::Ready(read),
                None => ready.clear_ready(),
            }
        }
    }

    /// Reads what is there already; nothing if that is nothing.
    pub(super) fn read_now(&mut self) -> Option<Read> {
        read(self.fd.get_ref(), &mut self.buffer)
    }
}

fn read(fd: &OwnedFd, buffer: &mut BytesMut) -> Option<Read> {
    if buffer.len() < MIN_READ {
        *buffer = BytesMut::zeroed(MAX_CHUNK);
    }
    loop {
        return match rustix::io::read(fd, &mut buffer[..]) {
            // A terminal reports EIO once its other side is closed. Nothing else can be done with other errors either.
            Ok(0) => Some(Read::End),
            Ok(len) => Some(Read::Data(buffer.split_to(len).freeze())),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => None,
            Err(_) => Some(Read::End),
        };
    }
}
