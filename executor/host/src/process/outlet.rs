//! Where a table's processes push their changes while somebody listens.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::{self, OwnedPermit};

use super::Change;

/// A change of one process, for whoever listens to its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The process.
    pub process: Arc<str>,
    /// What changed.
    pub change: Change,
}

/// A place to attach one listener.
///
/// Without a listener, changes are not queued: they are retained by their process and can be read there. A listener
/// that does not take its events holds up the processes that make them.
#[derive(Clone, Debug, Default)]
pub struct Outlet {
    listener: Arc<Mutex<Option<mpsc::Sender<Event>>>>,
}

impl Outlet {
    /// Sends all further events to `listener`. The queue's capacity bounds how many events wait in it.
    pub fn attach(&self, listener: mpsc::Sender<Event>) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// Sends no further event. The listener should drop its receiver too, which frees whoever waits for its queue.
    pub fn detach(&self) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether somebody listens.
    pub(super) fn is_attached(&self) -> bool {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn current(&self) -> Option<mpsc::Sender<Event>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for room in the listener's queue; nothing when nobody listens.
    pub(super) async fn room(&self) -> Option<OwnedPermit<Event>> {
        loop {
            let listener = self.current()?;
            if let Ok(permit) = listener.clone().reserve_owned().await {
                return Some(permit);
            }
            // The listener is gone. Whoever attached another one meanwhile is found in the next round.
            let mut slot = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.as_ref().is_some_and(|current| current.same_channel(&listener)) {
                *slot = None;
            }
        }
    }
}
