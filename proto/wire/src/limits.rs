//! Numbers that both ends of a wire, or the relay between them, must agree on.
//!
//! Sizes are bytes unless the name says otherwise. A limit that only one part cares about stands in that part.

use std::time::Duration;

/// The only frame version.
pub const FRAME_VERSION: u32 = 1;
/// Largest WebSocket message, and largest WebSocket frame, on a relay connection.
pub const MAX_WS_MESSAGE: usize = 256 * 1024;
/// Longest `stream_id` that we accept. Stock peers send 36 bytes.
pub const MAX_STREAM_ID: usize = 128;
/// Longest reset reason that we keep. A longer one is cut, never refused: it is only shown.
pub const MAX_RESET_REASON: usize = 256;

/// Most plaintext in one record.
pub const MAX_RECORD_PLAINTEXT: usize = 61_440;
/// Length of the AEAD tag of a record.
pub const TAG_LEN: usize = 16;
/// Most ciphertext in one record, that is in one data frame.
pub const MAX_RECORD_CIPHERTEXT: usize = MAX_RECORD_PLAINTEXT + TAG_LEN;
/// Largest JSON-RPC message.
pub const MAX_MESSAGE: usize = 64 * 1024 * 1024;
/// Length of the big-endian prefix in front of a message.
pub const MESSAGE_PREFIX_LEN: usize = 4;
/// How far ahead of the next expected `seq` a record may be.
pub const REORDER_DISTANCE: u32 = 64;
/// Most ciphertext held per stream while a record is missing.
pub const REORDER_BYTES: usize = 1024 * 1024;
/// How long a missing record is waited for before the stream is reset.
pub const GAP_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest authorization inside handshake message 1.
pub const MAX_AUTHORIZATION: usize = 4096;
/// Largest Noise message.
pub const MAX_NOISE_MESSAGE: usize = 65_535;
/// Length of handshake message 1 without its payload.
pub const HANDSHAKE_1_OVERHEAD: usize = 3568;
/// Length of handshake message 2 with an empty payload.
pub const HANDSHAKE_2_OVERHEAD: usize = 3424;

/// Streams that are active at once on one executor connection.
pub const MAX_STREAMS: usize = 128;
/// Of them, those of one harness key, so that no harness takes every place.
pub const MAX_STREAMS_PER_HARNESS: usize = MAX_STREAMS / 2;
/// Validations that run at once on one executor connection.
pub const MAX_PENDING_VALIDATIONS: usize = 32;
/// Of them, those of one harness key.
pub const MAX_PENDING_VALIDATIONS_PER_HARNESS: usize = MAX_PENDING_VALIDATIONS / 2;
/// Failed handshakes on one executor connection before admission pauses.
pub const MAX_FAILED_HANDSHAKES: u32 = 8;
/// How long admission pauses after that.
pub const HANDSHAKE_COOLDOWN: Duration = Duration::from_secs(10);
/// Longest time that the registry may take to validate a harness key.
pub const VALIDATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two WebSocket pings, and before the first.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Longest time that a pong may take.
pub const PONG_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time for one registry call, body included.
pub const REGISTRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to open a relay connection, TLS and upgrade included.
pub const RELAY_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time from opening a stream to the reply of `initialize`.
pub const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time that a registry holds `connect`, or a relay holds a harness upgrade, while the executor is away.
pub const ABSENT_EXECUTOR_WAIT: Duration = Duration::from_secs(4);
/// Largest body of a registry request.
pub const MAX_REGISTRY_REQUEST: usize = 16 * 1024;
/// Largest body of a registry response that a client reads.
pub const MAX_REGISTRY_RESPONSE: usize = 64 * 1024;
/// Deepest nesting of a registry body.
pub const MAX_REGISTRY_DEPTH: usize = 16;
/// Most JSON values in one JSON-RPC message: objects, arrays and scalars, the root included.
pub const MAX_JSON_VALUES: usize = 262_144;

/// How long a session outlives its last stream on our executor.
pub const SESSION_RETENTION: Duration = Duration::from_secs(80);

/// How long a harness ticket may be used.
pub const HARNESS_TICKET_LIFETIME: Duration = Duration::from_secs(60);
/// How long an authorization may be validated.
pub const AUTHORIZATION_LIFETIME: Duration = Duration::from_secs(60);
/// How long an executor ticket may be used, unless its credential ends sooner.
pub const EXECUTOR_TICKET_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long presence holds without renewal by the relay.
pub const PRESENCE_LEASE: Duration = Duration::from_secs(15);
