use std::io;

use rendezvous_wire::reason::close;
use tokio_tungstenite::tungstenite::Error as WebSocketError;

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
    /// The peer sent a longer message than the dialect allows.
    #[error("the peer sent a message above the size limit")]
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
    /// This machine slept for so long that the peer has given the connection up.
    #[error("this machine slept, and the peer has given the connection up")]
    Slept,
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
            Self::Slept => "slept",
            Self::Backpressure => rendezvous_wire::reason::BACKPRESSURE,
        }
    }

    /// The code to [`Link::close`](super::Link::close) with after this error.
    pub fn close_code(&self) -> u16 {
        match self {
            Self::Text => close::UNSUPPORTED,
            Self::TooBig => close::TOO_BIG,
            Self::Protocol(_) => close::PROTOCOL,
            Self::Closed { .. } => close::NORMAL,
            Self::Read(_)
            | Self::Write(_)
            | Self::PongTimeout
            | Self::WriteTimeout
            | Self::Slept
            | Self::Backpressure => close::GOING_AWAY,
        }
    }
}

pub(super) fn ended() -> LinkError {
    LinkError::Closed {
        code: None,
        reason: String::new(),
    }
}

pub(super) fn read_error(error: WebSocketError) -> LinkError {
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    match error {
        WebSocketError::Io(error) if is_end(&error) => ended(),
        // Reading flushes answers to pings too, so this may be the write side; the difference helps nobody.
        WebSocketError::Io(error) => LinkError::Read(error),
        WebSocketError::ConnectionClosed
        | WebSocketError::AlreadyClosed
        | WebSocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => ended(),
        WebSocketError::Capacity(_) => LinkError::TooBig,
        // Binary messages are never checked: a text it was, and a broken one.
        WebSocketError::Utf8(_) => LinkError::Text,
        error => LinkError::Protocol(error.to_string()),
    }
}

pub(super) fn write_error(error: WebSocketError) -> LinkError {
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
