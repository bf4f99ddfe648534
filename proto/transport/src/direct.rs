//! Direct transports: whole messages between two parties that need no relay, over a WebSocket or over lines of text.
//!
//! There is no channel inside: whoever can read the socket reads the messages. Both forms give the same
//! [`MessageStream`] as a stream through a relay, with the same bounds.

mod lines;
mod upgrade;

use std::sync::Arc;

use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason::close;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

pub use self::lines::over_lines;
pub use self::upgrade::{UpgradeError, accept};
use crate::link::{Event, Link, LinkError};
use crate::stream::inbound::{Outlet, Pressure};
use crate::stream::{Command, MessageStream, StreamEnd, Tag, next_unless, pair};

/// Uses a link as a stream of messages, one in each message of the link. The task that drives it closes the link when the
/// stream is closed, with a close frame. Must be called inside a Tokio runtime.
///
/// A link that takes no more bytes holds up its senders, and a receiver that takes no messages holds up the peer, both
/// for as long as it lasts.
pub fn over_link<S>(link: Link<S>) -> MessageStream
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, port) = open();
    let driver = Driver { link, port };
    tokio::spawn(driver.run());
    stream
}

/// The driver's side of a stream.
struct Port {
    asked: mpsc::UnboundedReceiver<(Tag, Command)>,
    outlet: Outlet,
    pressure: Arc<Pressure>,
}

fn open() -> (MessageStream, Port) {
    let (commands, asked) = mpsc::unbounded_channel();
    let pressure = Arc::new(Pressure::default());
    let id = StreamId::new(uuid::Uuid::new_v4().to_string()).expect("a UUID is a stream id");
    let (stream, outlet) = pair(id, None, &commands, &pressure);
    let port = Port {
        asked,
        outlet,
        pressure,
    };
    (stream, port)
}

struct Driver<S> {
    link: Link<S>,
    port: Port,
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
        loop {
            let has_room = self.link.has_room();
            let paused = self.port.outlet.is_full();
            tokio::select! {
                event = next_unless(&mut self.link, paused) => match event? {
                    Event::Message(message) => self.port.outlet.put(message),
                    Event::Writable => {}
                },
                Some((_, command)) = self.port.asked.recv(), if has_room => {
                    if self.obey(command)? {
                        return Ok(());
                    }
                }
                () = self.port.pressure.relieved(), if paused => {}
            }
        }
    }

    /// Feeds as much as the link takes. True at the end.
    fn obey(&mut self, command: Command) -> Result<bool, LinkError> {
        let mut next = Some(command);
        while let Some(command) = next {
            match command {
                Command::Send(message) => self.link.feed(message)?,
                Command::Initialized => {}
                Command::Close => return Ok(true),
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
