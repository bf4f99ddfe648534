//! Events on their way to whoever reads a process or a body, bounded by count and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rendezvous_rpc::event::ProcessEvent;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::Notice;
use crate::error::HarnessError;

/// Events of one process or body that wait to be taken.
pub const MAX_EVENTS: usize = 64 * 1024;
/// Bytes of one process's output that wait to be taken. An executor that knows windows sends at most 4 MiB ahead. For
/// another one, the whole connection waits when this is reached.
pub const MAX_EVENT_BYTES: u32 = 64 * 1024 * 1024;
/// Bytes of one body that wait to be taken. When they are reached the whole connection waits, and so does the executor in the
/// end.
pub const MAX_BODY_BYTES: u32 = 8 * 1024 * 1024;
/// The executor is told how far the reader has come when it has taken so many bytes or so many events since the last time:
/// a quarter of its window.
const TELL_BYTES: usize = 1024 * 1024;
const TELL_EVENTS: usize = 512;
/// The same when the reader has taken everything that is here, as an executor short of memory closes the window early.
const TELL_BYTES_IDLE: usize = 8 * 1024;

/// What can be delivered.
pub(crate) trait Event {
    /// The bytes that it carries.
    fn len(&self) -> usize;
}

impl Event for ProcessEvent {
    fn len(&self) -> usize {
        match self {
            Self::Output { bytes, .. } => bytes.len(),
            Self::Exited { .. } | Self::Dropped { .. } | Self::Closed => 0,
        }
    }
}

#[derive(Debug)]
struct Item<E> {
    seq: u64,
    event: Result<E, HarnessError>,
    /// Gives its share of [`MAX_EVENT_BYTES`] back when the event is taken.
    _share: Option<OwnedSemaphorePermit>,
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct EventSender<E = ProcessEvent> {
    items: mpsc::Sender<Item<E>>,
    bytes: Arc<Semaphore>,
    /// What `bytes` had at first.
    most_bytes: u32,
    consumption: Option<Arc<Consumption>>,
}

/// The reader's end.
#[derive(Debug)]
pub(crate) struct EventReceiver<E = ProcessEvent> {
    items: mpsc::Receiver<Item<E>>,
    /// Was taken too early, and comes next.
    error: Option<HarnessError>,
    consumption: Option<Arc<Consumption>>,
    /// Taken since the driver was told.
    untold_bytes: usize,
    untold_events: usize,
}

/// How far the reader has come.
#[derive(Debug)]
struct Consumption {
    process: String,
    notices: mpsc::UnboundedSender<Notice>,
    seq: AtomicU64,
    /// A notice is on its way to the driver.
    is_told: AtomicBool,
}

/// Both ends for a body.
pub(crate) fn body<E>() -> (EventSender<E>, EventReceiver<E>) {
    channel(MAX_BODY_BYTES, None)
}

/// Both ends for a process; the reader's tells `notices` how far it has come.
pub(crate) fn process<E>(
    process: String,
    notices: mpsc::UnboundedSender<Notice>,
) -> (EventSender<E>, EventReceiver<E>) {
    let consumption = Consumption {
        process,
        notices,
        seq: AtomicU64::new(0),
        is_told: AtomicBool::new(false),
    };
    channel(MAX_EVENT_BYTES, Some(Arc::new(consumption)))
}

fn channel<E>(most_bytes: u32, consumption: Option<Arc<Consumption>>) -> (EventSender<E>, EventReceiver<E>) {
    let (sender, receiver) = mpsc::channel(MAX_EVENTS);
    let receiver = EventReceiver {
        items: receiver,
        error: None,
        consumption: consumption.clone(),
        untold_bytes: 0,
        untold_events: 0,
    };
    let sender = EventSender {
        items: sender,
        bytes: Arc::new(Semaphore::new(most_bytes as usize)),
        most_bytes,
        consumption,
    };
    (sender, receiver)
}

impl Consumption {
    fn tell(&self) {
        if !self.is_told.swap(true, Ordering::AcqRel) {
            // Without a driver nobody has to know.
            let _ = self.notices.send(Notice::Consumed(self.process.clone()));
        }
    }
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
    /// Hands an event over, with its number if a process numbers it.
    pub(crate) fn try_send(&self, seq: u64, event: E) -> Delivered<E> {
        let permit = match self.items.try_reserve() {
            Ok(permit) => permit,
            Err(mpsc::error::TrySendError::Full(())) => return Delivered::Full(event),
            Err(mpsc::error::TrySendError::Closed(())) => return Delivered::Gone,
        };
        let Ok(share) = Arc::clone(&self.bytes).try_acquire_many_owned(self.share(&event)) else {
            return Delivered::Full(event);
        };
        permit.send(Item {
            seq,
            event: Ok(event),
            _share: Some(share),
        });
        Delivered::Yes
    }

    /// Ends the events with an error. When the reader is far behind, the error follows as soon as it has caught up.
    pub(crate) fn fail(self, error: HarnessError) {
        let item = Item {
            seq: 0,
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

    /// The last event that the reader has taken. It tells again when it has taken more.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumption.as_ref().map_or(0, |consumption| {
            consumption.is_told.swap(false, Ordering::AcqRel);
            consumption.seq.load(Ordering::Acquire)
        })
    }

    /// An event larger than the whole budget takes all of it.
    fn share(&self, event: &E) -> u32 {
        u32::try_from(event.len()).unwrap_or(u32::MAX).clamp(1, self.most_bytes)
    }

    /// Waits until `event` fits, or nobody reads any more.
    pub(crate) fn room(&self, event: &E) -> impl Future<Output = ()> + Send + use<E> {
        let (items, bytes, share) = (self.items.clone(), Arc::clone(&self.bytes), self.share(event));
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

impl<E: Event> EventReceiver<E> {
    pub(crate) async fn recv(&mut self) -> Option<Result<E, HarnessError>> {
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        if self.items.is_empty() {
            self.idle();
        }
        let item = self.items.recv().await?;
        Some(self.took(item))
    }

    /// Gives an error back, to be taken next time.
    pub(crate) fn put_back(&mut self, error: HarnessError) {
        self.error = Some(error);
    }

    pub(crate) fn try_recv(&mut self) -> Result<Result<E, HarnessError>, TryRecvError> {
        match self.items.try_recv() {
            Ok(item) => Ok(self.took(item)),
            Err(error) => {
                self.idle();
                Err(error)
            }
        }
    }

    fn took(&mut self, item: Item<E>) -> Result<E, HarnessError> {
        let event = item.event?;
        if let Some(consumption) = &self.consumption {
            consumption.seq.store(item.seq, Ordering::Release);
            self.untold_events += 1;
            self.untold_bytes += event.len();
            if self.untold_bytes >= TELL_BYTES || self.untold_events >= TELL_EVENTS {
                self.tell();
            }
        }
        Ok(event)
    }

    fn idle(&mut self) {
        if self.untold_bytes >= TELL_BYTES_IDLE {
            self.tell();
        }
    }

    fn tell(&mut self) {
        (self.untold_bytes, self.untold_events) = (0, 0);
        if let Some(consumption) = &self.consumption {
            consumption.tell();
        }
    }
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

    fn pair() -> (EventSender, EventReceiver) {
        process("p".to_owned(), mpsc::unbounded_channel().0)
    }

    #[tokio::test]
    async fn bytes_and_events_are_bounded_and_come_back() {
        let (sender, mut receiver) = pair();
        let half = MAX_EVENT_BYTES as usize / 2;
        assert!(matches!(sender.try_send(1, output(half)), Delivered::Yes));
        assert!(matches!(sender.try_send(1, output(half)), Delivered::Yes));
        let Delivered::Full(event) = sender.try_send(1, output(1)) else {
            panic!("no room for bytes");
        };
        let room = sender.room(&event);
        receiver.recv().await.unwrap().unwrap();
        room.await;
        assert!(matches!(sender.try_send(1, event), Delivered::Yes));
        receiver.recv().await.unwrap().unwrap();
        for _ in 1..MAX_EVENTS {
            assert!(matches!(sender.try_send(1, output(1)), Delivered::Yes));
        }
        assert!(matches!(sender.try_send(1, output(1)), Delivered::Full(_)));
        assert!(matches!(
            sender.try_send(1, output(usize::MAX >> 40)),
            Delivered::Full(_)
        ));
        let room = sender.room(&output(1));
        drop(receiver);
        room.await;
        assert!(matches!(sender.try_send(1, output(1)), Delivered::Gone));
    }

    #[tokio::test]
    async fn an_error_follows_the_events() {
        let (sender, mut receiver) = pair();
        for _ in 0..MAX_EVENTS {
            assert!(matches!(sender.try_send(1, output(1)), Delivered::Yes));
        }
        sender.fail(HarnessError::Shutdown);
        for _ in 0..MAX_EVENTS {
            receiver.recv().await.unwrap().unwrap();
        }
        assert!(matches!(receiver.recv().await, Some(Err(HarnessError::Shutdown))));
        assert!(receiver.recv().await.is_none());
    }

    #[test]
    fn the_driver_hears_how_far_the_reader_has_come() {
        let (notices, mut told) = mpsc::unbounded_channel();
        let (sender, mut receiver) = process("p".to_owned(), notices);
        let mut heard = || matches!(told.try_recv(), Ok(Notice::Consumed(process)) if process == "p");
        let mut seq = 0;
        let mut send = |len| {
            seq += 1;
            assert!(matches!(sender.try_send(seq, output(len)), Delivered::Yes));
        };
        send(TELL_BYTES_IDLE - 1);
        send(TELL_BYTES - TELL_BYTES_IDLE);
        send(1);
        receiver.try_recv().unwrap().unwrap();
        receiver.try_recv().unwrap().unwrap();
        assert!(!heard(), "a little less than a quarter");
        assert_eq!(sender.consumed(), 2);
        receiver.try_recv().unwrap().unwrap();
        assert!(heard() && !heard());
        for _ in 0..TELL_EVENTS {
            send(0);
        }
        for _ in 0..TELL_EVENTS {
            receiver.try_recv().unwrap().unwrap();
        }
        assert!(!heard(), "one notice is on its way");
        assert_eq!(sender.consumed(), 3 + TELL_EVENTS as u64);
        send(TELL_BYTES_IDLE);
        send(1);
        receiver.try_recv().unwrap().unwrap();
        assert!(!heard());
        receiver.try_recv().unwrap().unwrap();
        assert!(receiver.try_recv().is_err() && heard(), "all that was here is taken");
    }
}
