use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rendezvous_channel::budget::{Budget, BudgetExhausted, Lease};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of an unfinished message that cost nothing; a socket's buffers hold as much in any case.
const FREE: usize = 128 * 1024;

/// Counts what was read since the last whole message, and charges it to a budget.
#[derive(Clone, Debug)]
pub(super) struct Meter(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    unfinished: usize,
    lease: Lease,
}

impl Meter {
    pub(super) fn new(budget: &Budget) -> Self {
        Self(Arc::new(Mutex::new(State {
            unfinished: 0,
            lease: budget.lease(),
        })))
    }

    /// Takes note of a message that was delivered; nothing of another one was kept, or it still counts.
    pub(super) fn delivered(&self, len: usize, is_last: bool) {
        let mut state = self.state();
        let left = if is_last {
            0
        } else {
            state.unfinished.saturating_sub(len)
        };
        // To shrink never fails.
        let _ = state.set(left);
    }

    fn read(&self, len: usize) -> Result<(), BudgetExhausted> {
        let mut state = self.state();
        let unfinished = state.unfinished + len;
        state.set(unfinished)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set(&mut self, unfinished: usize) -> Result<(), BudgetExhausted> {
        self.unfinished = unfinished;
        self.lease.resize(unfinished.saturating_sub(FREE))
    }
}

/// A socket that fails when the budget has no room for what it reads.
pub(super) struct Metered<S> {
    stream: S,
    meter: Meter,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Meter) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let charged = this.meter.read(buf.filled().len() - before);
        Poll::Ready(charged.map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
