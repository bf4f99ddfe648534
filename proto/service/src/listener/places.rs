//! Who may be connected at once, and who has to leave when there are too many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The places of a server. When all are taken, the connection that has waited longest for a request leaves: somebody who
/// opens connections and asks nothing keeps nobody out.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// In the order in which they became idle.
    connections: BTreeMap<u64, (OwnedSemaphorePermit, CancellationToken)>,
    last: u64,
}

/// One connection's place.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    state: Mutex<State>,
    evicted: CancellationToken,
}

#[derive(Debug)]
enum State {
    /// Under this number.
    Idle(u64),
    Busy(OwnedSemaphorePermit),
    Gone,
}

impl Places {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(count)),
            idle: Mutex::default(),
        })
    }

    /// A place for a new connection; none when all others are busy.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        let permit = match self.free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let (_, (permit, evicted)) = self.idle().connections.pop_first()?;
                evicted.cancel();
                permit
            }
        };
        let evicted = CancellationToken::new();
        let number = self.wait(permit, evicted.clone());
        Some(Place {
            places: self.clone(),
            state: Mutex::new(State::Idle(number)),
            evicted,
        })
    }

    fn wait(&self, permit: OwnedSemaphorePermit, evicted: CancellationToken) -> u64 {
        let mut idle = self.idle();
        idle.last += 1;
        let number = idle.last;
        idle.connections.insert(number, (permit, evicted));
        number
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Ready when the connection has to leave.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// A request has come; the connection stays until it is answered.
    pub(super) fn work(&self) {
        let mut state = self.state();
        if let State::Idle(number) = *state {
            let held = self.places.idle().connections.remove(&number);
            *state = held.map_or(State::Gone, |(permit, _)| State::Busy(permit));
        }
    }

    /// The answer is made; the connection waits for the next request.
    pub(super) fn rest(&self) {
        let mut state = self.state();
        *state = match std::mem::replace(&mut *state, State::Gone) {
            State::Busy(permit) => State::Idle(self.places.wait(permit, self.evicted.clone())),
            other => other,
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let State::Idle(number) = *self.state() {
            self.places.idle().connections.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_idle_for_longest_leaves() {
        let places = Places::new(3);
        let (busy, first, second) = (places.take(), places.take(), places.take());
        let (Some(busy), Some(first), Some(second)) = (busy, first, second) else {
            panic!("three places");
        };
        busy.work();
        first.work();
        first.rest();
        let third = places.take().expect("the second one's place");
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled() && !busy.evicted.is_cancelled());
        second.work();
        second.rest();
        third.work();
        let fourth = places.take().expect("the first one's place");
        assert!(first.evicted.is_cancelled());
        fourth.work();
        assert!(places.take().is_none(), "all are busy");
        drop(first);
        drop(second);
        assert!(places.take().is_none(), "who left holds no place to give back");
        drop(busy);
        assert!(places.take().is_some());
        assert!(places.idle().connections.is_empty());
        drop(third);
        drop(fourth);
        assert_eq!(places.free.available_permits(), 3);
    }
}
