//! What a relay is told, and every limit with its default.

use std::time::Duration;

use rendezvous_wire::limits;

/// What a relay is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// `ws://` or `wss://` base that executors and harnesses can reach; the registry puts it into the URLs it gives out.
    pub public_url: String,
    /// Counts and sizes.
    pub limits: Limits,
    /// Times.
    pub times: Times,
}

impl Config {
    /// The defaults for a relay that is reached at `public_url`.
    pub fn new(public_url: impl Into<String>) -> Self {
        Self {
            public_url: public_url.into(),
            limits: Limits::default(),
            times: Times::default(),
        }
    }
}

/// Counts and sizes. Sizes are bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// WebSockets in all.
    pub connections: usize,
    /// WebSockets that one credential may hold.
    pub connections_per_credential: usize,
    /// Upgrades that are taken per second, with bursts of twice as many.
    pub upgrades_per_second: u32,
    /// Upgrades of one harness credential per minute, with bursts of as many.
    pub upgrades_per_credential_minute: u32,
    /// Harness upgrades that are held while their executor is away.
    pub held_upgrades: usize,
    /// Harnesses on one executor connection.
    pub streams_per_executor: usize,
    /// Of them, those of one harness key. It is more than an executor of ours serves for a key, so that a harness with as
    /// many streams as it may have can come back before its old connections are missed.
    pub streams_per_harness_key: usize,
    /// Of these, those whose handshake has been sent: what an executor of ours serves for a key. The next one waits.
    pub begun_per_harness_key: usize,
    /// Handshakes without an answer on one executor connection.
    pub pending_handshakes_per_executor: usize,
    /// What may wait for an executor from one stream before the harness's socket is not read any more.
    pub executor_stream_queue: usize,
    /// What may wait for an executor from all streams; beyond, a stream that has anything waiting is not read.
    pub executor_queue: usize,
    /// What may wait for a harness before its executor's socket is not read any more.
    pub harness_queue: usize,
    /// What may wait in the whole relay; beyond, whoever has anything waiting is treated as full.
    pub total_queue: usize,
    /// Harness tickets that are remembered as used.
    pub used_tickets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            connections_per_credential: 4096,
            upgrades_per_second: 2000,
            upgrades_per_credential_minute: 600,
            held_upgrades: 1024,
            streams_per_executor: limits::MAX_STREAMS,
            streams_per_harness_key: limits::MAX_STREAMS_PER_HARNESS + limits::MAX_STREAMS / 4,
            begun_per_harness_key: limits::MAX_STREAMS_PER_HARNESS,
            pending_handshakes_per_executor: limits::MAX_PENDING_VALIDATIONS,
            executor_stream_queue: 1024 * 1024,
            executor_queue: 16 * 1024 * 1024,
            harness_queue: 4 * 1024 * 1024,
            total_queue: 256 * 1024 * 1024,
            used_tickets: 262_144,
        }
    }
}

/// Times.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Times {
    /// Between two pings to a connection.
    pub ping: Duration,
    /// Without any byte from the peer after a ping for this long, a connection is cut.
    pub pong: Duration,
    /// Without any progress of a blocked write for this long, a connection is cut.
    pub write: Duration,
    /// How long a harness whose queue is full may keep an executor with other streams waiting, at most once per
    /// [`Times::stall_refill`].
    pub stall: Duration,
    /// After this long the whole of [`Times::stall`] is available again.
    pub stall_refill: Duration,
    /// How long a harness upgrade is held for an absent executor.
    pub absent_executor: Duration,
    /// How long a handshake waits for its turn.
    pub handshake_turn: Duration,
    /// How long a harness may take to send its first frame, and the executor to answer.
    pub opening: Duration,
    /// How long a closing connection may take to read what waits for it and the close frame.
    pub close: Duration,
    /// Over how much time the closes of a drain are spread.
    pub drain_spread: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            ping: Duration::from_secs(20),
            pong: Duration::from_secs(40),
            write: Duration::from_secs(20),
            stall: Duration::from_millis(500),
            stall_refill: Duration::from_secs(10),
            absent_executor: limits::ABSENT_EXECUTOR_WAIT,
            handshake_turn: Duration::from_secs(5),
            opening: Duration::from_secs(30),
            close: Duration::from_secs(3),
            drain_spread: Duration::from_secs(2),
        }
    }
}
