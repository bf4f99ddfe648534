//! Streams of messages over a link: what a harness opens with [`connect`], and what
//! [`acceptor::Streams`](crate::acceptor::Streams) hands to an executor.
//!
//! One task owns each link and drives the channel; a [`MessageStream`] is a handle to it. Both directions are bounded in
//! bytes: a sender waits while [`SEND_BUFFER`] bytes are on their way, and a link is not read while more than
//! [`RECEIVE_BUFFER`] bytes wait to be received. A reliable stream ([`connect_reliable`]) bounds what waits by its credit
//! instead, and outlives the link.

mod backlog;
mod connect;
mod continuity;
mod driver;
mod end;
mod handle;
pub(crate) mod inbound;
mod redial;

pub use backlog::Backlog;
pub(crate) use backlog::WeakPart;
pub(crate) use connect::{at, is_accepted, next_unless, now};
pub use connect::{connect, connect_reliable};
pub use continuity::Continuity;
pub use driver::MAX_PAUSE;
pub use end::StreamEnd;
pub use handle::{CLOSE_TIMEOUT, MessageReceiver, MessageSender, MessageStream};
pub(crate) use handle::{Command, Commands, Tag, pair};
pub use redial::{Offer, Redial, RedialError, WayBack};

/// Plaintext of one stream that may be on its way to the link. A longer message is taken when nothing else is.
pub const SEND_BUFFER: usize = rendezvous_channel::stream::MAX_SEND_QUEUE;
/// Plaintext of one stream that may wait to be received before its link is not read any more.
pub const RECEIVE_BUFFER: usize = 4 * 1024 * 1024;
