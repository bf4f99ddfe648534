//! How many connections proxies have at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of the proxies of one session; the next ones wait, in the queues of the kernel.
pub const MAX_CONNECTIONS: usize = 128;
/// Connections of the proxies of all sessions.
pub const MAX_CONNECTIONS_TOTAL: usize = 512;

/// Room for connections. Clones share it.
#[derive(Clone, Debug)]
pub struct Slots {
    all: Arc<Semaphore>,
    session: Arc<Semaphore>,
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
            per_session,
        }
    }

    /// The room of another session, which shares what is for all.
    #[must_use]
    pub fn session(&self) -> Self {
        Self {
            all: Arc::clone(&self.all),
            session: Arc::new(Semaphore::new(self.per_session)),
            per_session: self.per_session,
        }
    }

    /// Waits for room for one connection.
    pub(super) async fn take(&self) -> Option<Slot> {
        let session = Arc::clone(&self.session).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot {
            _session: session,
            _all: all,
        })
    }
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
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

    #[tokio::test(start_paused = true)]
    async fn a_session_has_its_share_and_all_have_theirs() {
        let slots = Slots::default();
        let mut taken = Vec::new();
        let one = slots.session();
        for _ in 0..MAX_CONNECTIONS {
            taken.push(one.take().await.expect("room"));
        }
        assert!(has_room(&one).await.is_none());
        let mut sessions = Vec::new();
        while taken.len() < MAX_CONNECTIONS_TOTAL {
            let other = slots.session();
            for _ in 0..MAX_CONNECTIONS {
                taken.push(other.take().await.expect("room"));
            }
            sessions.push(other);
        }
        let last = slots.session();
        assert!(has_room(&last).await.is_none());
        taken.pop();
        assert!(has_room(&last).await.is_some());
    }
}
