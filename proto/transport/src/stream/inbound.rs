//! Messages between the task that owns a link and the application that receives them, counted in bytes.
//!
//! A link cannot stop one stream of many, so a stream whose application takes nothing holds up the reading of the link
//! for all of them; the driver bounds the time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::{RECEIVE_BUFFER, StreamEnd};

/// What each message counts at least, so that the number of messages is bounded too.
const LEAST_COST: usize = 256;
/// Bytes that may wait on all streams of a link together.
pub(crate) const TOTAL_RECEIVE_BUFFER: usize = 16 * RECEIVE_BUFFER;

pub(crate) enum Item {
    Message(Bytes),
    End(StreamEnd),
}

/// How much waits on all streams of one link.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    total: AtomicUsize,
    /// Rung when an application took something.
    relief: Notify,
}

impl Pressure {
    pub(crate) fn is_full(&self) -> bool {
        self.total.load(Ordering::Relaxed) > TOTAL_RECEIVE_BUFFER
    }

    pub(crate) async fn relieved(&self) {
        self.relief.notified().await;
    }
}

/// The driver's end.
pub(crate) struct Outlet {
    items: mpsc::UnboundedSender<Item>,
    level: Arc<Level>,
    room: Arc<Semaphore>,
}

/// The application's end.
pub(crate) struct Intake {
    items: mpsc::UnboundedReceiver<Item>,
    level: Arc<Level>,
}

struct Level {
    waiting: AtomicUsize,
    pressure: Arc<Pressure>,
}

impl Level {
    fn raise(&self, cost: usize) {
        self.waiting.fetch_add(cost, Ordering::Relaxed);
        self.pressure.total.fetch_add(cost, Ordering::Relaxed);
    }

    fn lower(&self, cost: usize) {
        self.waiting.fetch_sub(cost, Ordering::Relaxed);
        self.pressure.total.fetch_sub(cost, Ordering::Relaxed);
        self.pressure.relief.notify_one();
    }
}

/// A queue; `room` is closed with it, which stops the stream's senders.
pub(crate) fn queue(pressure: &Arc<Pressure>, room: Arc<Semaphore>) -> (Outlet, Intake) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let level = Arc::new(Level {
        waiting: AtomicUsize::new(0),
        pressure: pressure.clone(),
    });
    let outlet = Outlet {
        items: sender,
        level: level.clone(),
        room,
    };
    let intake = Intake { items: receiver, level };
    (outlet, intake)
}

impl Outlet {
    /// Hands a message over; an application that is gone gets none.
    pub(crate) fn put(&self, message: Bytes) {
        let cost = message.len().max(LEAST_COST);
        self.level.raise(cost);
        if self.items.send(Item::Message(message)).is_err() {
            self.level.lower(cost);
        }
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.level.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting() > RECEIVE_BUFFER
    }

    /// Tells the application behind its last message that the stream is over.
    pub(crate) fn end(self, end: StreamEnd) {
        // An application that is gone need not know.
        let _ = self.items.send(Item::End(end));
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.room.close();
    }
}

impl Intake {
    pub(crate) async fn next(&mut self) -> Option<Item> {
        let item = self.items.recv().await;
        if let Some(Item::Message(message)) = &item {
            self.level.lower(message.len().max(LEAST_COST));
        }
        item
    }
}

/// What nobody will receive does not count any more.
impl Drop for Intake {
    fn drop(&mut self) {
        self.items.close();
        while let Ok(item) = self.items.try_recv() {
            if let Item::Message(message) = item {
                self.level.lower(message.len().max(LEAST_COST));
            }
        }
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.level.waiting.load(Ordering::Relaxed);
        f.debug_struct("Intake")
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}
