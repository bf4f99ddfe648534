//! Reasons of resets and codes of closes.
//!
//! A reset reason is plain text that anybody on the path can write. It is shown, counted and logged, and never decides
//! anything.

/// The executor or harness gave up a stream: bad handshake, refused key, broken record.
pub const PROTOCOL_ERROR: &str = "noise_relay_protocol_error";
/// The relay lost the harness of a stream.
pub const HARNESS_GONE: &str = "harness_disconnected";
/// The relay lost the executor of a stream.
pub const EXECUTOR_GONE: &str = "executor_disconnected";
/// The executor's processor for this stream ended.
pub const PROCESSOR_ENDED: &str = "processor_ended";
/// `executor forward` cannot reach the exec-server behind it.
pub const UNREACHABLE: &str = "exec_server_unreachable";
/// A record of the stream never arrived.
pub const RECORD_GAP: &str = "record_gap";
/// A receiver did not take its messages for too long.
pub const BACKPRESSURE: &str = "application_backpressure";
/// The credential behind the stream was revoked.
pub const REVOKED: &str = "revoked";
/// The relay is stopping.
pub const DRAINING: &str = "relay_draining";

/// WebSocket close codes that the relay sends.
pub mod close {
    /// Normal end.
    pub const NORMAL: u16 = 1000;
    /// The relay is stopping, or a newer connection took this one's place.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer sent something that is no valid frame of its role.
    pub const PROTOCOL: u16 = 1002;
    /// A text message where only binary ones are allowed.
    pub const UNSUPPORTED: u16 = 1003;
    /// The peer broke a rule: a second stream, somebody else's stream, a revoked credential.
    pub const POLICY: u16 = 1008;
    /// A message above the size limit.
    pub const TOO_BIG: u16 = 1009;
    /// The other side is gone or cannot take more; try again.
    pub const TRY_AGAIN: u16 = 1013;
}
