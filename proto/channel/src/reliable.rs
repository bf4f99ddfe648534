//! Streams that outlive their connections: acknowledgement, retransmission, credit and resume, without cryptography.
//!
//! * `trailer`: what every record tells in its last bytes.
//! * `ledger`: everything that one end knows of what it sent and received. It is the state that is checked
//!   exhaustively; sealing and opening are around it, in [`stream`](crate::stream).
//! * `retained`, `arrivals`, `acks`, `credit`, `attachment`, `rtt`: its parts.
//! * `pool`: memory for the windows of many streams.
//! * `proof`: who may resume.
//!
//! Why it is so, and what it protects from, stands in `proto/adr/0007-reliable-streams.md`.

mod acks;
mod arrivals;
mod attachment;
mod credit;
mod error;
mod ledger;
mod mutant;
mod pace;
mod pool;
mod proof;
mod retained;
mod rtt;
mod trailer;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use self::arrivals::{Arrival, Piece};
pub(crate) use self::credit::weight;
pub use self::error::ReliableError;
pub(crate) use self::ledger::{Beginning, Ledger, Urgent};
pub(crate) use self::mutant::Switches;
pub use self::pool::Pool;
pub(crate) use self::pool::Share;
pub(crate) use self::proof::ResumeKey;
pub use self::proof::{PROOF_LEN, Role};
pub use self::trailer::TRAILER_LEN;
pub(crate) use self::trailer::{Kind, Trailer};

use rendezvous_wire::limits::MAX_RECORD_PLAINTEXT;

/// Longest piece of a message in one record.
pub const MAX_PIECE: usize = MAX_RECORD_PLAINTEXT - TRAILER_LEN;
/// Window of each direction before anybody has said anything.
pub const FIRST_WINDOW: usize = 256 * 1024;
/// Largest window of one direction: 1 Gbit/s at a round trip of 100 ms and more.
pub const MAX_WINDOW: usize = 16 * 1024 * 1024;
/// What a record with a piece costs beside it, in bytes.
pub const RECORD_COST: u64 = 256;
/// How far ahead of the next expected record one may be: more than any credit allows.
pub const MAX_DISTANCE: u32 = 66_560;
/// How long an acknowledgement waits for a record to ride on.
pub const ACK_DELAY: Duration = Duration::from_millis(20);
/// Records after which it waits no longer.
pub const ACK_RECORDS: usize = 16;
/// Bytes after which it waits no longer.
pub const ACK_BYTES: usize = 256 * 1024;
/// How long a trailer that confirms a piece waits.
pub const CONFIRM_DELAY: Duration = Duration::from_millis(500);
/// How long an acknowledgement in clear text is believed without a trailer.
pub const HINT_LIFETIME: Duration = Duration::from_secs(3);
/// Records without a piece that may be on their way.
pub const MAX_CONTROLS: usize = 4;
/// Unconfirmed records without a piece, before one asks for a confirmation.
pub const MAX_UNCONFIRMED_CONTROLS: usize = 64;
/// Timeouts without progress before a harness resumes on a connection that looks well.
pub const DOUBTFUL_TIMEOUTS: u32 = 2;
/// Silence before a harness asks whether its executor is there.
pub const SILENCE: Duration = Duration::from_secs(15);
/// How long something may be outstanding on a connection that is there.
pub const DEAD_AFTER: Duration = Duration::from_secs(120);
/// How long records wait for memory to put messages together.
pub const MAX_BUDGET_WAIT: Duration = Duration::from_secs(30);
/// How long an end waits for the confirmation that the peer knows of it.
pub const LINGER: Duration = Duration::from_secs(5);
/// Records of a direction after which a harness is told to open a new stream.
pub const RENEW_AT: u32 = 1 << 31;
/// How long a harness keeps a suspended stream.
pub const HARNESS_GRACE: Duration = Duration::from_secs(45);
/// How long an executor keeps a suspended stream.
pub const EXECUTOR_GRACE: Duration = Duration::from_secs(80);

/// How a reliable stream behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where its windows come from.
    pub pool: Pool,
    /// How long it stays suspended before it ends.
    pub grace: Duration,
}
