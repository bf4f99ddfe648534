//! Plugins and skills below directories of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use rendezvous_host::files::{Fault, FileError, Files, WalkOptions};
use rendezvous_rpc::envelope::Request;
use rendezvous_rpc::method::capability::{
    CapabilityRoot, Discover, DiscoverResult, DiscoveredRoot, MAX_ROOTS, Plugin, Skill, TextFile,
};
use rendezvous_rpc::{PathUri, RpcError};
use serde_json::Value;

use super::{Family, Reply, fs, params, reply};
use crate::server::{Connection, Sink};

/// Largest file that counts.
const MAX_FILE: u64 = 1024 * 1024;
/// Bytes of files of one root.
const MAX_ROOT: usize = 16 * 1024 * 1024;
/// Bytes of files of one call; roots beyond fail.
const MAX_CALL: usize = 32 * 1024 * 1024;
/// How far to look.
const WALK: WalkOptions = WalkOptions {
    max_depth: 6,
    max_directories: 2_000,
    max_entries: 20_000,
    follow_directory_symlinks: true,
    prune_hidden_directories: false,
};

/// Manifests of plugins; in one directory the first counts.
const MANIFESTS: [&str; 3] = [
    ".codex-plugin/plugin.json",
    ".claude-plugin/plugin.json",
    ".cursor-plugin/plugin.json",
];
const SKILL: &str = "SKILL.md";
const SKILL_METADATA: &str = "agents/openai.yaml";

pub(super) async fn discover<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Discover>(request)?;
    connection.require(Family::CapabilityDiscovery)?;
    if params.roots.len() > MAX_ROOTS {
        return Err(RpcError::invalid_request(format!(
            "capability root discovery accepts at most {MAX_ROOTS} roots"
        )));
    }
    let mut left = MAX_CALL;
    let mut roots = Vec::with_capacity(params.roots.len());
    for root in params.roots {
        roots.push(look(connection, root, &mut left).await);
    }
    reply::<Discover>(request, &DiscoverResult { roots })
}

/// Looks below one root, and takes what it finds from `left`.
async fn look<S: Sink>(connection: &Connection<S>, root: CapabilityRoot, left: &mut usize) -> DiscoveredRoot {
    let mut found = DiscoveredRoot {
        id: root.id,
        path: root.path,
        plugin: None,
        skills: Vec::new(),
        namespace_manifests: Vec::new(),
        warnings: Vec::new(),
        error: None,
    };
    let (files, path) = match enter(connection, &found.path, root.sandbox.as_ref()).await {
        Ok(entered) => entered,
        Err(error) => {
            found.error = Some(error);
            return found;
        }
    };
    let mut reader = Reader {
        files: &files,
        warnings: Vec::new(),
        left: MAX_ROOT.min(*left),
        repeated: 0,
        is_short: *left < MAX_ROOT,
    };
    let before = reader.left;
    match reader.read_all(&path).await {
        Ok(bundle) => {
            found.plugin = bundle.plugin;
            found.skills = bundle.skills;
            found.namespace_manifests = bundle.manifests;
        }
        Err(error) => {
            found.error = Some(format!(
                "failed to scan capability root {}: {error}",
                found.path.as_str()
            ))
        }
    }
    *left = left.saturating_sub(before - reader.left + reader.repeated);
    found.warnings = reader.warnings;
    found
}

/// The native path of a root, which must be a directory, and where its files are read.
async fn enter<S: Sink>(
    connection: &Connection<S>,
    uri: &PathUri,
    sandbox: Option<&Value>,
) -> Result<(Files, PathBuf), String> {
    let failed = |error: &dyn std::fmt::Display| format!("failed to inspect capability root {}: {error}", uri.as_str());
    let path = uri.to_path().map_err(|error| failed(&error))?;
    let files = fs::reading(connection, sandbox, &path).await;
    let files = files.map_err(|error| failed(&error.message))?;
    let metadata = files.metadata(&*path).await.map_err(|error| failed(&error))?;
    if !metadata.is_directory {
        return Err(format!("capability root {} is not a directory", uri.as_str()));
    }
    Ok((files, path))
}

struct Reader<'a> {
    files: &'a Files,
    warnings: Vec<String>,
    /// Bytes that this root may still have.
    left: usize,
    /// Bytes that it has twice in the reply.
    repeated: usize,
    /// Whether other roots of the call took of what this one could have had.
    is_short: bool,
}

/// What is found below a root.
struct Bundle {
    plugin: Option<Plugin>,
    manifests: Vec<TextFile>,
    skills: Vec<Skill>,
}

impl Reader<'_> {
    async fn read_all(&mut self, root: &Path) -> Result<Bundle, FileError> {
        let walk = self.files.walk(root.to_owned(), WALK).await?;
        for problem in &walk.problems {
            self.warn(format!(
                "failed to inspect {}: {}",
                shown(&problem.path),
                problem.message
            ));
        }
        if walk.is_truncated {
            self.warn(format!("capability root {} was not scanned to its end", shown(root)));
        }
        let files: BTreeSet<PathBuf> = walk
            .entries
            .into_iter()
            .filter(|entry| !entry.is_directory)
            .map(|entry| entry.path)
            .collect();
        let plugin = self.plugin(root).await;
        let manifests = self.manifests(root, plugin.as_ref(), &files).await;
        let mut skills = Vec::new();
        for path in sorted(&files) {
            if path.file_name() == Some(OsStr::new(SKILL)) {
                skills.extend(self.skill(path, &files).await);
            }
        }
        Ok(Bundle {
            plugin,
            manifests,
            skills,
        })
    }

    /// The plugin that the root itself is.
    async fn plugin(&mut self, root: &Path) -> Option<Plugin> {
        let manifest = self.manifest(root).await?;
        let members: Value = serde_json::from_str(&manifest.contents).unwrap_or(Value::Null);
        let mcp = self.named(&manifest, &members, "mcpServers", ".mcp.json");
        let apps = self.named(&manifest, &members, "apps", ".app.json");
        Some(Plugin {
            mcp_config: self.beside(root, mcp).await,
            apps_config: self.beside(root, apps).await,
            manifest,
        })
    }

    /// The manifests that name skills of the root: its own or else that of the nearest plugin above it, and those of the plugins
    /// in it.
    async fn manifests(&mut self, root: &Path, plugin: Option<&Plugin>, files: &BTreeSet<PathBuf>) -> Vec<TextFile> {
        let mut found = Vec::new();
        let mut outermost = None;
        match plugin {
            Some(plugin) => {
                // It is given twice, and read once.
                self.repeated += plugin.manifest.contents.len();
                found.push(plugin.manifest.clone());
                outermost = Some(root);
            }
            None => {
                for directory in root.ancestors().skip(1) {
                    if let Some(manifest) = self.manifest(directory).await {
                        found.push(manifest);
                        outermost = Some(directory);
                        break;
                    }
                }
            }
        }
        let mut inner: BTreeMap<&OsStr, (usize, &Path)> = BTreeMap::new();
        for path in files {
            for (priority, manifest) in MANIFESTS.iter().enumerate() {
                let directory = path.ends_with(manifest).then(|| path.ancestors().nth(2)).flatten();
                if let Some(directory) = directory.filter(|directory| outermost != Some(*directory)) {
                    let best = inner.entry(directory.as_os_str()).or_insert((priority, path));
                    *best = (*best).min((priority, path));
                }
            }
        }
        for (_, path) in inner.into_values() {
            found.extend(self.read(path).await);
        }
        found
    }

    /// The first manifest in a directory that can be read.
    async fn manifest(&mut self, directory: &Path) -> Option<TextFile> {
        for name in MANIFESTS {
            let path = directory.join(name);
            match self.files.metadata(&*path).await {
                Ok(metadata) if metadata.is_file => {}
                Ok(_) => continue,
                Err(error) if error.fault() == Fault::NotFound => continue,
                Err(error) => {
                    self.warn(format!("failed to inspect capability file {}: {error}", shown(&path)));
                    continue;
                }
            }
            if let Some(manifest) = self.read(&path).await {
                return Some(manifest);
            }
        }
        None
    }

    /// The file that a manifest names; the default if it names none, nothing if it holds the content itself.
    fn named<'a>(
        &mut self,
        manifest: &TextFile,
        members: &'a Value,
        member: &str,
        default: &'a str,
    ) -> Option<&'a Path> {
        let named = match members.get(member) {
            None => return Some(Path::new(default)),
            Some(Value::String(named)) => named,
            Some(_inline) => return None,
        };
        let refused = match named.strip_prefix("./").map(Path::new) {
            None => "path must start with `./`",
            Some(path) if path.components().all(|part| matches!(part, Component::Normal(_))) => return Some(path),
            Some(_) => "path must stay inside the plugin",
        };
        self.warn(format!("ignoring {member} in {}: {refused}", manifest.path.as_str()));
        None
    }

    async fn beside(&mut self, root: &Path, name: Option<&Path>) -> Option<TextFile> {
        let path = root.join(name?);
        let exists = self.files.metadata(&*path).await.is_ok_and(|metadata| metadata.is_file);
        if exists { self.read(&path).await } else { None }
    }

    async fn skill(&mut self, path: &Path, files: &BTreeSet<PathBuf>) -> Option<Skill> {
        let instructions = self.read(path).await?;
        let metadata = path.parent()?.join(SKILL_METADATA);
        let metadata = if files.contains(&metadata) {
            self.read(&metadata).await
        } else {
            None
        };
        Some(Skill { instructions, metadata })
    }

    /// The content of a file, unless it is too much or no text.
    async fn read(&mut self, path: &Path) -> Option<TextFile> {
        let shown = shown(path);
        let bytes = match self.files.read(path, MAX_FILE).await {
            Ok(bytes) => bytes,
            Err(FileError::Refused(_)) => {
                self.warn(format!("capability file {shown} exceeds the {MAX_FILE}-byte limit"));
                return None;
            }
            Err(error) => {
                self.warn(format!("failed to read capability file {shown}: {error}"));
                return None;
            }
        };
        if bytes.len() > self.left {
            self.warn(if self.is_short {
                format!("capability bundles of one call exceed the {MAX_CALL}-byte limit")
            } else {
                format!("capability root bundle exceeds the {MAX_ROOT}-byte limit")
            });
            return None;
        }
        let contents = match String::from_utf8(bytes) {
            Ok(contents) => contents,
            Err(error) => {
                self.warn(format!("capability file {shown} is not UTF-8: {}", error.utf8_error()));
                return None;
            }
        };
        self.left -= contents.len();
        let path = PathUri::from_path(path).ok()?;
        Some(TextFile { path, contents })
    }

    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }
}

/// Paths in the order of their bytes; a set of paths has them part by part.
fn sorted(files: &BTreeSet<PathBuf>) -> Vec<&Path> {
    let mut paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    paths.sort_unstable_by_key(|path| path.as_os_str());
    paths
}

fn shown(path: &Path) -> String {
    PathUri::from_path(path).map_or_else(|_| path.display().to_string(), |uri| uri.as_str().to_owned())
}
