//! Every metric of the relay; `relay/README.md` describes them for operators.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use rendezvous_wire::ticket::Role;

/// Handles of the metrics that are touched often. What happens for each frame is summed up per connection and added once
/// per read.
#[derive(Clone)]
pub(crate) struct Metrics {
    /// Frames from harnesses to executors, and their bytes.
    pub(crate) to_executor: Traffic,
    /// Frames from executors to harnesses, and their bytes.
    pub(crate) to_harness: Traffic,
    /// Frames from an executor for a stream that nobody holds.
    pub(crate) unknown_stream: Counter,
    /// Frames from an executor without a route.
    pub(crate) unroutable: Counter,
    /// Frames from a harness after its stream was reset.
    pub(crate) late: Counter,
    /// Resets that the relay sent to executors.
    pub(crate) resets: Counter,
    /// Streams that an executor reset before it opened them.
    pub(crate) failed_handshakes: Counter,
    /// What waits in all queues.
    pub(crate) queued: Gauge,
}

/// Frames of one direction.
#[derive(Clone)]
pub(crate) struct Traffic {
    pub(crate) frames: Counter,
    pub(crate) bytes: Counter,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Describes and registers everything with the recorder of this moment.
    pub(crate) fn new() -> Self {
        describe();
        let traffic = |direction: &'static str| Traffic {
            frames: counter!("relay_frames_forwarded_total", "direction" => direction),
            bytes: counter!("relay_bytes_forwarded_total", "direction" => direction),
        };
        let dropped = |reason: &'static str| counter!("relay_frames_dropped_total", "reason" => reason);
        Self {
            to_executor: traffic("to_executor"),
            to_harness: traffic("to_harness"),
            unknown_stream: dropped("unknown_stream"),
            unroutable: dropped("unroutable"),
            late: dropped("stream_ended"),
            resets: counter!("relay_resets_total"),
            failed_handshakes: counter!("relay_failed_handshakes_total"),
            queued: gauge!("relay_queue_bytes"),
        }
    }

    /// A connection was opened.
    pub(crate) fn opened(&self, role: Role) {
        counter!("relay_connections_opened_total", "side" => side(role)).increment(1);
    }

    /// A connection ended.
    pub(crate) fn ended(&self, role: Role, reason: &'static str) {
        counter!("relay_connections_closed_total", "side" => side(role), "reason" => reason).increment(1);
    }

    /// The relay closes a connection.
    pub(crate) fn closing(&self, role: Role, reason: &'static str) {
        counter!("relay_closes_sent_total", "side" => side(role), "reason" => reason).increment(1);
    }

    /// An upgrade was answered.
    pub(crate) fn upgrade(&self, status: u16, reason: &'static str) {
        counter!("relay_upgrades_total", "status" => status.to_string(), "reason" => reason).increment(1);
    }

    /// Whether the registry is reached over the control connection.
    pub(crate) fn control(&self, connected: bool) {
        gauge!("relay_control_connected").set(if connected { 1.0 } else { 0.0 });
    }
}

fn side(role: Role) -> &'static str {
    match role {
        Role::Executor => "executor",
        Role::Harness => "harness",
    }
}

fn describe() {
    describe_counter!("relay_frames_forwarded_total", "Frames forwarded, by direction");
    describe_counter!(
        "relay_bytes_forwarded_total",
        "Bytes of forwarded frames with their WebSocket headers"
    );
    describe_counter!("relay_frames_dropped_total", "Frames that had nowhere to go, by reason");
    describe_counter!(
        "relay_resets_total",
        "Resets that told an executor that a harness is gone"
    );
    describe_counter!(
        "relay_failed_handshakes_total",
        "Streams that an executor reset before it opened them"
    );
    describe_counter!("relay_connections_opened_total", "WebSockets opened, by side");
    describe_counter!("relay_connections_closed_total", "WebSockets ended, by side and reason");
    describe_counter!("relay_closes_sent_total", "Close frames sent, by side and reason");
    describe_counter!(
        "relay_upgrades_total",
        "Answers to upgrade requests, by status and reason"
    );
    describe_gauge!("relay_queue_bytes", "What waits in all queues, in bytes with overhead");
    describe_gauge!("relay_control_connected", "1 while the registry is reached");
}
