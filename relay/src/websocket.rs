//! The server's side of RFC 6455 on the hot path.
//!
//! A received buffer becomes forwarded frames in place: [`Deframer`] removes the client's mask and writes the server's
//! header, which is at least four bytes shorter, right before the payload. Frames that follow each other to the same
//! destination are moved together on the way, so that one [`bytes::Bytes`] carries many of them.

mod close;
mod deframer;
mod handshake;
mod header;
mod mask;

pub use close::{Violation, close_frame, ping_frame, pong_frame};
pub use deframer::{Control, Decision, Deframer, MAX_CHUNK, Progress, Sink};
pub use handshake::{HandshakeError, accept_key, check};
pub use header::{Header, MAX_SERVER_HEADER, Opcode, server_header};
pub use mask::unmask;
