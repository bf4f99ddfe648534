//! Processes of a session, and the news they make.
//!
//! Every process has one counter from 1, shared by its output chunks, its exit and its close: each takes one number, and
//! the close takes the last. News may arrive in another order; see [`crate::event`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::control::{List, ListResult, ProcessInfo, ProcessState, SendSignal, SendSignalParams};
pub use self::frames::{OutputFrame, write_output};
use super::environment::Shell;
use super::network::ProxyLaunch;
use super::{Empty, method, notification};
use crate::base64::Base64;
use crate::path_uri::PathUri;

mod control;
mod frames;

method!(
    /// Starts a process under an id that the client chooses.
    Start, "process/start", StartParams => StartResult
);
method!(
    /// Reads retained output, and waits for more when asked to. Reading consumes nothing.
    Read, "process/read", ReadParams => ReadResult
);
method!(
    /// Queues bytes for stdin. Safe to repeat with the same `writeId`.
    Write, "process/write", WriteParams => WriteResult
);
method!(
    /// Signals the process group.
    SignalProcess, "process/signal", SignalParams => Empty
);
method!(
    /// Kills the process group.
    Terminate, "process/terminate", ProcessParams => TerminateResult
);
method!(
    /// Ends stdin once everything written before has been passed on. Belongs to the extension `processControl`.
    CloseStdin, "process/closeStdin", ProcessParams => Empty
);
method!(
    /// Gives a terminal another size, which its program is told. Belongs to the extension `processControl`.
    Resize, "process/resize", ResizeParams => Empty
);
notification!(
    /// Bytes came out of a process.
    Output, "process/output", OutputParams
);
notification!(
    /// The process itself ended. Output may still follow.
    Exited, "process/exited", ExitedParams
);
notification!(
    /// The process ended and nobody holds its output open any more.
    Closed, "process/closed", ClosedParams
);

notification!(
    /// The client has given everything up to a number to whoever reads the process. Belongs to the extension
    /// `outputWindow`.
    Consumed, "process/consumed", ConsumedParams
);

/// A process to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartParams {
    /// Unique in the session, until 30 s after the process closed.
    pub process_id: String,
    /// Program and arguments; not empty. No shell looks at them.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathUri,
    /// What the environment starts from. Absent: from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_policy: Option<EnvPolicy>,
    /// Variables laid over it.
    pub env: BTreeMap<String, String>,
    /// Whether the process gets a terminal, 24 rows of 80 columns at first.
    pub tty: bool,
    /// Whether stdin is a pipe; otherwise it is empty. A terminal's stdin is always open.
    #[serde(default)]
    pub pipe_stdin: bool,
    /// Overrides `argv[0]` as the process sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arg0: Option<String>,
    /// The sandbox, in the shape of stock clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
    /// Whether a sandboxed process may reach the network only through the managed proxy.
    #[serde(default)]
    pub enforce_managed_network: bool,
    /// Details of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_network: Option<serde_json::Value>,
    /// A proxy to start beside the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy: Option<ProxyLaunch>,
    /// A shell state to start from. Needs the capability `shellSnapshotV2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_snapshot: Option<ShellSnapshot>,
    /// Who asked, for telemetry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<StartMetadata>,
}

/// Lets a command `SHELL -lc TEXT` begin with what the shell's start-up files left when they ran for an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellSnapshot {
    /// Commands of one scope share their snapshots: 1 to 256 bytes.
    pub scope_id: String,
    /// The shell: `bash`, `zsh` or `sh`.
    pub shell: Shell,
}

/// Who asked for a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartMetadata {
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<Uuid>,
    /// The call of a tool in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// How the environment of a process is made from the executor's own. All members are required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvPolicy {
    /// What is taken at first.
    pub inherit: Inherit,
    /// Whether names with KEY, SECRET or TOKEN in them stay.
    pub ignore_default_excludes: bool,
    /// Globs (`*`, `?`, any case) of names to drop.
    pub exclude: Vec<String>,
    /// Variables to set after that.
    pub set: BTreeMap<String, String>,
    /// When not empty, globs of the only names to keep.
    pub include_only: Vec<String>,
}

/// What a process takes from the executor's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Inherit {
    /// Everything.
    All,
    /// `PATH`, `HOME`, `SHELL`, `USER` and their like.
    Core,
    /// Nothing.
    None,
}

/// A process was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartResult {
    /// The id that the client chose.
    pub process_id: String,
    /// `none`, `linuxSeccomp`, …; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_type: Option<String>,
}

/// Names a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessParams {
    /// Which process.
    pub process_id: String,
}

/// The new size of a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResizeParams {
    /// Which process.
    pub process_id: String,
    /// Rows of characters.
    pub rows: u16,
    /// Characters of a row.
    pub columns: u16,
}

/// Where bytes came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal, which mixes both.
    Pty,
}

impl OutputStream {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Pty => "pty",
        }
    }
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// Which process.
    pub process_id: String,
    /// Only chunks after this number; absent: 0, all retained ones.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// Stop before the chunk that would go beyond this many bytes, but give at least one.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// Longest wait for something new; absent: 0.
    #[serde(default)]
    pub wait_ms: Option<u64>,
    /// Instead of `afterSeq`, what begins about so many bytes before the end of the output. Belongs to the extension
    /// `detachedSessions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_bytes: Option<u64>,
}

/// A page of retained output and the state of the process at this moment, which may be ahead of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResult {
    /// Output in order; dropped chunks leave a hole in the numbers.
    pub chunks: Vec<Chunk>,
    /// Where to go on: the process's next number, or the one after the page when `maxBytes` cut it.
    pub next_seq: u64,
    /// Whether the process itself ended.
    pub exited: bool,
    /// How it ended.
    pub exit_code: Option<i32>,
    /// Whether nothing more can come.
    pub closed: bool,
    /// Always null from executors.
    #[serde(default)]
    pub failure: Option<String>,
    /// Whether a sandbox was likely what stopped it.
    #[serde(default)]
    pub sandbox_denied: Option<bool>,
    /// The number of the exit. Told of kept sessions only, as `dropped` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_seq: Option<u64>,
    /// Output that can be read no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
}

/// Output that can be read no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The last number before the first chunk that can be read.
    pub through: u64,
    /// Bytes that were dropped since the start of the process.
    pub bytes: u64,
}

/// One piece of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its number.
    pub seq: u64,
    /// Where it came from.
    pub stream: OutputStream,
    /// The bytes.
    pub chunk: Base64,
}

/// Bytes for stdin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// Which process.
    pub process_id: String,
    /// The bytes.
    pub chunk: Base64,
    /// Names this write; not empty. The same name again writes nothing.
    pub write_id: String,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteResult {
    /// What became of it.
    pub status: WriteStatus,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// Queued, now or by an earlier call of the same name.
    Accepted,
    /// No such process.
    UnknownProcess,
    /// The process has no stdin, or no more.
    StdinClosed,
    /// The process is still being started.
    Starting,
}

/// A signal to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// Which process.
    pub process_id: String,
    /// Which signal.
    pub signal: Signal,
}

/// The signals of the stock contract; [`SendSignal`] knows more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signal {
    /// SIGINT.
    Interrupt,
}

/// What `process/terminate` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminateResult {
    /// Whether the process was running until now.
    pub running: bool,
}

/// Bytes came out of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputParams {
    /// Which process.
    pub process_id: String,
    /// The number of this chunk.
    pub seq: u64,
    /// Where it came from.
    pub stream: OutputStream,
    /// The bytes, raw as they were read: cut anywhere.
    pub chunk: Base64,
}

/// The process itself ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitedParams {
    /// Which process.
    pub process_id: String,
    /// The number of this event.
    pub seq: u64,
    /// The code; 128 + N when a signal ended it.
    pub exit_code: i32,
    /// Whether a sandbox was likely what stopped it.
    #[serde(default)]
    pub sandbox_denied: Option<bool>,
}

/// Nothing more comes out of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedParams {
    /// Which process.
    pub process_id: String,
    /// The last number.
    pub seq: u64,
}

/// How far a client's reader has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumedParams {
    /// Which process.
    pub process_id: String,
    /// The last number that its reader has taken; never goes back.
    pub seq: u64,
}
