use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rendezvous_channel::acceptor::StreamKey;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::limits::{MAX_MESSAGE, MESSAGE_PREFIX_LEN};
use rendezvous_wire::reason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::continuity::{Continuity, Teller};
use super::inbound::{self, Intake, Item};
use super::{Backlog, SEND_BUFFER, StreamEnd};

/// Longest time that [`MessageStream::close`] waits for the last messages to leave.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What each message costs of [`SEND_BUFFER`] at least, so that the number of messages is bounded too.
const LEAST_COST: usize = SEND_BUFFER / rendezvous_channel::stream::MAX_SEND_QUEUE_MESSAGES;

/// Which stream of a link; none where a link has only one.
pub(crate) type Tag = Option<StreamKey>;

/// What handles ask of the task that owns the link. Unbounded, because what it carries is bounded by each stream's
/// semaphore and by the messages that it received, and a stream asks for everything else once.
pub(crate) type Commands = mpsc::UnboundedSender<(Tag, Command)>;

#[derive(Debug)]
pub(crate) enum Command {
    /// The bytes carry their permit, and give it back when they are sent and dropped.
    Send(Bytes),
    Initialized,
    /// The application took a message of this length.
    Taken(usize),
    /// Whether both ends named the extension that makes the stream reliable.
    Settle(bool),
    /// With the reason that a peer is told, where the link can tell one.
    Close(&'static str),
}

/// One end-to-end stream of whole messages. Dropping it closes it.
#[derive(Debug)]
pub struct MessageStream {
    sender: MessageSender,
    receiver: MessageReceiver,
}

/// Sends on a stream. Clones send on the same one, and none of them keeps it open.
#[derive(Clone, Debug)]
pub struct MessageSender {
    tag: Tag,
    commands: Commands,
    room: Arc<Semaphore>,
    over: CancellationToken,
    continuity: watch::Receiver<Continuity>,
}

/// Receives from a stream. Dropping it closes the stream: what was sent before still leaves, and then the peer gets a
/// reset.
#[derive(Debug)]
pub struct MessageReceiver {
    id: StreamId,
    tag: Tag,
    commands: Commands,
    intake: Intake,
    has_ended: bool,
    over: CancellationToken,
    continuity: watch::Receiver<Continuity>,
}

/// A handle, and the driver's side of it: where messages go, and what stops its senders. `is_offered` says whether the
/// stream can become reliable.
pub(crate) fn pair(
    id: StreamId,
    tag: Tag,
    commands: &Commands,
    backlog: &Backlog,
    is_offered: bool,
) -> (MessageStream, inbound::Outlet) {
    let room = Arc::new(Semaphore::new(SEND_BUFFER));
    let over = CancellationToken::new();
    let (teller, continuity) = Teller::new(is_offered);
    let (outlet, intake) = inbound::queue(backlog, room.clone(), over.clone(), teller);
    let stream = MessageStream {
        sender: MessageSender {
            tag,
            commands: commands.clone(),
            room,
            over: over.clone(),
            continuity: continuity.clone(),
        },
        receiver: MessageReceiver {
            id,
            tag,
            commands: commands.clone(),
            intake,
            has_ended: false,
            over,
            continuity,
        },
    };
    (stream, outlet)
}

impl MessageStream {
    /// The stream's name on the wire.
    pub fn id(&self) -> &StreamId {
        &self.receiver.id
    }

    /// Sends one message; see [`MessageSender::send`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn send(&self, message: Bytes) -> Result<(), StreamEnd> {
        self.sender.send(message).await
    }

    /// The next message; see [`MessageReceiver::recv`].
    pub async fn recv(&mut self) -> Option<Result<Bytes, StreamEnd>> {
        self.receiver.recv().await
    }

    /// Lifts the limit on received messages to 64 MiB. An executor says so before it answers `initialize`.
    pub fn set_initialized(&self) {
        self.sender.set_initialized();
    }

    /// How the stream outlives its connections, now and whenever that changes.
    pub fn continuity(&self) -> watch::Receiver<Continuity> {
        self.sender.continuity()
    }

    /// See [`MessageSender::settle`].
    pub fn settle(&self, agreed: bool) {
        self.sender.settle(agreed);
    }

    /// Two handles that can be used at the same time.
    pub fn split(self) -> (MessageSender, MessageReceiver) {
        (self.sender, self.receiver)
    }

    /// Ends the stream with a reason for people, which the peer's reset carries; see [`rendezvous_wire::reason`].
    pub fn refuse(self, reason: &'static str) {
        // What the drop asks for comes behind it, and too late.
        let _ = self.receiver.commands.send((self.receiver.tag, Command::Close(reason)));
    }

    /// Closes the stream and waits, [`CLOSE_TIMEOUT`] at most, until everything that was sent is with the system.
    pub async fn close(self) {
        self.receiver.close().await;
    }
}

impl MessageSender {
    /// Sends one message, 1 byte to 64 MiB. Waits while too much is on its way already; a message that was taken is sent
    /// unless the stream ends.
    ///
    /// # Errors
    ///
    /// The stream is over (the receiver says why), or the message is empty or too long.
    pub async fn send(&self, message: Bytes) -> Result<(), StreamEnd> {
        if message.is_empty() || message.len() > MAX_MESSAGE {
            return Err(StreamEnd::Unsendable(message.len()));
        }
        // What the stream's queue counts: a message that was given room must find it there.
        let cost = (message.len() + MESSAGE_PREFIX_LEN).clamp(LEAST_COST, SEND_BUFFER);
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let permit = self.room.clone().acquire_many_owned(cost);
        let permit = permit.await.map_err(|_| StreamEnd::Closed)?;
        let message = Bytes::from_owner(Charged {
            message,
            _permit: permit,
        });
        self.commands
            .send((self.tag, Command::Send(message)))
            .map_err(|_| StreamEnd::Stopped)
    }

    /// Ready once the stream is over, though messages from before may still be received.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// How the stream outlives its connections, now and whenever that changes.
    pub fn continuity(&self) -> watch::Receiver<Continuity> {
        self.continuity.clone()
    }

    /// Says whether both ends named the extension that makes the stream reliable, if that is offered: behind the first
    /// message of each direction nothing passes before. A harness says it when it has read the first message, an executor
    /// before it sends its own; one that sends without a word has not named it.
    pub fn settle(&self, agreed: bool) {
        if self.continuity.borrow().is_offered {
            // A driver that is gone has nothing to settle.
            let _ = self.commands.send((self.tag, Command::Settle(agreed)));
        }
    }

    /// See [`MessageStream::set_initialized`].
    pub fn set_initialized(&self) {
        // A driver that is gone needs no limit.
        let _ = self.commands.send((self.tag, Command::Initialized));
    }
}

/// A message on its way, and its share of the stream's buffer.
struct Charged {
    message: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl MessageReceiver {
    /// The stream's name on the wire.
    pub fn id(&self) -> &StreamId {
        &self.id
    }

    /// The next message; then, once, why no more will come; then nothing. The stream is over by then, unless the peer ended
    /// its input only ([`over_lines`](crate::direct::over_lines)). May be dropped without losing a message.
    pub async fn recv(&mut self) -> Option<Result<Bytes, StreamEnd>> {
        if self.has_ended {
            return None;
        }
        match self.intake.next().await {
            Some(Item::Message(message)) => {
                if self.is_credited() {
                    // A driver that is gone has no use for it.
                    let _ = self.commands.send((self.tag, Command::Taken(message.len())));
                }
                Some(Ok(message))
            }
            Some(Item::End(end)) => self.end(end),
            None => self.end(StreamEnd::Stopped),
        }
    }

    /// Closes the stream and waits, [`CLOSE_TIMEOUT`] at most, until everything that was sent is with the system.
    pub async fn close(mut self) {
        self.request_close();
        let over = self.over.clone();
        let drained = async {
            while self.recv().await.is_some() {}
            over.cancelled().await;
        };
        // Whatever is not out by now is lost with the stream.
        let _ = timeout(CLOSE_TIMEOUT, drained).await;
    }

    /// Whether the other end has to know what was taken.
    fn is_credited(&self) -> bool {
        let continuity = self.continuity.borrow();
        continuity.is_offered || continuity.is_reliable
    }

    fn end(&mut self, end: StreamEnd) -> Option<Result<Bytes, StreamEnd>> {
        self.has_ended = true;
        Some(Err(end))
    }

    fn request_close(&self) {
        // A driver that is gone has closed everything.
        let _ = self.commands.send((self.tag, Command::Close(reason::PROCESSOR_ENDED)));
    }
}

impl Drop for MessageReceiver {
    fn drop(&mut self) {
        self.request_close();
    }
}
