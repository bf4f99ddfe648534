use rendezvous_wire::limits::{MAX_MESSAGE, MAX_WS_MESSAGE};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::{BUFFER, WRITE_LIMIT};

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Frames of a relay connection: binary, 256 KiB at most; a ping must be answered.
    Relay,
    /// One JSON-RPC document a message, 64 MiB at most, in one frame or many. Texts are sent, in frames of 8 MiB at most, binary messages are taken
    /// too. Pings are sent, and nothing depends on the answer: a client may be busy for as long as it likes.
    Direct,
}

impl Dialect {
    fn max_message(self) -> usize {
        match self {
            Self::Relay => MAX_WS_MESSAGE,
            Self::Direct => MAX_MESSAGE,
        }
    }

    /// Limits and buffers.
    pub(crate) fn config(self) -> WebSocketConfig {
        let max_message = self.max_message();
        WebSocketConfig::default()
            .max_message_size(Some(max_message))
            .max_frame_size(Some(max_message))
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            // One message beyond the limit, and headers and control frames.
            .max_write_buffer_size(WRITE_LIMIT + max_message + MAX_WS_MESSAGE)
    }
}
