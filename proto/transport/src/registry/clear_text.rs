//! Servers that speak TLS where clear text is expected.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first byte of a TLS alert, which is how a server that speaks TLS answers anything else. No answer of HTTP begins so.
const ALERT: u8 = 0x15;

/// The server answered with a TLS alert.
#[derive(Debug, thiserror::Error)]
#[error("the server speaks TLS")]
pub(super) struct SpeaksTls;

impl SpeaksTls {
    /// Whether this is why something failed.
    pub(super) fn caused(error: &(dyn Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if inner.is_some_and(|inner| inner.is::<Self>()) {
                return true;
            }
            next = error.source();
        }
        false
    }
}

/// A socket whose first byte is looked at, if it is in clear text.
pub(super) struct Watched<S> {
    socket: S,
    is_unread: bool,
}

impl<S> Watched<S> {
    pub(super) fn new(socket: S, is_clear_text: bool) -> Self {
        Self {
            socket,
            is_unread: is_clear_text,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        let Some(first) = buf.filled().get(before).filter(|_| self.is_unread) else {
            return Poll::Ready(Ok(()));
        };
        self.is_unread = false;
        Poll::Ready(match *first {
            ALERT => Err(io::Error::new(io::ErrorKind::InvalidData, SpeaksTls)),
            _ => Ok(()),
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }
}
