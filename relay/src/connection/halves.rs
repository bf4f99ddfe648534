//! The two directions of an accepted socket.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use rendezvous_service::net::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// What can be read from.
#[derive(Debug)]
pub(crate) enum ReadHalf {
    /// Clear text.
    Plain(OwnedReadHalf),
    /// TLS.
    Tls(tokio::io::ReadHalf<Stream>),
}

/// What can be written to.
#[derive(Debug)]
pub(crate) enum WriteHalf {
    /// Clear text.
    Plain(OwnedWriteHalf),
    /// TLS.
    Tls(tokio::io::WriteHalf<Stream>),
}

/// Separates the directions.
pub(crate) fn split(stream: Stream) -> (ReadHalf, WriteHalf) {
    match stream {
        Stream::Plain(tcp) => {
            let (read, write) = tcp.into_split();
            (ReadHalf::Plain(read), WriteHalf::Plain(write))
        }
        tls @ Stream::Tls(_) => {
            let (read, write) = tokio::io::split(tls);
            (ReadHalf::Tls(read), WriteHalf::Tls(write))
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(half) => Pin::new(half).poll_read(cx, buf),
            Self::Tls(half) => Pin::new(half).poll_read(cx, buf),
        }
    }
}

impl WriteHalf {
    /// Writes as much of `slices` as the socket takes.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(half) => Pin::new(half).poll_write_vectored(cx, slices),
            Self::Tls(half) => Pin::new(half).poll_write_vectored(cx, slices),
        }
    }

    /// Moves what the TLS layer holds to the socket.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(half) => Pin::new(half).poll_flush(cx),
        }
    }

    /// Says that nothing more will be written.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(half) => Pin::new(half).poll_shutdown(cx),
            Self::Tls(half) => Pin::new(half).poll_shutdown(cx),
        }
    }
}
