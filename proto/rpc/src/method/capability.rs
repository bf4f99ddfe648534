//! What agents can load from directories of the executor's machine: plugins and skills.

use serde::{Deserialize, Serialize};

use super::method;
use crate::path_uri::PathUri;

/// Most roots of one call.
pub const MAX_ROOTS: usize = 128;

method!(
    /// Looks for plugins and skills below some directories. What goes wrong with one is told in its result.
    Discover, "capabilityRoots/discoverV1", DiscoverParams => DiscoverResult
);

/// Where to look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscoverParams {
    /// At most [`MAX_ROOTS`].
    pub roots: Vec<CapabilityRoot>,
}

/// A directory to look in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapabilityRoot {
    /// Chosen by the client, any text.
    pub id: String,
    /// The directory.
    pub path: PathUri,
    /// The sandbox. Needs the capability `capabilityDiscoverySandbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<serde_json::Value>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoverResult {
    /// One for each root, in the order of the call.
    pub roots: Vec<DiscoveredRoot>,
}

/// What was found below one directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredRoot {
    /// The client's name for it.
    pub id: String,
    /// The directory.
    pub path: PathUri,
    /// The plugin that the directory is.
    #[serde(default)]
    pub plugin: Option<Plugin>,
    /// Skills anywhere below it.
    pub skills: Vec<Skill>,
    /// Manifests of plugins anywhere below it.
    pub namespace_manifests: Vec<TextFile>,
    /// What was passed over, for people.
    pub warnings: Vec<String>,
    /// Why nothing could be looked for, for people.
    #[serde(default)]
    pub error: Option<String>,
}

/// A plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// Its manifest.
    pub manifest: TextFile,
    /// Its MCP servers, if a file describes them.
    #[serde(default)]
    pub mcp_config: Option<TextFile>,
    /// Its apps, if a file describes them.
    #[serde(default)]
    pub apps_config: Option<TextFile>,
}

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// Its `SKILL.md`.
    pub instructions: TextFile,
    /// Its `agents/openai.yaml`.
    #[serde(default)]
    pub metadata: Option<TextFile>,
}

/// A file with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFile {
    /// Where it stands.
    pub path: PathUri,
    /// What stands in it.
    pub contents: String,
}
