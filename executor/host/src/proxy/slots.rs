//! How many connections proxies have at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of one proxy, which are those of one program; the next ones wait, in the queues of the kernel.
pub const MAX_CONNECTIONS_PROXY: usize = 32;
/// Connections of the proxies of one session; the next ones wait, in the queues of the kernel.
pub const MAX_CONNECTIONS: usize = 128;
/// Connections of the proxies of all sessions.
pub const MAX_CONNECTIONS_TOTAL: usize = 512;

/// Room for connections. Clones share it.
#[derive(Clone, Debug)]
pub struct Slots {
    all: Arc<Semaphore>,
    session: Arc<Semaphore>,
    proxy: Arc<Semaphore>,
    per_session: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self::new(MAX_CONNECTIONS, MAX_CONNECTIONS_TOTAL)
    }
}

impl Slots {
    /// Room for so many connections of each session and of all.
    pub fn new(per_session: usize, all: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            session: Arc::new(Semaphore::new(per_session)),
            proxy: Arc::new(Semaphore::new(MAX_CONNECTIONS_PROXY)),
            per_session,
        }
    }

    /// The room of another session, which shares what is for all.
    #[must_use]
    pub fn session(&self) -> Self {
        Self {
            all: Arc::clone(&self.all),
            session: Arc::new(Semaphore::new(self.per_session)),
            proxy: Arc::new(Semaphore::new(MAX_CONNECTIONS_PROXY)),
            per_session: self.per_session,
        }
    }

    /// The room of another proxy of the session.
    pub(super) fn proxy(&self) -> Self {
        Self {
            proxy: Arc::new(Semaphore::new(MAX_CONNECTIONS_PROXY)),
            ..self.clone()
        }
    }

    /// Waits for room for one connection.
    pub(super) async fn take(&self) -> Option<Slot> {
        // The narrowest first: who waits for it takes nothing from others.
        let proxy = Arc::clone(&self.proxy).acquire_owned().await.ok()?;
        let session = Arc::clone(&self.session).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot {
            _proxy: proxy,
            _session: session,
            _all: all,
        })
    }
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    _proxy: OwnedSemaphorePermit,
    _session: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn has_room(slots: &Slots) -> Option<Slot> {
        timeout(Duration::from_secs(1), slots.take()).await.ok().flatten()
    }

    /// Takes as many places of a session as it has, by proxies of its own.
    async fn fill(session: &Slots, taken: &mut Vec<Slot>) {
        for _ in 0..MAX_CONNECTIONS / MAX_CONNECTIONS_PROXY {
            let proxy = session.proxy();
            for _ in 0..MAX_CONNECTIONS_PROXY {
                taken.push(proxy.take().await.expect("room"));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_proxy_leaves_room_for_another() {
        let session = Slots::default().session();
        let (one, other) = (session.proxy(), session.proxy());
        let mut taken = Vec::new();
        for _ in 0..MAX_CONNECTIONS_PROXY {
            taken.push(one.take().await.expect("room"));
        }
        assert!(has_room(&one).await.is_none());
        assert!(has_room(&other).await.is_some());
        taken.pop();
        assert!(has_room(&one).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_has_its_share_and_all_have_theirs() {
        let slots = Slots::default();
        let mut taken = Vec::new();
        let one = slots.session();
        fill(&one, &mut taken).await;
        assert!(has_room(&one.proxy()).await.is_none());
        let mut sessions = Vec::new();
        while taken.len() < MAX_CONNECTIONS_TOTAL {
            let other = slots.session();
            fill(&other, &mut taken).await;
            sessions.push(other);
        }
        let last = slots.session();
        assert!(has_room(&last).await.is_none());
        taken.pop();
        assert!(has_room(&last).await.is_some());
    }
}
