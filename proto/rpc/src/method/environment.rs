//! What an executor tells about its machine.

use serde::{Deserialize, Serialize};

use super::method;
use crate::path_uri::PathUri;

method!(
    /// Describes the machine.
    Info, "environment/info", () => EnvironmentInfo
);
method!(
    /// Answers as long as the executor works.
    Status, "environment/status", () => StatusResult
);

/// The machine of an executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentInfo {
    /// The shell for command lines.
    pub shell: Shell,
    /// The executor's working directory.
    #[serde(default)]
    pub cwd: Option<PathUri>,
    /// What the executor can do; a client must not use what is not named here.
    #[serde(default, deserialize_with = "super::null_default")]
    pub capabilities: Capabilities,
    /// Version of the executor program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_version: Option<String>,
    /// Home directory of the executor's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<PathUri>,
    /// `linux`, `macos` or `windows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_os: Option<String>,
    /// Directories that the executor put in front of its own `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepend_path_dirs: Option<Vec<PathUri>>,
    /// Directories for temporary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_directories: Option<Vec<PathUri>>,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<PathUri>,
}

/// A shell on the executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    /// `zsh`, `bash`, `sh`, `powershell` or `cmd`.
    pub name: String,
    /// Native text, not always absolute.
    pub path: String,
}

/// What an executor can do beyond the oldest contract. An absent name means that it cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// `process/start` takes `networkProxy`.
    pub network_proxy_launch: bool,
    /// Capability discovery takes a sandbox.
    #[serde(skip_serializing_if = "is_false")]
    pub capability_discovery_sandbox: bool,
    /// `environmentConfig/read` exists.
    #[serde(skip_serializing_if = "is_false")]
    pub environment_config_read: bool,
    /// `fs/open` works under a sandbox.
    #[serde(skip_serializing_if = "is_false")]
    pub sandboxed_file_streaming: bool,
    /// `fs/open` takes `mode` and `fs/writeBlock` exists.
    #[serde(skip_serializing_if = "is_false")]
    pub file_write_streaming: bool,
    /// `fs/watchMissing` exists.
    #[serde(skip_serializing_if = "is_false")]
    pub fs_watch_missing: bool,
    /// `process/start` takes `shellSnapshot`.
    #[serde(skip_serializing_if = "is_false")]
    pub shell_snapshot_v2: bool,
    /// `http/request` headers take `valueEnvVar`.
    #[serde(skip_serializing_if = "is_false")]
    pub http_header_env_vars: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The answer of `environment/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusResult {
    /// How the executor is.
    pub status: Readiness,
}

/// How an executor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Readiness {
    /// It takes calls.
    Ready,
}
