//! Direct transports: whole messages between two parties that need no relay, over a WebSocket or over lines of text.
//!
//! There is no channel inside: whoever can read the socket reads the messages. Both forms give the same
//! [`MessageStream`] as a stream through a relay, with the same bounds.

mod lines;
mod meter;
mod upgrade;

use std::time::Duration;

use bytes::Bytes;
use rendezvous_channel::budget::Budget;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason::close;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

pub use self::lines::over_lines;
use self::meter::{Meter, Metered};
pub use self::upgrade::{UpgradeError, accept};
use crate::link::{Dialect, Event, Link, LinkError};
use crate::stream::inbound::Outlet;
use crate::stream::{Backlog, Command, MessageStream, StreamEnd, Tag, at, next_unless, now, pair};

/// Longest time that a connection may hold more than its share of a backlog that is full; then it is ended.
pub const MAX_EXCESS: Duration = Duration::from_secs(5);

/// Uses a link as a stream of messages, one in each message of the link. The task that drives it closes the link when the
/// stream is closed, with a close frame. Must be called inside a Tokio runtime.
///
/// A link that takes no more bytes holds up its senders, and a receiver that takes no messages holds up the peer, both
/// for as long as it lasts.
pub fn over_link<S>(link: Link<S>) -> MessageStream
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    drive(link, &Backlog::unlimited(), None)
}

/// Serves a client after the WebSocket upgrade like [`over_link`]; `early` was read beyond the request. What clients make us
/// hold is bounded for all of them together: unfinished messages by `budget`, whole ones by `backlog`, until they are
/// answered. A connection for which there is no room is ended, a whole message after [`MAX_EXCESS`] only.
pub async fn serve<S>(socket: S, early: Bytes, budget: &Budget, backlog: &Backlog) -> MessageStream
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let meter = Meter::new(budget);
    let link = Link::server(Metered::new(socket, meter.clone()), early, Dialect::Direct).await;
    drive(link, backlog, Some(meter))
}

fn drive<S>(link: Link<S>, backlog: &Backlog, meter: Option<Meter>) -> MessageStream
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, port) = open(backlog);
    let driver = Driver { link, port, meter };
    tokio::spawn(driver.run());
    stream
}

/// The driver's side of a stream.
struct Port {
    asked: mpsc::UnboundedReceiver<(Tag, Command)>,
    outlet: Outlet,
}

fn open(backlog: &Backlog) -> (MessageStream, Port) {
    let (commands, asked) = mpsc::unbounded_channel();
    let id = StreamId::new(uuid::Uuid::new_v4().to_string()).expect("a UUID is a stream id");
    let (stream, outlet) = pair(id, None, &commands, backlog, false);
    (stream, Port { asked, outlet })
}

struct Driver<S> {
    link: Link<S>,
    port: Port,
    meter: Option<Meter>,
}

impl<S> Driver<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    async fn run(mut self) {
        match self.drive().await {
            Ok(()) => {
                // Whoever waits for the end wants the last messages to be out by then.
                self.link.close(close::NORMAL, "").await;
                self.port.outlet.end(StreamEnd::Closed);
            }
            Err(error) => {
                let code = error.close_code();
                self.port.outlet.end(error.into());
                self.link.close(code, "").await;
            }
        }
    }

    /// Returns when the application has closed the stream.
    async fn drive(&mut self) -> Result<(), LinkError> {
        let mut excess_since = None;
        loop {
            let has_room = self.link.has_room();
            let relieved = self.port.outlet.relieved();
            let paused = self.port.outlet.holds_up();
            excess_since = match self.port.outlet.is_above_share() {
                true => excess_since.or_else(|| Some(now())),
                false => None,
            };
            tokio::select! {
                event = next_unless(&mut self.link, paused) => match event? {
                    Event::Message(message) => {
                        if let Some(meter) = &self.meter {
                            meter.delivered(message.len(), !self.link.is_ahead());
                        }
                        self.port.outlet.put(message);
                    }
                    Event::Writable => {}
                },
                Some((_, command)) = self.port.asked.recv(), if has_room => {
                    if self.obey(command)? {
                        return Ok(());
                    }
                }
                () = relieved, if paused => {}
                () = at(excess_since.map(|since| since + MAX_EXCESS)) => return Err(LinkError::Backpressure),
            }
        }
    }

    /// Feeds as much as the link takes. True at the end.
    fn obey(&mut self, command: Command) -> Result<bool, LinkError> {
        let mut next = Some(command);
        while let Some(command) = next {
            match command {
                Command::Send(message) => self.link.feed(message)?,
                Command::Initialized | Command::Taken(_) | Command::Settle(_) => {}
                Command::Close(_) => return Ok(true),
            }
            next = if self.link.has_room() {
                self.port.asked.try_recv().ok().map(|(_, command)| command)
            } else {
                None
            };
        }
        Ok(false)
    }
}
