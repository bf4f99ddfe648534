use std::convert::Infallible;
use std::time::{Duration, Instant};

use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::Identity;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::stream::{Event, Stream, StreamError, Target};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason;
use rendezvous_wire::reason::close;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::inbound::Outlet;
use super::{Backlog, Command, MessageStream, StreamEnd, Tag, pair};
use crate::link::{self, Link, LinkError};

/// Longest time that a link is not read because its application takes nothing; then the stream is given up.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Opens a stream to the executor at the other end of a harness's link: sends the handshake, waits for the answer, and
/// starts the task that drives the link from then on. The task ends with the stream and closes the link.
///
/// `budget` bounds what unfinished messages may occupy.
///
/// # Errors
///
/// Why there is no stream. The link is closed then.
///
/// # Panics
///
/// Outside of a Tokio runtime, and if the system gives no random numbers.
pub async fn connect<S>(
    mut link: Link<S>,
    identity: &Identity,
    target: &Target<'_>,
    budget: &Budget,
) -> Result<MessageStream, StreamEnd>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let id = StreamId::new(uuid::Uuid::new_v4().to_string()).expect("a UUID is a stream id");
    let mut rng = UnwrapErr(SysRng);
    let opened = Stream::connect(now(), id.clone(), identity, target, budget, &mut rng);
    let mut stream = opened.map_err(StreamError::from)?;
    if let Err(end) = shake_hands(&mut link, &mut stream).await {
        if !matches!(end, StreamEnd::Disconnected(_)) {
            link.close(close::NORMAL, "").await;
        }
        return Err(end);
    }
    let (commands, asked) = mpsc::unbounded_channel();
    // What the application keeps is its own affair.
    let (handle, outlet) = pair(id, None, &commands, &Backlog::unlimited());
    let driver = Driver {
        link,
        stream,
        outlet,
        asked,
    };
    tokio::spawn(driver.run());
    Ok(handle)
}

async fn shake_hands<S>(link: &mut Link<S>, stream: &mut Stream) -> Result<(), StreamEnd>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let event = stream.poll_event();
        send(link, stream)?;
        match event {
            Some(Event::Connected) => return Ok(()),
            Some(Event::Reset { reason }) => return Err(StreamEnd::Reset(reason)),
            Some(Event::Failed(error)) => return Err(error.into()),
            Some(_) | None => {}
        }
        tokio::select! {
            event = link.next() => match event? {
                link::Event::Message(message) => stream.handle_message(now(), message),
                link::Event::Writable => {}
            },
            () = at(stream.poll_timeout()) => stream.handle_timeout(now()),
        }
    }
}

/// Gives the link as much as it takes.
fn send<S>(link: &mut Link<S>, stream: &mut Stream) -> Result<(), LinkError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while link.has_room() {
        match stream.poll_transmit() {
            Some(frame) => link.feed(frame)?,
            None => break,
        }
    }
    Ok(())
}

/// Tokio's clock, which tests can stop.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Waits for this time, or for ever.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// The next message of a link, or only its upkeep while the application takes nothing.
pub(crate) async fn next_unless<S>(link: &mut Link<S>, paused: bool) -> Result<link::Event, LinkError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if paused {
        let never: Infallible = link.idle().await?;
        match never {}
    }
    link.next().await
}

/// Owns a harness's link and its one stream.
struct Driver<S> {
    link: Link<S>,
    stream: Stream,
    outlet: Outlet,
    asked: mpsc::UnboundedReceiver<(Tag, Command)>,
}

impl<S> Driver<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    async fn run(mut self) {
        let end = self.drive().await.unwrap_or_else(StreamEnd::from);
        match end {
            StreamEnd::Disconnected(_) => self.outlet.end(end),
            StreamEnd::Closed => {
                // Whoever waits for the end wants the last messages to be out by then.
                self.link.close(close::NORMAL, "").await;
                self.outlet.end(end);
            }
            end => {
                self.outlet.end(end);
                self.link.close(close::NORMAL, "").await;
            }
        }
    }

    async fn drive(&mut self) -> Result<StreamEnd, LinkError> {
        let mut paused_since = None;
        let mut end = StreamEnd::Closed;
        loop {
            while let Some(event) = self.stream.poll_event() {
                match event {
                    Event::Message(message) => self.outlet.put(message),
                    Event::Reset { reason } => end = StreamEnd::Reset(reason),
                    Event::Failed(error) => end = error.into(),
                    Event::Connected | Event::Suspended | Event::Resumed | Event::Worn => {}
                    Event::Ended { reason } => end = StreamEnd::Reset(reason),
                }
            }
            send(&mut self.link, &mut self.stream)?;
            if self.stream.is_closed() && !self.stream.wants_transmit() {
                return Ok(end);
            }
            let relieved = self.outlet.relieved();
            let paused = self.outlet.is_full();
            if !paused {
                paused_since = None;
            } else if paused_since.is_none() {
                paused_since = Some(now());
            }
            tokio::select! {
                event = next_unless(&mut self.link, paused) => match event? {
                    link::Event::Message(message) => self.stream.handle_message(now(), message),
                    link::Event::Writable => {}
                },
                Some((_, command)) = self.asked.recv() => self.obey(command),
                () = at(self.stream.poll_timeout()) => self.stream.handle_timeout(now()),
                () = relieved, if paused => {}
                () = at(paused_since.map(|since| since + MAX_PAUSE)) => {
                    end = StreamEnd::Backpressure;
                    self.stream.abort(reason::BACKPRESSURE);
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        let mut next = Some(command);
        while let Some(command) = next {
            match command {
                Command::Send(message) => accept_message(self.stream.send(message)),
                Command::Initialized => self.stream.set_initialized(),
                Command::Close(_) => self.stream.close(reason::HARNESS_GONE),
            }
            next = self.asked.try_recv().ok().map(|(_, command)| command);
        }
    }
}

/// A handle sends only what fits and is allowed, so all that can be wrong is that the stream ended meanwhile.
pub(crate) fn accept_message(result: Result<(), rendezvous_channel::stream::SendError>) {
    if let Err(error) = result {
        tracing::debug!(%error, "message dropped");
    }
}
