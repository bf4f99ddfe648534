//! Names to addresses, on few of the threads that the whole program shares for what blocks.
//!
//! The system's resolver cannot be interrupted and takes as long as the slowest server of names. A permit therefore stays
//! with the thread, not with whoever waits for it: one who goes away does not make room for another thread.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::gate::MAX_ADDRESSES;

/// Names that the proxies of all programs resolve at once.
pub const MAX_LOOKUPS_TOTAL: usize = 32;
/// Names that one proxy resolves at once.
pub const MAX_LOOKUPS: usize = 8;

static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_LOOKUPS_TOTAL)));

/// The lookups of one proxy.
#[derive(Clone, Debug)]
pub(super) struct Lookups {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl Lookups {
    /// Those of another proxy, which share what is for all.
    pub(super) fn new() -> Self {
        Self::within(Arc::clone(&ALL))
    }

    fn within(all: Arc<Semaphore>) -> Self {
        Self {
            own: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            all,
        }
    }

    /// Asks the resolver of this machine.
    pub(super) async fn resolve(&self, name: String) -> io::Result<Vec<IpAddr>> {
        self.run(move || {
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).take(MAX_ADDRESSES).collect())
        })
        .await
    }

    /// Waits for room, then runs `lookup` on a thread of its own. Whoever calls bounds the time.
    async fn run<T: Send + 'static>(&self, lookup: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let own = Arc::clone(&self.own).acquire_owned().await.map_err(io::Error::other)?;
        let all = Arc::clone(&self.all).acquire_owned().await.map_err(io::Error::other)?;
        let looking = spawn_blocking(move || {
            let _permits = (own, all);
            lookup()
        });
        looking.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Lookups that wait for the test's end.
    #[derive(Default)]
    struct Slow {
        begun: Arc<AtomicUsize>,
        held: Vec<mpsc::Sender<()>>,
    }

    impl Slow {
        /// Begins one and gives it up at once, as a program does that closes its connection.
        async fn begin(&mut self, lookups: &Lookups) {
            let (end, ended) = mpsc::channel::<()>();
            self.held.push(end);
            let begun = Arc::clone(&self.begun);
            let lookup = lookups.run(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let _end = ended.recv();
                Ok(())
            });
            let _given_up = timeout(Duration::from_millis(10), lookup).await;
        }

        async fn until(&self, number: usize) {
            let reached = async {
                while self.begun.load(Ordering::SeqCst) < number {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(20), reached).await.expect("begun");
        }
    }

    #[tokio::test]
    async fn slow_lookups_take_their_share_of_threads_even_if_nobody_waits() {
        let all = Arc::new(Semaphore::new(MAX_LOOKUPS_TOTAL));
        let mut slow = Slow::default();
        let mut proxies = Vec::new();
        for number in 1..=MAX_LOOKUPS_TOTAL / MAX_LOOKUPS {
            let lookups = Lookups::within(Arc::clone(&all));
            for _ in 0..MAX_LOOKUPS * 2 {
                slow.begin(&lookups).await;
            }
            slow.until(MAX_LOOKUPS * number).await;
            assert_eq!(slow.begun.load(Ordering::SeqCst), MAX_LOOKUPS * number);
            proxies.push(lookups);
        }
        let one_more = Lookups::within(all);
        slow.begin(&one_more).await;
        assert_eq!(slow.begun.load(Ordering::SeqCst), MAX_LOOKUPS_TOTAL);
        // The threads are as many as before for everything else.
        assert_eq!(spawn_blocking(|| 1).await.unwrap(), 1);
        slow.held.clear();
        timeout(Duration::from_secs(20), one_more.run(|| Ok(())))
            .await
            .expect("room again")
            .unwrap();
    }

    #[tokio::test]
    async fn the_systems_resolver_is_asked() {
        let found = Lookups::new().resolve("127.0.0.1".to_owned()).await.unwrap();
        assert_eq!(found, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
    }
}
