//! One session with an executor, across its connections.
//!
//! [`core`] decides without IO: calls in flight, events in order, what a lost connection means for each call.
//! [`driver`] connects, moves messages and keeps time. [`delivery`] hands events to whoever reads a process.

pub(crate) mod core;
pub(crate) mod delivery;
pub(crate) mod driver;

use bytes::Bytes;
use rendezvous_rpc::call_table::Lane;
use rendezvous_rpc::method::process::StartParams;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use self::core::listen::Listener;
use crate::error::HarnessError;
use crate::network::ManagedNetwork;

/// Processes of one session at once, from the start to the last event taken.
pub const MAX_PROCESSES: usize = 256;
/// Calls that wait for the connection to come back, and calls on their way to the driver.
pub(crate) const MAX_HELD: usize = 1024;

/// What a reader's end tells the driver, at most twice for each process.
#[derive(Debug)]
pub(crate) enum Notice {
    /// Nobody holds the process any more.
    Abandoned(String),
    /// Its reader has taken more of its events.
    Consumed(String),
}

/// What a handle asks for.
#[derive(Debug)]
pub(crate) enum Command {
    Call(Call),
    Start {
        params: Box<StartParams>,
        /// Who decides about hosts that it wants to reach.
        network: Option<ManagedNetwork>,
        events: delivery::EventSender,
        reply: oneshot::Sender<Result<(), HarnessError>>,
    },
    /// Follow a process that runs already.
    Attach {
        process: String,
        /// Only what begins about so many bytes before the end.
        tail: Option<u64>,
        events: delivery::EventSender,
        reply: oneshot::Sender<Result<(), HarnessError>>,
    },
}

/// A call on its way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    /// JSON.
    pub(crate) params: Bytes,
    pub(crate) class: Class,
    /// Who waits for news that follow.
    pub(crate) listener: Option<Listener>,
    pub(crate) reply: oneshot::Sender<Result<Box<RawValue>, HarnessError>>,
}

/// What a lost connection means for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Doing it twice is the same as once.
    Repeatable,
    /// It may have taken effect, and must not twice.
    Once,
    /// As `Once`, and it gives something back.
    Cleanup,
}

impl Class {
    fn lane(self) -> Lane {
        match self {
            Self::Repeatable | Self::Once => Lane::Ordinary,
            Self::Cleanup => Lane::Cleanup,
        }
    }
}
