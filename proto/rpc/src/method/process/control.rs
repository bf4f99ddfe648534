//! The rest of the extension `processControl`: any signal, and what runs.

use serde::{Deserialize, Serialize};

use super::{Empty, method};

method!(
    /// Lists the processes of the session. Belongs to the extension `processControl`.
    List, "process/list", () => ListResult
);
method!(
    /// `process/signal` with any signal. Belongs to the extension `processControl`.
    SendSignal, "process/signal", SendSignalParams => Empty
);

/// A signal to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendSignalParams {
    /// Which process; its whole group is signalled.
    pub process_id: String,
    /// The name in signal(7), such as `SIGTERM`, or `interrupt` for `SIGINT`. Real-time signals have none.
    pub signal: String,
}

/// What runs in the session, and what ended a short while ago, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListResult {
    /// One entry for each process.
    pub processes: Vec<ProcessInfo>,
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessState {
    /// It is being started.
    Starting,
    /// The program runs.
    Running,
    /// The program has ended, but somebody still holds its output open.
    Exited,
    /// Nothing more comes.
    Closed,
}

impl ProcessState {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Closed => "closed",
        }
    }
}

/// One process of a session. Of one that is being started only the id and the state are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessInfo {
    /// The id that the client chose.
    pub process_id: String,
    /// Where it stands.
    pub state: ProcessState,
    /// The code, once the program has ended; 128 + N when a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Program and arguments, cut after 4 096 bytes.
    #[serde(default)]
    pub argv: Vec<String>,
    /// Whether it has a terminal.
    #[serde(default)]
    pub tty: bool,
    /// The operating system's number of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Milliseconds since its start.
    #[serde(default)]
    pub age_ms: u64,
    /// Its next number: what is read after one less is new.
    #[serde(default)]
    pub next_seq: u64,
    /// Bytes of output that can be read.
    #[serde(default)]
    pub retained_bytes: u64,
    /// Bytes of output that were dropped because they were the oldest.
    #[serde(default)]
    pub dropped_bytes: u64,
}
