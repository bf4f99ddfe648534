//! Whole messages over a WebSocket: the binary frames of a relay connection, or the texts of a direct one ([`Dialect`]).
//!
//! One task owns a [`Link`] and calls [`Link::next`] in its loop; that one future reads, writes and keeps the connection
//! alive at the same time, so that a peer that takes nothing still gets its pings answered, and two peers that both write
//! cannot block each other. The shape of a driver:
//!
//! ```text
//! loop {
//!     while link.has_room() {
//!         match channel.poll_transmit() {
//!             Some(frame) => link.feed(frame)?,
//!             None => break,
//!         }
//!     }
//!     select! {
//!         event = link.next() => match event? {
//!             Event::Message(frame) => channel.handle_frame(now, frame),
//!             Event::Writable => {}          // room again: go round
//!         },
//!         … = application … => …
//!     }
//! }
//! ```
//!
//! What was fed is written when there is nothing more to read, or when a full buffer has gathered: one system call for many
//! frames. A driver whose application takes no messages for a while awaits [`Link::idle`] instead, which does all but
//! deliver.

mod dialect;
mod error;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

pub use self::dialect::Dialect;
pub use self::error::LinkError;
use self::error::{ended, read_error, write_error};
use crate::dial::Socket;
use crate::flight::Flight;
use crate::keepalive::{Action, Expired, Keepalive};
use crate::text::clean;
use crate::wake;

/// Bytes that may wait to be written before [`Link::has_room`] says no. One more message fits always.
pub const WRITE_LIMIT: usize = 256 * 1024;
/// Bytes of messages that [`Link::idle`] and [`Link::flush`] take from the socket before they leave the rest there.
pub const READ_AHEAD: usize = 1024 * 1024;
/// Messages that are delivered in a row before writes and keepalive have their turn, also past a pong's deadline: the pong
/// may be behind them.
pub const MAX_BURST: u32 = 32;
/// Longest time that [`Link::close`] takes.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Largest frame that a direct connection sends. Stock peers refuse more than 16 MiB in one frame.
pub const MAX_DIRECT_FRAME: usize = 8 * 1024 * 1024;
/// Bytes that are gathered for one read or write of the socket.
const BUFFER: usize = 128 * 1024;
/// Longest part of a peer's close reason that is kept, in characters.
const MAX_REASON: usize = 128;
/// Longest part of our own close reason that is sent, in characters: a close frame has room for 123 bytes.
const MAX_OWN_REASON: usize = 30;

/// What [`Link::next`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A binary message, whole.
    Message(Bytes),
    /// [`Link::has_room`] said no before, and says yes now.
    Writable,
}

/// One WebSocket, kept alive. All its futures may be dropped at any time without losing a message.
pub struct Link<S = Socket> {
    socket: WebSocketStream<S>,
    dialect: Dialect,
    keepalive: Keepalive,
    boot_clock: fn() -> Duration,
    timer: Pin<Box<Sleep>>,
    /// Bytes fed since everything was written.
    unwritten: usize,
    /// A ping was given to the socket and is not written yet.
    ping_unwritten: bool,
    /// The owner met a full buffer and waits for [`Event::Writable`].
    wants_room: bool,
    /// Messages delivered since writes and keepalive had their turn.
    burst: u32,
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    /// Text messages that were dropped, where they do not end the connection.
    dropped_texts: Option<u64>,
    /// Bounds what is on its way, where many streams share it.
    flight: Option<Flight>,
    /// How the peer ended the connection, while messages from before are still to be delivered.
    ended: Option<LinkError>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    /// Takes over a connection after the WebSocket upgrade, as its client. Must be called inside a Tokio runtime.
    pub async fn client(stream: S) -> Self {
        let dialect = Dialect::Relay;
        let config = Some(dialect.config());
        Self::new(
            WebSocketStream::from_raw_socket(stream, Role::Client, config).await,
            dialect,
        )
    }

    /// Takes over a connection after the WebSocket upgrade, as its server; `early` was read beyond the request. Must be
    /// called inside a Tokio runtime.
    pub async fn server(stream: S, early: Bytes, dialect: Dialect) -> Self {
        let config = Some(dialect.config());
        let socket = WebSocketStream::from_partially_read(stream, early.into(), Role::Server, config);
        Self::new(socket.await, dialect)
    }

    pub(crate) fn new(socket: WebSocketStream<S>, dialect: Dialect) -> Self {
        let now = Instant::now();
        Self {
            socket,
            dialect,
            keepalive: match dialect {
                Dialect::Relay => Keepalive::new(now.into_std()),
                Dialect::Direct => Keepalive::patient(now.into_std()),
            },
            boot_clock: wake::boot_clock,
            timer: Box::pin(sleep_until(now)),
            unwritten: 0,
            ping_unwritten: false,
            wants_room: false,
            burst: 0,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            dropped_texts: None,
            flight: None,
            ended: None,
        }
    }

    /// Drops and counts text messages from now on, as executors do; without this they end the connection, as harnesses want.
    #[must_use]
    pub fn dropping_texts(mut self) -> Self {
        self.dropped_texts = Some(self.dropped_texts());
        self
    }

    /// Has no more on its way from now on than the way takes, so that what is fed later and is urgent soon gets there.
    #[must_use]
    pub fn keeping_short(mut self) -> Self {
        self.flight.get_or_insert_with(Flight::new);
        self
    }

    /// Gives a direct connection up, too, when a ping stays unanswered or a write blocks, as a relay connection always is.
    #[must_use]
    pub fn expecting_pongs(mut self) -> Self {
        self.keepalive = Keepalive::new(Instant::now().into_std());
        self
    }

    /// How many text messages were dropped.
    pub fn dropped_texts(&self) -> u64 {
        self.dropped_texts.unwrap_or_default()
    }

    /// Whether a message may be fed. When not, [`Event::Writable`] tells when there is room again.
    pub fn has_room(&mut self) -> bool {
        self.wants_room = !self.takes_more();
        !self.wants_room
    }

    fn takes_more(&self) -> bool {
        self.unwritten < WRITE_LIMIT && self.flight.as_ref().is_none_or(Flight::has_room)
    }

    /// Says whether short messages share the way with long ones now, for which a connection that is kept short becomes shorter
    /// still. Gives how long a message should be at most, in bytes, if it should not be as long as it likes.
    ///
    /// # Errors
    ///
    /// When the connection is broken.
    pub fn share(&mut self, is_shared: bool) -> Result<Option<usize>, LinkError> {
        self.ask(|flight| flight.share(Instant::now().into_std(), is_shared))?;
        Ok(self.flight.as_ref().and_then(Flight::longest))
    }

    /// Gives a message to the write buffer; [`Self::next`], [`Self::idle`], [`Self::flush`] and [`Self::close`]
    /// write it. Ask [`Self::has_room`] first.
    ///
    /// # Errors
    ///
    /// When the connection is broken, or when the owner fed far beyond [`WRITE_LIMIT`] without asking.
    pub fn feed(&mut self, message: Bytes) -> Result<(), LinkError> {
        let len = message.len();
        self.unwritten += len;
        match self.dialect {
            Dialect::Relay if self.flight.is_some() => {
                self.ask(|flight| flight.probe(Instant::now().into_std()))?;
                self.give(Message::Binary(message))?;
                self.ask(|flight| flight.sent(Instant::now().into_std(), len))
            }
            Dialect::Relay => self.give(Message::Binary(message)),
            Dialect::Direct => self.give_in_frames(message),
        }
    }

    /// Gives a ping, if one is needed to tell what is on its way.
    fn ask(&mut self, what: impl FnOnce(&mut Flight) -> Option<[u8; 8]>) -> Result<(), LinkError> {
        match self.flight.as_mut().and_then(what) {
            Some(ping) => {
                self.ping_unwritten = true;
                self.give(Message::Ping(Bytes::copy_from_slice(&ping)))
            }
            None => Ok(()),
        }
    }

    /// Gives a text, or what is none as a binary message, in frames that every peer takes.
    fn give_in_frames(&mut self, mut message: Bytes) -> Result<(), LinkError> {
        let mut kind = match std::str::from_utf8(&message) {
            Ok(_) => Data::Text,
            Err(_) => Data::Binary,
        };
        while message.len() > MAX_DIRECT_FRAME {
            let piece = message.split_to(MAX_DIRECT_FRAME);
            self.give(Message::Frame(Frame::message(piece, OpCode::Data(kind), false)))?;
            kind = Data::Continue;
        }
        self.give(Message::Frame(Frame::message(message, OpCode::Data(kind), true)))
    }

    /// What no peer may do.
    #[cfg(test)]
    pub(crate) fn feed_text(&mut self, text: &'static str) -> Result<(), LinkError> {
        self.unwritten += text.len();
        self.give(Message::Text(text.into()))
    }

    /// The next message, or room to write. Writes what was fed and keeps the connection alive meanwhile.
    ///
    /// # Errors
    ///
    /// Why the connection ended.
    pub async fn next(&mut self) -> Result<Event, LinkError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next message: [`Self::next`] for owners that feed little.
    ///
    /// # Errors
    ///
    /// Why the connection ended.
    pub async fn recv(&mut self) -> Result<Bytes, LinkError> {
        loop {
            if let Event::Message(message) = self.next().await? {
                return Ok(message);
            }
        }
    }

    /// Writes everything that was fed; messages that arrive meanwhile wait for [`Self::next`].
    ///
    /// # Errors
    ///
    /// Why the connection ended.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        poll_fn(|cx| {
            if self.poll_write(cx)?.is_ready() {
                return Poll::Ready(Ok(()));
            }
            self.poll_idle(cx).map_ok(|never| match never {})
        })
        .await
    }

    /// Does all that [`Self::next`] does, but delivers nothing: for an owner whose application takes no messages now. Up to
    /// [`READ_AHEAD`] bytes are taken from the socket meanwhile.
    ///
    /// # Errors
    ///
    /// Why the connection ended; nothing else ends this future.
    pub async fn idle(&mut self) -> Result<Infallible, LinkError> {
        poll_fn(|cx| self.poll_idle(cx)).await
    }

    /// Whether messages were read that are not delivered yet.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Writes what was fed, says why it ends, and ends the connection, all within [`CLOSE_TIMEOUT`].
    pub async fn close(mut self, code: u16, reason: &str) {
        let frame = CloseFrame {
            code: code.into(),
            reason: clean(reason, MAX_OWN_REASON).into(),
        };
        let farewell = async {
            if self.socket.send(Message::Close(Some(frame))).await.is_ok() {
                // To drop a socket with unread data would reset it, and the close frame could be lost.
                self.drain().await;
            }
        };
        // A peer that does not listen any more is not waited for.
        let _ = timeout(CLOSE_TIMEOUT, farewell).await;
    }

    /// Reads up to the peer's close frame, or, behind a message that could not be read, up to the end of its bytes.
    async fn drain(&mut self) {
        while let Some(Ok(message)) = self.socket.next().await {
            if message.is_close() {
                return;
            }
        }
        let mut rest = [0; 4096];
        while let Ok(1..) = self.socket.get_mut().read(&mut rest).await {}
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, LinkError>> {
        let share_used = self.burst >= MAX_BURST && self.ended.is_none();
        if !share_used && let Poll::Ready(message) = self.poll_message(cx)? {
            self.burst += 1;
            return Poll::Ready(Ok(Event::Message(message)));
        }
        self.burst = 0;
        let written = self.poll_write(cx)?.is_ready();
        if written && self.wants_room && self.takes_more() {
            self.wants_room = false;
            return Poll::Ready(Ok(Event::Writable));
        }
        self.poll_keepalive(cx, LinkError::PongTimeout)?;
        if share_used {
            self.poll_message(cx).map_ok(Event::Message)
        } else {
            Poll::Pending
        }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<Infallible, LinkError>> {
        while self.ended.is_none() && self.ahead_bytes < READ_AHEAD {
            match self.poll_socket(cx) {
                Poll::Ready(Ok(message)) => {
                    self.ahead_bytes += message.len();
                    self.ahead.push_back(message);
                }
                Poll::Ready(Err(error)) => self.ended = Some(error),
                Poll::Pending => break,
            }
        }
        if self.ended.is_some() {
            // What the peer sent before it left is delivered before its end is.
            return match self.ended.take_if(|_| self.ahead.is_empty()) {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            };
        }
        let _ = self.poll_write(cx)?;
        let unanswered = if self.ahead_bytes < READ_AHEAD {
            LinkError::PongTimeout
        } else {
            LinkError::Backpressure
        };
        self.poll_keepalive(cx, unanswered)?;
        Poll::Pending
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, LinkError>> {
        if let Some(message) = self.ahead.pop_front() {
            self.ahead_bytes -= message.len();
            return Poll::Ready(Ok(message));
        }
        if let Some(error) = self.ended.take() {
            return Poll::Ready(Err(error));
        }
        self.poll_socket(cx)
    }

    /// The next message from the socket; control frames are dealt with on the way.
    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, LinkError>> {
        loop {
            let message = match ready!(self.socket.poll_next_unpin(cx)) {
                Some(Ok(message)) => message,
                Some(Err(error)) => return Poll::Ready(Err(read_error(error))),
                None => return Poll::Ready(Err(ended())),
            };
            match message {
                // An empty message is no frame of the protocol; it is delivered, and refused where frames are read.
                Message::Binary(message) => return Poll::Ready(Ok(message)),
                Message::Text(text) if self.dialect == Dialect::Direct => return Poll::Ready(Ok(text.into())),
                Message::Text(_) => match &mut self.dropped_texts {
                    Some(dropped) => *dropped += 1,
                    None => return Poll::Ready(Err(LinkError::Text)),
                },
                Message::Pong(payload) => {
                    self.keepalive.pong();
                    self.ask(|flight| flight.pong(Instant::now().into_std(), &payload))?;
                }
                Message::Close(frame) => {
                    // The reply is queued already. If it does not go out at once, so be it: the peer wants to leave.
                    let _ = self.socket.poll_flush_unpin(cx);
                    return Poll::Ready(Err(match frame {
                        None => ended(),
                        Some(frame) => LinkError::Closed {
                            code: Some(frame.code.into()),
                            reason: clean(&frame.reason, MAX_REASON),
                        },
                    }));
                }
                // Answered by the library at the next read or write.
                Message::Ping(_) | Message::Frame(_) => {}
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        if self.unwritten == 0 && !self.ping_unwritten {
            return Poll::Ready(Ok(()));
        }
        match self.socket.poll_flush_unpin(cx) {
            Poll::Ready(Ok(())) => {
                self.unwritten = 0;
                self.ping_unwritten = false;
                self.keepalive.written(Instant::now().into_std());
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(write_error(error))),
            Poll::Pending => {
                self.keepalive.blocked(Instant::now().into_std());
                Poll::Pending
            }
        }
    }

    /// Pings, and sets the timer for the next turn. `unanswered` is the error of a missing pong.
    fn poll_keepalive(&mut self, cx: &mut Context<'_>, unanswered: LinkError) -> Result<(), LinkError> {
        loop {
            match self.keepalive.poll(Instant::now().into_std(), self.boot_clock) {
                Action::Ping => {
                    self.give(Message::Ping(Bytes::new()))?;
                    self.ping_unwritten = true;
                    let _ = self.poll_write(cx)?;
                }
                Action::Expired(Expired::Pong) => return Err(unanswered),
                Action::Expired(Expired::Write) => return Err(LinkError::WriteTimeout),
                Action::Expired(Expired::Slept) => return Err(LinkError::Slept),
                Action::Wait(until) => {
                    let until = Instant::from_std(until);
                    if self.timer.deadline() != until {
                        self.timer.as_mut().reset(until);
                    }
                    if self.timer.as_mut().poll(cx).is_pending() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn give(&mut self, message: Message) -> Result<(), LinkError> {
        self.socket.start_send_unpin(message).map_err(write_error)
    }
}

impl<S> fmt::Debug for Link<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("unwritten", &self.unwritten)
            .field("ahead", &self.ahead.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
