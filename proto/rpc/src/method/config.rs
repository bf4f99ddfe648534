//! Configuration of agents that lies on the executor's machine.

use serde::{Deserialize, Serialize};

use super::method;
use crate::path_uri::PathUri;

method!(
    /// Reads chosen keys of the machine's configuration files. Needs the capability `environmentConfigRead`.
    ReadConfig, "environmentConfig/read", ReadConfigParams => ReadConfigResult
);

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadConfigParams {
    /// Where the agent works.
    pub cwd: PathUri,
    /// Keys of the configuration, each with the tables around it.
    pub config_paths: Vec<Vec<String>>,
    /// Keys of the requirements, each with the tables around it. One path of either kind is needed.
    pub requirements_paths: Vec<Vec<String>>,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadConfigResult {
    /// Home directory of the executor's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<PathUri>,
    /// Where the user's configuration lies.
    pub codex_home_dir: PathUri,
    /// The machine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The configuration.
    pub config: ConfigLayers,
    /// The requirements.
    pub requirements: ConfigLayers,
}

/// Layers, each above the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigLayers {
    /// Those in which one of the keys stands.
    pub layers: Vec<ConfigLayer>,
    /// Where layers that are managed elsewhere go in.
    pub cloud_insertion_index: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigLayer {
    /// What it is, for people.
    pub source: String,
    /// What relative paths in it are relative to.
    pub base_dir: PathUri,
    /// The chosen keys, as TOML.
    pub toml: String,
}
