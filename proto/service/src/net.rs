//! An accepted connection, in clear text or TLS.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address of the socket. Behind a proxy it is the proxy's.
    pub addr: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// An accepted connection.
pub enum Stream {
    /// Clear text.
    Plain(TcpStream),
    /// TLS, after its handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The socket below.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }
}

/// An accepted connection that fails once the peer has taken nothing for a while although there is something to take.
pub(crate) struct Impatient<S> {
    stream: S,
    patience: Duration,
    /// Runs while the peer takes nothing.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Impatient<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            timer: None,
        }
    }

    fn write<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), cx);
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let patience = self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().write(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .write(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(cx, S::poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(cx, S::poll_shutdown)
    }
}

/// Takes the connection back after an upgrade, with bytes that were read beyond the request.
///
/// # Errors
///
/// Gives the argument back when it does not come from a [`crate::listener::Server`].
pub fn downcast(upgraded: Upgraded) -> Result<(Stream, Bytes), Upgraded> {
    let parts = upgraded.downcast::<TokioIo<Impatient<Stream>>>()?;
    Ok((parts.io.into_inner().stream, parts.read_buf))
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Plain(_) => "Plain",
            Self::Tls(_) => "Tls",
        };
        f.debug_tuple(name).field(self.tcp()).finish()
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (near, mut far) = duplex(100);
        let mut near = Impatient::new(near, PATIENCE);
        near.write_all(&[0; 100]).await.expect("what fits");
        sleep(PATIENCE * 3).await;
        let start = Instant::now();
        let error = near.write_all(&[0; 1]).await.expect_err("no room");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(
            start.elapsed(),
            PATIENCE,
            "only the time in which something waited counts"
        );
        far.read_exact(&mut [0; 100]).await.expect("what was written");
        near.write_all(&[0; 1]).await.expect("room again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_is_waited_for() {
        let (near, mut far) = duplex(100);
        let mut near = Impatient::new(near, PATIENCE);
        let start = Instant::now();
        let reading = async {
            for _ in 0..20 {
                sleep(PATIENCE - Duration::from_millis(1)).await;
                far.read_u8().await.expect("a byte");
            }
        };
        let (written, ()) = tokio::join!(near.write_all(&[0; 120]), reading);
        written.expect("all of it");
        assert!(start.elapsed() > PATIENCE * 19);
    }
}
