//! Files of the executor's machine.
//!
//! Open files belong to the connection and end with it. Every call takes a sandbox in the shape of stock clients.

use serde::{Deserialize, Serialize};

use super::{Empty, method, notification};
use crate::base64::Base64;
use crate::base64::deferred::{self, Deferred};
use crate::path_uri::PathUri;

/// Longest block of `fs/readBlock` and `fs/writeBlock`.
pub const MAX_BLOCK: u64 = 1024 * 1024;
/// Largest file that `fs/readFile` gives.
pub const MAX_READ_FILE: u64 = 512 * 1024 * 1024;
/// Most files open at once on one connection.
pub const MAX_OPEN_FILES: usize = 128;
/// Longest handle id.
pub const MAX_HANDLE_ID: usize = 32;
/// Most entries of `fs/readDirectory`.
pub const MAX_DIRECTORY_ENTRIES: usize = 50_000;

method!(
    /// Reads a whole regular file.
    ReadFile, "fs/readFile", PathParams => ReadFileResult
);
method!(
    /// Opens a regular file for `fs/readBlock`, or one to be replaced for `fs/writeBlock`.
    Open, "fs/open", OpenParams => OpenResult
);
method!(
    /// Reads from an open file.
    ReadBlock, "fs/readBlock", ReadBlockParams => ReadBlockResult
);
method!(
    /// Writes to a file that is open for replacing. Needs the capability `fileWriteStreaming`.
    WriteBlock, "fs/writeBlock", WriteBlockParams => Empty
);
method!(
    /// Closes an open file; closing an unknown one is no error.
    Close, "fs/close", CloseParams => Empty
);
method!(
    /// Replaces or creates a file. Its parent must exist.
    WriteFile, "fs/writeFile", WriteFileParams => Empty
);
method!(
    /// Creates a directory.
    CreateDirectory, "fs/createDirectory", CreateDirectoryParams => Empty
);
method!(
    /// Describes what a path names.
    GetMetadata, "fs/getMetadata", PathParams => Metadata
);
method!(
    /// Resolves links; the path must exist.
    Canonicalize, "fs/canonicalize", PathParams => CanonicalizeResult
);
method!(
    /// Lists a directory, in no order.
    ReadDirectory, "fs/readDirectory", PathParams => ReadDirectoryResult
);
method!(
    /// Lists a tree, breadth first, entries of a directory sorted by name.
    Walk, "fs/walk", WalkParams => WalkResult
);
method!(
    /// Removes a file, a link itself, or a directory.
    Remove, "fs/remove", RemoveParams => Empty
);
method!(
    /// Copies a file, a link itself, or a tree.
    Copy, "fs/copy", CopyParams => Empty
);
method!(
    /// Asks to be told once when one of some missing paths may have appeared. Needs the capability `fsWatchMissing`.
    WatchMissing, "fs/watchMissing", WatchMissingParams => WatchMissingResult
);
notification!(
    /// Something changed at the watched paths.
    MissingChanged, "fs/missingChanged", MissingChangedParams
);

/// Names a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathParams {
    /// The path.
    pub path: PathUri,
    /// Absent: yes. No: a link in any part of the path is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

impl PathParams {
    /// A path, links followed, no sandbox.
    pub fn new(path: PathUri) -> Self {
        Self {
            path,
            follow_symlinks: None,
            sandbox: None,
        }
    }
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileResult {
    /// Its bytes.
    pub data_base64: Base64,
}

/// A file to open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenParams {
    /// Chosen by the client, at most [`MAX_HANDLE_ID`] bytes.
    pub handle_id: String,
    /// The file.
    pub path: PathUri,
    /// What for.
    #[serde(default, skip_serializing_if = "OpenMode::is_read")]
    pub mode: OpenMode,
    /// Absent: yes. No: a link in any part of the path is refused. Stock executors ignore it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// What a file is opened for. On the wire a text, or an object with the text as its only key and null as its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OpenMode {
    /// `fs/readBlock`.
    #[default]
    Read,
    /// `fs/writeBlock`. The file need not exist, its directory must.
    Replace,
}

impl OpenMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    fn is_read(&self) -> bool {
        *self == Self::Read
    }
}

/// A file was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenResult {
    /// The id that the client chose.
    pub handle_id: String,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBlockParams {
    /// Which open file.
    pub handle_id: String,
    /// Where the part begins.
    pub offset: u64,
    /// How long it is: 1 to [`MAX_BLOCK`].
    pub len: u64,
}

/// The bytes of that part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBlockResult {
    /// The bytes, fewer than asked for at the end of the file.
    pub chunk: Base64,
    /// Whether fewer were there.
    pub eof: bool,
}

/// Bytes for a part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteBlockParams {
    /// Which open file.
    pub handle_id: String,
    /// Where the part begins. Parts may come in any order; what none covers reads as zeros.
    pub offset: u64,
    /// The bytes: 1 to [`MAX_BLOCK`].
    pub chunk: Base64,
}

/// An open file to close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseParams {
    /// Which open file.
    pub handle_id: String,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFileParams {
    /// The file.
    pub path: PathUri,
    /// Its new bytes. Text that is no base64 is an invalid request of this method, not invalid parameters.
    #[serde(with = "deferred")]
    pub data_base64: Deferred,
    /// Absent: yes. No: a link in any part of the path is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// A directory to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateDirectoryParams {
    /// The directory.
    pub path: PathUri,
    /// Absent: yes. Also creates parents, and accepts an existing directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Absent: yes. No: a link in any part of the path is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// What a path names. Links are followed for everything but `is_symlink`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// A directory.
    pub is_directory: bool,
    /// A regular file.
    pub is_file: bool,
    /// The path itself is a link.
    pub is_symlink: bool,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since 1970; 0: unknown.
    pub created_at_ms: i64,
    /// Milliseconds since 1970; 0: unknown.
    pub modified_at_ms: i64,
}

/// A path without links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanonicalizeResult {
    /// The path.
    pub path: PathUri,
}

/// The content of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadDirectoryResult {
    /// Its entries, dangling links left out.
    pub entries: Vec<DirectoryEntry>,
}

/// One entry of a directory, links followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryEntry {
    /// The name; what is not UTF-8 is replaced.
    pub file_name: String,
    /// A directory.
    pub is_directory: bool,
    /// A regular file.
    pub is_file: bool,
}

/// A tree to list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkParams {
    /// Its root.
    pub path: PathUri,
    /// How far to go.
    pub options: WalkOptions,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkOptions {
    /// Directories at this depth are listed but not entered; the root is at 0. At most [`Self::MAX`]'s.
    pub max_depth: u64,
    /// Most directories entered, from 1 to [`Self::MAX`]'s.
    pub max_directories: u64,
    /// Most entries looked at, from 1 to [`Self::MAX`]'s.
    pub max_entries: u64,
    /// Whether links to directories are entered.
    pub follow_directory_symlinks: bool,
    /// Whether directories whose name begins with a dot are listed but not entered.
    #[serde(default)]
    pub prune_hidden_directories: bool,
}

impl WalkOptions {
    /// The widest walk.
    pub const MAX: Self = Self {
        max_depth: 64,
        max_directories: 10_000,
        max_entries: 50_000,
        follow_directory_symlinks: false,
        prune_hidden_directories: false,
    };
}

/// A listed tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkResult {
    /// What was found.
    pub entries: Vec<WalkEntry>,
    /// What could not be looked at.
    pub errors: Vec<WalkError>,
    /// Whether a limit ended the walk.
    pub truncated: bool,
}

/// One path of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkEntry {
    /// The path.
    pub path: PathUri,
    /// What it is.
    pub kind: EntryKind,
}

/// What a path of a tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
}

/// A path of a tree that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkError {
    /// The path.
    pub path: PathUri,
    /// Why.
    pub message: String,
}

/// What to remove.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoveParams {
    /// The path.
    pub path: PathUri,
    /// Absent: yes. Also removes a directory that is not empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Absent: yes. A missing path is no error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Absent: yes. No: a link in any part of the path is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// What to copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyParams {
    /// From.
    pub source_path: PathUri,
    /// To.
    pub destination_path: PathUri,
    /// A directory needs it.
    pub recursive: bool,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// What to wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchMissingParams {
    /// Chosen by the client, larger than every one before on the connection. Each takes the place of the one before.
    pub watch_id: u64,
    /// Paths that are expected to be missing, at most 64.
    pub missing: Vec<PathUri>,
    /// A path that is expected to exist, whose changes count too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<PathUri>,
}

/// Whether news will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchMissingResult {
    /// No: the list was empty or too long, a path exists already, or cannot be watched. Whoever waits must look again now.
    pub watching: bool,
}

/// Which watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingChangedParams {
    /// The client's number.
    pub watch_id: u64,
}
