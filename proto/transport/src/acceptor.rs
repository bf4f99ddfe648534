//! The executor's end of its relay connections, one after the other: admits harnesses and hands each stream to the
//! application.
//!
//! One task owns the link and the [`Acceptor`](rendezvous_channel::Acceptor); validations run beside it. Streams send one
//! record each in turn, and everything ready is written with one flush. Reliable streams stop their senders by themselves.
//! Others whose applications take nothing hold up the reading of the link for [`MAX_PAUSE`] in half a minute at most and
//! are reset then, all of them at once.

mod patience;
mod streams;
#[cfg(test)]
mod tests;

use std::future::Future;

use rendezvous_channel::Identity;
use rendezvous_channel::acceptor::{Counters, Verdict};
use rendezvous_channel::budget::Budget;
use rendezvous_channel::reliable::Config;
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::secret::Secret;

pub use self::patience::MAX_PAUSE;
pub use self::streams::Streams;
use crate::stream::{Backlog, MessageStream};

/// Who we are, and what harnesses may make us hold.
#[derive(Clone, Debug)]
pub struct Options {
    /// Our key; the registration names its public half.
    pub identity: Identity,
    /// Keys that we had before, and that still answer handshakes made for them.
    pub previous: Vec<Identity>,
    /// The environment that we serve.
    pub environment: EnvironmentId,
    /// Our registration, until [`Streams::serve`] is told another one.
    pub registration: RegistrationId,
    /// Bounds what unfinished messages and early records of all streams may occupy.
    pub budget: Budget,
    /// Bounds what whole messages of all streams may occupy until their answers are sent. The reliable streams of a harness key
    /// that holds more than its part, `1 / (n + 1)` of it for `n` keys, get no more credit, and may be beyond it by their
    /// windows.
    pub backlog: Backlog,
    /// Lets streams become reliable, if the harnesses want it.
    pub offer: Option<Config>,
}

/// What a validation is about.
#[derive(Clone, Debug)]
pub struct Request {
    /// The stream that waits.
    pub stream_id: StreamId,
    /// The key that the harness holds.
    pub harness_key: PublicKey,
    /// What it presented.
    pub authorization: Secret,
}

/// Says which harness may use this executor.
pub trait Validator: Send + Sync + 'static {
    /// Judges one harness. It is given up, and the harness rejected, after
    /// [`VALIDATION_TIMEOUT`](rendezvous_wire::limits::VALIDATION_TIMEOUT).
    fn validate(&self, request: Request) -> impl Future<Output = Verdict> + Send;
}

/// A stream whose harness was admitted.
#[derive(Debug)]
pub struct Accepted {
    /// The stream. Dropping it resets it.
    pub stream: MessageStream,
    /// The key that the harness holds.
    pub harness_key: PublicKey,
}

/// What happened so far, on all relay connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// What was refused.
    pub counters: Counters,
    /// Streams that are open now.
    pub streams: usize,
    /// Of them, those that wait for their harnesses.
    pub suspended: usize,
    /// Times that a stream went on behind a lost connection.
    pub resumes: u64,
    /// Text messages that were dropped: the protocol has none.
    pub texts: u64,
}
