//! Messages between the task that owns a link and the application that receives them, counted in bytes.
//!
//! A link cannot stop one stream of many, so a stream whose application takes nothing holds up the reading of the link
//! for all of them; the driver bounds the time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::backlog::Backlog;
use super::continuity::Teller;
use super::{RECEIVE_BUFFER, StreamEnd};

/// What each message counts at least, so that the number of messages is bounded too.
const LEAST_COST: usize = 256;

#[derive(Debug)]
pub(crate) enum Item {
    Message(Bytes),
    End(StreamEnd),
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct Outlet {
    items: mpsc::UnboundedSender<Item>,
    level: Arc<Level>,
    room: Arc<Semaphore>,
    over: CancellationToken,
    continuity: Teller,
}

/// The application's end.
pub(crate) struct Intake {
    items: mpsc::UnboundedReceiver<Item>,
    level: Arc<Level>,
}

/// What one stream has received.
#[derive(Debug)]
struct Level {
    /// Bytes that the application has not taken.
    waiting: AtomicUsize,
    /// Bytes that it has not dropped.
    held: AtomicUsize,
    backlog: Backlog,
}

impl Level {
    fn lower(&self, message: &Bytes) {
        self.waiting.fetch_sub(cost(message), Ordering::Relaxed);
        self.backlog.relieve();
    }
}

fn cost(message: &Bytes) -> usize {
    message.len().max(LEAST_COST)
}

/// A received message, which counts until its last part is dropped.
struct Received {
    message: Bytes,
    level: Arc<Level>,
}

impl Received {
    fn new(message: Bytes, level: &Arc<Level>) -> Self {
        let cost = cost(&message);
        level.held.fetch_add(cost, Ordering::Relaxed);
        level.backlog.add(cost);
        Self {
            message,
            level: level.clone(),
        }
    }
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let cost = cost(&self.message);
        // Freed before somebody is told so.
        drop(std::mem::take(&mut self.message));
        self.level.held.fetch_sub(cost, Ordering::Relaxed);
        self.level.backlog.remove(cost);
    }
}

/// A queue. With the outlet, `room` is closed, which stops the stream's senders, and `over` cancelled.
pub(crate) fn queue(
    backlog: &Backlog,
    room: Arc<Semaphore>,
    over: CancellationToken,
    continuity: Teller,
) -> (Outlet, Intake) {
    let (sender, receiver) = mpsc::unbounded_channel();
    backlog.join();
    let level = Arc::new(Level {
        waiting: AtomicUsize::new(0),
        held: AtomicUsize::new(0),
        backlog: backlog.clone(),
    });
    let outlet = Outlet {
        items: sender,
        level: level.clone(),
        room,
        over,
        continuity,
    };
    let intake = Intake { items: receiver, level };
    (outlet, intake)
}

impl Outlet {
    /// Hands a message over; an application that is gone gets none.
    pub(crate) fn put(&self, message: Bytes) {
        let message = Bytes::from_owner(Received::new(message, &self.level));
        self.level.waiting.fetch_add(cost(&message), Ordering::Relaxed);
        if let Err(mpsc::error::SendError(Item::Message(message))) = self.items.send(Item::Message(message)) {
            self.level.lower(&message);
        }
    }

    /// Whether more waits for the application than may.
    pub(crate) fn is_full(&self) -> bool {
        self.level.waiting.load(Ordering::Relaxed) > RECEIVE_BUFFER
    }

    /// Where the driver tells how the stream outlives its connections.
    pub(crate) fn continuity(&self) -> &Teller {
        &self.continuity
    }

    /// Whether it holds more than its share of a backlog that is full.
    pub(crate) fn is_above_share(&self) -> bool {
        let backlog = &self.level.backlog;
        backlog.is_full() && self.level.held.load(Ordering::Relaxed) > backlog.share()
    }

    /// Whether it and the streams that it shares a part with hold more than their part of the backlog.
    pub(crate) fn is_above_part(&self) -> bool {
        self.level.backlog.is_above_part()
    }

    /// Ready when something was taken or dropped after this call.
    pub(crate) fn relieved(&self) -> OwnedNotified {
        self.level.backlog.relieved()
    }

    /// Whether the stream itself or all together hold up the link.
    pub(crate) fn holds_up(&self) -> bool {
        self.is_full() || self.level.backlog.is_full()
    }

    /// Tells the application behind its last message that no more will come, though it may still send.
    pub(crate) fn end_input(&self, end: StreamEnd) {
        // An application that is gone need not know.
        let _ = self.items.send(Item::End(end));
    }

    /// Tells the application behind its last message that the stream is over.
    pub(crate) fn end(self, end: StreamEnd) {
        // Whoever learns that no more will come can ask then whether it is over.
        self.over.cancel();
        // An application that is gone need not know.
        let _ = self.items.send(Item::End(end));
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.room.close();
        self.over.cancel();
        self.level.backlog.leave();
    }
}

impl Intake {
    pub(crate) async fn next(&mut self) -> Option<Item> {
        let item = self.items.recv().await;
        if let Some(Item::Message(message)) = &item {
            self.level.lower(message);
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
                self.level.lower(&message);
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
