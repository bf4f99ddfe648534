//! Whether the program behind a connection is still there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::sleep;

/// How often it is looked, so how long work goes on for nobody.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Looks at a connection beside whoever reads from it.
#[derive(Debug)]
pub(super) struct Presence(OwnedFd);

impl Presence {
    /// Looks at the connection with this descriptor, which is duplicated.
    pub(super) fn of(stream: &impl AsFd) -> io::Result<Self> {
        stream.as_fd().try_clone_to_owned().map(Self)
    }

    /// Does `work` until the program ends its side of the connection. Nothing: it did.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.end() => None,
        }
    }

    /// Looks again and again, since to wait for an end would also be to wait for bytes, which are another one's.
    async fn end(&self) {
        loop {
            sleep(LOOK_INTERVAL).await;
            if self.is_over() {
                return;
            }
        }
    }

    fn is_over(&self) -> bool {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut looked = [PollFd::new(&self.0, PollFlags::RDHUP)];
        poll(&mut looked, Some(&NOW)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Shutdown, TcpListener, TcpStream};

    use tokio::time::timeout;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[tokio::test]
    async fn work_ends_with_the_connection_and_not_before() {
        let (mut near, far) = pair();
        let presence = Presence::of(&far).unwrap();
        // Bytes that nobody reads are no end, and do not hide one.
        near.write_all(b"more").unwrap();
        let done = presence.during(sleep(LOOK_INTERVAL * 3)).await;
        assert!(done.is_some());
        near.shutdown(Shutdown::Write).unwrap();
        let work = presence.during(std::future::pending::<()>());
        let ended = timeout(Duration::from_secs(20), work).await.expect("an end");
        assert!(ended.is_none());
    }
}
