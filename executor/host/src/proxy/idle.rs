//! Gives up connections on which nothing moves.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a connection may stay without a byte in either direction.
pub const IDLE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Bytes on their way in each direction of a tunnel.
const BUFFER: usize = 16 * 1024;

/// A stream that fails once nothing was read from or written to it for a time.
#[derive(Debug)]
pub(super) struct Idle<S> {
    inner: S,
    limit: Duration,
    moved: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl<S> Idle<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self {
            inner,
            limit,
            moved: Instant::now(),
            alarm: Box::pin(sleep(limit)),
        }
    }

    /// Notes that something moved, or looks whether it is too long ago.
    fn watched<T>(&mut self, cx: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.moved = Instant::now();
            return moved;
        }
        self.poll_idle(cx).map(Err)
    }

    /// Ready when the time is over. The alarm is moved only when it goes off, not with every byte.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.alarm.as_mut().poll(cx));
            let due = self.moved + self.limit;
            if due <= Instant::now() {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.alarm.as_mut().reset(due);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Idle<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.watched(cx, read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Idle<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watched(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.watched(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if flushed.is_ready() {
            return flushed;
        }
        self.poll_idle(cx).map(Err)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Passes bytes both ways until both sides have ended, one fails, or nothing moves.
pub(super) async fn tunnel<A, B>(near: A, far: B)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    // Both: who takes nothing holds up the other one, which then is not asked for anything.
    let (mut near, mut far) = (Idle::new(near, IDLE_LIMIT), Idle::new(far, IDLE_LIMIT));
    let ended = tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, BUFFER, BUFFER).await;
    if let Err(error) = ended {
        tracing::debug!(%error, "tunnel broke");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::timeout;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn only_silence_ends_a_tunnel() {
        let ((mut near, near_end), (mut far, far_end)) = (duplex(64), duplex(64));
        let tunnel = tokio::spawn(tunnel(near_end, far_end));
        let mut byte = [0];
        for _ in 0..3 {
            sleep(IDLE_LIMIT * 3 / 4).await;
            near.write_all(b"a").await.unwrap();
            far.read_exact(&mut byte).await.unwrap();
            sleep(IDLE_LIMIT * 3 / 4).await;
            far.write_all(b"b").await.unwrap();
            near.read_exact(&mut byte).await.unwrap();
        }
        let silent_since = Instant::now();
        timeout(HOUR, tunnel).await.expect("an end").unwrap();
        assert!(silent_since.elapsed() >= IDLE_LIMIT && silent_since.elapsed() < IDLE_LIMIT * 2);
        assert_eq!(near.read(&mut byte).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_takes_nothing_does_not_hold_the_tunnel() {
        for near_takes_nothing in [true, false] {
            let ((mut near, near_end), (mut far, far_end)) = (duplex(64), duplex(64));
            let tunnel = tokio::spawn(tunnel(near_end, far_end));
            let (ended, sender) = if near_takes_nothing {
                (&mut near, &mut far)
            } else {
                (&mut far, &mut near)
            };
            // It has ended its own side, so that nothing is read from it any more.
            ended.shutdown().await.unwrap();
            let filling = async { while sender.write_all(&[0; 64]).await.is_ok() {} };
            timeout(HOUR, filling).await.expect("an end");
            timeout(HOUR, tunnel).await.expect("an end").unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_side_may_end_before_the_other() {
        let ((mut near, near_end), (mut far, far_end)) = (duplex(64), duplex(64));
        let tunnel = tokio::spawn(tunnel(near_end, far_end));
        near.write_all(b"question").await.unwrap();
        near.shutdown().await.unwrap();
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "question");
        far.write_all(b"answer").await.unwrap();
        far.shutdown().await.unwrap();
        text.clear();
        near.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "answer");
        timeout(HOUR, tunnel).await.expect("an end").unwrap();
    }
}
