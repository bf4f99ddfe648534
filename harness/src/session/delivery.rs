//! Events on their way to whoever reads a process or a body, bounded by count and bytes.

use std::sync::Arc;

use rendezvous_rpc::event::ProcessEvent;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::error::HarnessError;

/// Events of one process or body that wait to be taken.
pub const MAX_EVENTS: usize = 2048;
/// Bytes of one process's output, or of one body, that wait to be taken. When they are reached the whole connection waits, and so does the
/// executor in the end: output is held up, never dropped.
pub const MAX_EVENT_BYTES: u32 = 8 * 1024 * 1024;

/// What can be delivered.
pub(crate) trait Event {
    /// The bytes that it carries.
    fn len(&self) -> usize;
}

impl Event for ProcessEvent {
    fn len(&self) -> usize {
        match self {
            Self::Output { bytes, .. } => bytes.len(),
            Self::Exited { .. } | Self::Closed => 0,
        }
    }
}

#[derive(Debug)]
struct Item<E> {
    event: Result<E, HarnessError>,
    /// Gives its share of [`MAX_EVENT_BYTES`] back when the event is taken.
    _share: Option<OwnedSemaphorePermit>,
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct EventSender<E = ProcessEvent> {
    items: mpsc::Sender<Item<E>>,
    bytes: Arc<Semaphore>,
}

/// The reader's end.
#[derive(Debug)]
pub(crate) struct EventReceiver<E = ProcessEvent> {
    items: mpsc::Receiver<Item<E>>,
    /// Was taken too early, and comes next.
    error: Option<HarnessError>,
}

/// Both ends.
pub(crate) fn channel<E>() -> (EventSender<E>, EventReceiver<E>) {
    let (sender, receiver) = mpsc::channel(MAX_EVENTS);
    let bytes = Arc::new(Semaphore::new(MAX_EVENT_BYTES as usize));
    let receiver = EventReceiver {
        items: receiver,
        error: None,
    };
    (EventSender { items: sender, bytes }, receiver)
}

/// What became of an event.
#[derive(Debug)]
pub(crate) enum Delivered<E> {
    Yes,
    /// There is no room; the event comes back.
    Full(E),
    /// Nobody reads any more.
    Gone,
}

impl<E: Event + Send + 'static> EventSender<E> {
    pub(crate) fn try_send(&self, event: E) -> Delivered<E> {
        let permit = match self.items.try_reserve() {
            Ok(permit) => permit,
            Err(mpsc::error::TrySendError::Full(())) => return Delivered::Full(event),
            Err(mpsc::error::TrySendError::Closed(())) => return Delivered::Gone,
        };
        let Ok(share) = Arc::clone(&self.bytes).try_acquire_many_owned(share(&event)) else {
            return Delivered::Full(event);
        };
        permit.send(Item {
            event: Ok(event),
            _share: Some(share),
        });
        Delivered::Yes
    }

    /// Ends the events with an error. When the reader is far behind, the error follows as soon as it has caught up.
    pub(crate) fn fail(self, error: HarnessError) {
        let item = Item {
            event: Err(error),
            _share: None,
        };
        if let Err(mpsc::error::TrySendError::Full(item)) = self.items.try_send(item) {
            tokio::spawn(async move { self.items.send(item).await });
        }
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.items.is_closed()
    }

    /// Waits until `event` fits, or nobody reads any more.
    pub(crate) fn room(&self, event: &E) -> impl Future<Output = ()> + Send + use<E> {
        let (items, bytes, share) = (self.items.clone(), Arc::clone(&self.bytes), share(event));
        async move {
            let fits = async {
                let share = bytes.acquire_many(share).await;
                let permit = items.reserve().await;
                drop((share, permit));
            };
            tokio::select! {
                () = fits => {}
                () = items.closed() => {}
            }
        }
    }
}

impl<E> EventReceiver<E> {
    pub(crate) async fn recv(&mut self) -> Option<Result<E, HarnessError>> {
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        Some(self.items.recv().await?.event)
    }

    /// Gives an error back, to be taken next time.
    pub(crate) fn put_back(&mut self, error: HarnessError) {
        self.error = Some(error);
    }

    pub(crate) fn try_recv(&mut self) -> Result<Result<E, HarnessError>, TryRecvError> {
        Ok(self.items.try_recv()?.event)
    }
}

/// An event larger than the whole budget takes all of it.
fn share(event: &impl Event) -> u32 {
    u32::try_from(event.len()).unwrap_or(u32::MAX).clamp(1, MAX_EVENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rendezvous_rpc::method::process::OutputStream;

    fn output(len: usize) -> ProcessEvent {
        ProcessEvent::Output {
            stream: OutputStream::Stdout,
            bytes: vec![0; len].into(),
        }
    }

    #[tokio::test]
    async fn bytes_and_events_are_bounded_and_come_back() {
        let (sender, mut receiver) = channel();
        let half = MAX_EVENT_BYTES as usize / 2;
        assert!(matches!(sender.try_send(output(half)), Delivered::Yes));
        assert!(matches!(sender.try_send(output(half)), Delivered::Yes));
        let Delivered::Full(event) = sender.try_send(output(1)) else {
            panic!("no room for bytes");
        };
        let room = sender.room(&event);
        receiver.recv().await.unwrap().unwrap();
        room.await;
        assert!(matches!(sender.try_send(event), Delivered::Yes));
        receiver.recv().await.unwrap().unwrap();
        for _ in 1..MAX_EVENTS {
            assert!(matches!(sender.try_send(output(1)), Delivered::Yes));
        }
        assert!(matches!(sender.try_send(output(1)), Delivered::Full(_)));
        assert!(matches!(sender.try_send(output(usize::MAX >> 40)), Delivered::Full(_)));
        let room = sender.room(&output(1));
        drop(receiver);
        room.await;
        assert!(matches!(sender.try_send(output(1)), Delivered::Gone));
    }

    #[tokio::test]
    async fn an_error_follows_the_events() {
        let (sender, mut receiver) = channel();
        for _ in 0..MAX_EVENTS {
            assert!(matches!(sender.try_send(output(1)), Delivered::Yes));
        }
        sender.fail(HarnessError::Shutdown);
        for _ in 0..MAX_EVENTS {
            receiver.recv().await.unwrap().unwrap();
        }
        assert!(matches!(receiver.recv().await, Some(Err(HarnessError::Shutdown))));
        assert!(receiver.recv().await.is_none());
    }
}
