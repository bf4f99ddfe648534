//! Whole binary messages over a WebSocket.
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

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_wire::limits::MAX_WS_MESSAGE;
use rendezvous_wire::reason::close;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use crate::dial::Socket;
use crate::keepalive::{Action, Expired, Keepalive};
use crate::text::clean;

/// Bytes that may wait to be written before [`Link::has_room`] says no. One more message fits always.
pub const WRITE_LIMIT: usize = 256 * 1024;
/// Bytes of messages that [`Link::idle`] and [`Link::flush`] take from the socket before they leave the rest there.
pub const READ_AHEAD: usize = 1024 * 1024;
/// Messages that are delivered in a row before writes and keepalive have their turn, also past a pong's deadline: the pong
/// may be behind them.
pub const MAX_BURST: u32 = 32;
/// Longest time that [`Link::close`] takes.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

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

/// Why a connection ended. After any of them a link is done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer closed it, or it just ended.
    #[error("closed by the peer{}", closed(*code, reason))]
    Closed {
        /// Code of the close frame; none when the connection ended without one.
        code: Option<u16>,
        /// Reason of the close frame, made fit to show.
        reason: String,
    },
    /// The peer sent a text message.
    #[error("the peer sent a text message")]
    Text,
    /// The peer sent more than 256 KiB at once.
    #[error("the peer sent a message above the limit of {MAX_WS_MESSAGE} bytes")]
    TooBig,
    /// The peer broke the WebSocket protocol.
    #[error("the peer broke the WebSocket protocol: {0}")]
    Protocol(String),
    /// The socket could not be read.
    #[error("read failed")]
    Read(#[source] io::Error),
    /// The socket could not be written.
    #[error("write failed")]
    Write(#[source] io::Error),
    /// The peer did not answer a ping in time.
    #[error("no answer to a ping")]
    PongTimeout,
    /// The peer took no bytes for too long.
    #[error("the peer takes no data")]
    WriteTimeout,
    /// The owner took no messages for so long that the answer to a ping could not be read.
    #[error("messages were not taken in time")]
    Backpressure,
}

fn closed(code: Option<u16>, reason: &str) -> String {
    match code {
        None => " without a close frame".to_owned(),
        Some(code) if reason.is_empty() => format!(" with code {code}"),
        Some(code) => format!(" with code {code}: {reason}"),
    }
}

impl LinkError {
    /// A short name for logs and metrics, those of the stock peers where they have one.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Closed { .. } => "peer_close",
            Self::Text | Self::TooBig | Self::Protocol(_) => "protocol_error",
            Self::Read(_) => "read_error",
            Self::Write(_) => "write_error",
            Self::PongTimeout => "pong_timeout",
            Self::WriteTimeout => "write_timeout",
            Self::Backpressure => rendezvous_wire::reason::BACKPRESSURE,
        }
    }

    /// The code to [`Link::close`] with after this error.
    pub fn close_code(&self) -> u16 {
        match self {
            Self::Text => close::UNSUPPORTED,
            Self::TooBig => close::TOO_BIG,
            Self::Protocol(_) => close::PROTOCOL,
            Self::Closed { .. } => close::NORMAL,
            Self::Read(_) | Self::Write(_) | Self::PongTimeout | Self::WriteTimeout | Self::Backpressure => {
                close::GOING_AWAY
            }
        }
    }
}

/// One WebSocket, kept alive. All its futures may be dropped at any time without losing a message.
pub struct Link<S = Socket> {
    socket: WebSocketStream<S>,
    keepalive: Keepalive,
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
    /// How the peer ended the connection, while messages from before are still to be delivered.
    ended: Option<LinkError>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    /// Takes over a connection after the WebSocket upgrade, as its client. Must be called inside a Tokio runtime.
    pub async fn client(stream: S) -> Self {
        Self::new(WebSocketStream::from_raw_socket(stream, Role::Client, Some(config())).await)
    }

    pub(crate) fn new(socket: WebSocketStream<S>) -> Self {
        let now = Instant::now();
        Self {
            socket,
            keepalive: Keepalive::new(now.into_std()),
            timer: Box::pin(sleep_until(now)),
            unwritten: 0,
            ping_unwritten: false,
            wants_room: false,
            burst: 0,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            dropped_texts: None,
            ended: None,
        }
    }

    /// Drops and counts text messages from now on, as executors do; without this they end the connection, as harnesses want.
    #[must_use]
    pub fn dropping_texts(mut self) -> Self {
        self.dropped_texts = Some(self.dropped_texts());
        self
    }

    /// How many text messages were dropped.
    pub fn dropped_texts(&self) -> u64 {
        self.dropped_texts.unwrap_or_default()
    }

    /// Whether a message may be fed. When not, [`Event::Writable`] tells when there is room again.
    pub fn has_room(&mut self) -> bool {
        self.wants_room = self.unwritten >= WRITE_LIMIT;
        !self.wants_room
    }

    /// Gives a binary message to the write buffer; [`Self::next`], [`Self::idle`], [`Self::flush`] and [`Self::close`]
    /// write it. Ask [`Self::has_room`] first.
    ///
    /// # Errors
    ///
    /// When the connection is broken, or when the owner fed far beyond [`WRITE_LIMIT`] without asking.
    pub fn feed(&mut self, message: Bytes) -> Result<(), LinkError> {
        self.unwritten += message.len();
        self.give(Message::Binary(message))
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

    /// Writes what was fed, says why it ends, and ends the connection, all within [`CLOSE_TIMEOUT`].
    pub async fn close(mut self, code: u16, reason: &str) {
        let frame = CloseFrame {
            code: code.into(),
            reason: clean(reason, MAX_OWN_REASON).into(),
        };
        let farewell = async {
            if self.socket.send(Message::Close(Some(frame))).await.is_ok() {
                // To drop a socket with unread data would reset it, and the close frame could be lost.
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        // A peer that does not listen any more is not waited for.
        let _ = timeout(CLOSE_TIMEOUT, farewell).await;
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, LinkError>> {
        let share_used = self.burst >= MAX_BURST && self.ended.is_none();
        if !share_used && let Poll::Ready(message) = self.poll_message(cx)? {
            self.burst += 1;
            return Poll::Ready(Ok(Event::Message(message)));
        }
        self.burst = 0;
        let written = self.poll_write(cx)?.is_ready();
        if written && std::mem::take(&mut self.wants_room) {
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

    /// The next binary message from the socket; control frames are dealt with on the way.
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
                Message::Text(_) => match &mut self.dropped_texts {
                    Some(dropped) => *dropped += 1,
                    None => return Poll::Ready(Err(LinkError::Text)),
                },
                Message::Pong(_) => self.keepalive.pong(),
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
            match self.keepalive.poll(Instant::now().into_std()) {
                Action::Ping => {
                    self.give(Message::Ping(Bytes::new()))?;
                    self.ping_unwritten = true;
                    let _ = self.poll_write(cx)?;
                }
                Action::Expired(Expired::Pong) => return Err(unanswered),
                Action::Expired(Expired::Write) => return Err(LinkError::WriteTimeout),
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

/// Limits and buffers of a relay connection.
pub(crate) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_WS_MESSAGE))
        .max_frame_size(Some(MAX_WS_MESSAGE))
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        // One message beyond the limit, and headers and control frames.
        .max_write_buffer_size(WRITE_LIMIT + 2 * MAX_WS_MESSAGE)
}

fn ended() -> LinkError {
    LinkError::Closed {
        code: None,
        reason: String::new(),
    }
}

fn read_error(error: WebSocketError) -> LinkError {
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    match error {
        WebSocketError::Io(error) if is_end(&error) => ended(),
        // Reading flushes answers to pings too, so this may be the write side; the difference helps nobody.
        WebSocketError::Io(error) => LinkError::Read(error),
        WebSocketError::ConnectionClosed
        | WebSocketError::AlreadyClosed
        | WebSocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => ended(),
        WebSocketError::Capacity(_) => LinkError::TooBig,
        // Binary messages are never checked: a text it was.
        WebSocketError::Utf8(_) => LinkError::Text,
        error => LinkError::Protocol(error.to_string()),
    }
}

fn write_error(error: WebSocketError) -> LinkError {
    match error {
        WebSocketError::Io(error) => LinkError::Write(error),
        WebSocketError::ConnectionClosed | WebSocketError::AlreadyClosed => ended(),
        WebSocketError::WriteBufferFull(_) => LinkError::WriteTimeout,
        error => LinkError::Protocol(error.to_string()),
    }
}

/// Stock peers end a connection by dropping the socket: that is no failure of the network.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe
    )
}
