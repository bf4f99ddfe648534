use std::sync::Arc;
use std::time::Duration;

use rendezvous_channel::stream::{Event, Stream};
use rendezvous_wire::reason;
use rendezvous_wire::reason::close;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::connect::send;
use super::inbound::Outlet;
use super::redial::{Redial, Redialler, WayBack};
use super::{Command, StreamEnd, Tag, at, is_accepted, next_unless, now};
use crate::link::{self, Link, LinkError};

/// Longest time that the link of a stream that is not reliable is not read because its application takes nothing; then the
/// stream is given up. A reliable one stops its sender by itself.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Attempts in a row to take the stream up that may be answered by a Reset before it is given up. A Reset is no proof, and
/// the executor may be about to know the stream again; but mostly it has given it up.
const MAX_REFUSALS: u32 = 4;

/// Owns a harness's one stream, and the link below it while there is one.
pub(super) struct Driver<R: Redial> {
    pub(super) link: Option<Link<R::Socket>>,
    pub(super) stream: Stream,
    pub(super) outlet: Outlet,
    pub(super) asked: mpsc::UnboundedReceiver<(Tag, Command)>,
    pub(super) redialler: Redialler<R>,
    /// The executor behind the link may be another one.
    pub(super) is_moved: bool,
    /// The stream has passed over the link: it was opened or taken up there.
    pub(super) is_taken_up: bool,
    /// Links in a row over which the stream was not taken up, but reset.
    pub(super) refusals: u32,
    /// Why the stream is over, once it is.
    pub(super) end: StreamEnd,
}

impl<R: Redial> Driver<R> {
    pub(super) async fn run(mut self) {
        let end = self.drive().await;
        let Some(link) = self.link else {
            return self.outlet.end(end);
        };
        match end {
            StreamEnd::Closed => {
                // Whoever waits for the end wants the last messages to be out by then.
                link.close(close::NORMAL, "").await;
                self.outlet.end(end);
            }
            end => {
                self.outlet.end(end);
                link.close(close::NORMAL, "").await;
            }
        }
    }

    /// Drives until the stream is over, and says why it is.
    async fn drive(&mut self) -> StreamEnd {
        let mut paused_since = None;
        loop {
            // A reliable stream measures times.
            self.stream.handle_timeout(now());
            self.tell();
            if let Some(link) = &mut self.link
                && let Err(error) = send(link, &mut self.stream)
            {
                if let Err(end) = self.lose(error) {
                    return end;
                }
                continue;
            }
            if self.stream.is_closed() && (self.link.is_none() || !self.stream.wants_transmit()) {
                return std::mem::replace(&mut self.end, StreamEnd::Closed);
            }
            let relieved = self.outlet.relieved();
            let paused = self.outlet.is_full() && !self.stream.is_reliable();
            if !paused {
                paused_since = None;
            } else if paused_since.is_none() {
                paused_since = Some(now());
            }
            tokio::select! {
                event = next_if_any(&mut self.link, paused) => match event {
                    Ok(link::Event::Message(message)) => self.stream.handle_message(now(), message),
                    Ok(link::Event::Writable) => {}
                    Err(error) => if let Err(end) = self.lose(error) {
                        return end;
                    },
                },
                Some((_, command)) = self.asked.recv() => self.obey(command),
                () = at(self.stream.poll_timeout()) => {}
                way = self.redialler.next(random) => match way {
                    Ok(way) => self.go_on(way),
                    Err(error) => return StreamEnd::NotResumed(Arc::new(error)),
                },
                () = relieved, if paused => {}
                () = at(paused_since.map(|since| since + MAX_PAUSE)) => {
                    self.end = StreamEnd::Backpressure;
                    self.stream.abort(reason::BACKPRESSURE);
                }
            }
        }
    }

    /// Passes on what the stream has to tell.
    fn tell(&mut self) {
        while let Some(event) = self.stream.poll_event() {
            match event {
                Event::Message(message) => self.outlet.put(message),
                Event::Reset { reason } | Event::Ended { reason } => self.end = StreamEnd::Reset(reason),
                Event::Failed(error) => self.end = error.into(),
                Event::Suspended => self.suspended(),
                Event::Resumed => {
                    self.is_moved = false;
                    self.is_taken_up = true;
                    self.refusals = 0;
                    self.redialler.resumed();
                    let waited = self.outlet.continuity().resumed().map(|since| now() - since);
                    tracing::info!(stream = %self.stream.id(), ?waited, "stream goes on where it was");
                }
                Event::Worn => self.outlet.continuity().worn(),
                Event::Connected => {}
            }
        }
    }

    /// The stream waits for another link. Somebody may have said so on this one, over which no way leads then.
    fn suspended(&mut self) {
        self.outlet.continuity().suspended(now());
        if let Some(link) = self.link.take() {
            tokio::spawn(link.close(close::NORMAL, ""));
            // Where it was taken up, a Reset refuses nothing.
            self.refusals += u32::from(!self.is_taken_up);
            if self.is_moved || self.refusals > MAX_REFUSALS {
                self.end = StreamEnd::Reset(reason::EXECUTOR_GONE.to_owned());
                self.stream.give_up(reason::EXECUTOR_GONE);
                return;
            }
        }
        self.redialler.start(now(), random());
    }

    /// The link is gone.
    fn lose(&mut self, error: LinkError) -> Result<(), StreamEnd> {
        self.link = None;
        if self.stream.suspend(now()) {
            tracing::info!(stream = %self.stream.id(), reason = error.kind(), "connection lost, the stream waits for another");
            return Ok(());
        }
        Err(error.into())
    }

    /// There is a link again.
    fn go_on(&mut self, way: WayBack<R::Socket>) {
        self.link = Some(way.link);
        self.is_moved = way.is_moved;
        self.is_taken_up = false;
        self.stream.reconnect(now());
    }

    /// Takes every request that is there, so that one flush serves all of them.
    fn obey(&mut self, command: Command) {
        // What is queued after a silence must not look late.
        self.stream.handle_timeout(now());
        let mut next = Some(command);
        while let Some(command) = next {
            match command {
                Command::Send(message) => {
                    if !is_accepted(self.stream.send(message)) {
                        self.end = StreamEnd::Backpressure;
                        self.stream.abort(reason::BACKPRESSURE);
                    }
                }
                Command::Initialized => self.stream.set_initialized(),
                Command::Taken(len) => self.stream.taken(now(), len),
                Command::Settle(agreed) => {
                    self.stream.settle(now(), agreed);
                    self.outlet.continuity().settled(self.stream.is_reliable());
                }
                Command::Close(_) => self.stream.close(reason::HARNESS_GONE),
            }
            next = self.asked.try_recv().ok().map(|(_, command)| command);
        }
    }
}

/// What the link brings, if there is one.
async fn next_if_any<S>(link: &mut Option<Link<S>>, paused: bool) -> Result<link::Event, LinkError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match link {
        Some(link) => next_unless(link, paused).await,
        None => std::future::pending().await,
    }
}

fn random() -> u64 {
    // Without randomness the pauses only lose their spread.
    getrandom::u64().unwrap_or_default()
}
