//! Streams of messages over a link: what a harness opens with [`connect`], and what
//! [`acceptor::serve`](crate::acceptor::serve) hands to an executor.
//!
//! One task owns each link and drives the channel; a [`MessageStream`] is a handle to it. Both directions are bounded in
//! bytes: a sender waits while [`SEND_BUFFER`] bytes are on their way, and a link is not read while more than
//! [`RECEIVE_BUFFER`] bytes wait to be received.

mod backlog;
mod connect;
mod end;
mod handle;
pub(crate) mod inbound;

pub use backlog::Backlog;
pub use connect::{MAX_PAUSE, connect};
pub(crate) use connect::{accept_message, at, next_unless, now};
pub use end::StreamEnd;
pub use handle::{CLOSE_TIMEOUT, MessageReceiver, MessageSender, MessageStream};
pub(crate) use handle::{Command, Commands, Tag, pair};

/// Plaintext of one stream that may be on its way to the link. A longer message is taken when nothing else is.
pub const SEND_BUFFER: usize = rendezvous_channel::stream::MAX_SEND_QUEUE;
/// Plaintext of one stream that may wait to be received before its link is not read any more.
pub const RECEIVE_BUFFER: usize = 4 * 1024 * 1024;
