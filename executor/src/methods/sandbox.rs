//! What a request's sandbox asks for, in this executor's terms.

use std::path::PathBuf;

use rendezvous_host::sandbox::{Access, Entry, FileAccess, Intent, Network, Place, Policy, Profile, SandboxError};
use rendezvous_rpc::{PathUri, RpcError};
use serde::Deserialize;
use serde_json::{Value, json};

/// The policy for a process; nothing if it names no sandbox. `cwd` is the process's own folder, `temporary` its folder
/// for temporary files.
pub(super) fn for_process(
    sandbox: Option<&Value>,
    cwd: &std::path::Path,
    temporary: Option<PathBuf>,
) -> Result<Option<Policy>, RpcError> {
    let Some(sandbox) = sandbox else { return Ok(None) };
    let mut intent = intent(sandbox, temporary).map_err(|Refusal(text)| not_prepared(text))?;
    intent.cwd.get_or_insert_with(|| cwd.to_owned());
    Policy::resolve(&intent).map(Some).map_err(|error| not_started(&error))
}

/// The policy for a call on files; nothing if it needs no sandbox.
pub(super) fn for_files(sandbox: Option<&Value>) -> Result<Option<Policy>, RpcError> {
    let Some(sandbox) = sandbox else { return Ok(None) };
    let intent = intent(sandbox, None).map_err(|Refusal(text)| RpcError::invalid_params(text))?;
    if intent.cwd.is_none() && is_relative(&intent.profile) {
        return Err(RpcError::invalid_params(SandboxError::NoCwd.to_string()));
    }
    let policy = Policy::resolve(&intent).map_err(|error| RpcError::invalid_request(error.to_string()))?;
    Ok((!policy.writes_everything()).then(|| policy.offline().with_minimal()))
}

/// Why a process does not start in its sandbox.
pub(super) fn not_started(error: &SandboxError) -> RpcError {
    match error {
        SandboxError::Unenforceable(_) => RpcError::invalid_params(error.to_string()),
        _ => not_prepared(error.to_string()),
    }
}

/// Why a call on files is not done in its sandbox.
pub(super) fn not_entered(error: &SandboxError) -> RpcError {
    match error {
        SandboxError::Prepare(text) => RpcError::internal(format!("failed to prepare file system sandbox: {text}")),
        _ => RpcError::invalid_request(error.to_string()),
    }
}

/// Newer clients look for the kind.
fn not_prepared(text: impl std::fmt::Display) -> RpcError {
    let mut error = RpcError::invalid_params(format!("failed to prepare process sandbox: {text}"));
    error.data = Some(json!({"kind": "sandboxPreparation"}));
    error
}

fn is_relative(profile: &Profile) -> bool {
    let Profile::Managed {
        files: FileAccess::Restricted { entries, .. },
        ..
    } = profile
    else {
        return false;
    };
    entries.iter().any(|entry| match &entry.place {
        Place::ProjectRoots(_) => true,
        Place::Pattern(pattern) => !pattern.starts_with('/'),
        _ => false,
    })
}

struct Refusal(String);

/// Reads both shapes: the older one, with the folder and the roots beside the permissions, and the newer one, with them in
/// an object of their own.
fn intent(sandbox: &Value, temporary: Option<PathBuf>) -> Result<Intent, Refusal> {
    let wire = wire::Context::deserialize(sandbox).map_err(|error| Refusal(error.to_string()))?;
    let (cwd, roots) = match wire.policy_context {
        Some(context) => (context.cwd.or(wire.cwd), context.workspace_roots),
        None => (wire.cwd, wire.workspace_roots),
    };
    let cwd = cwd.map(|cwd| native(&cwd, "policy cwd")).transpose()?;
    let roots = roots
        .iter()
        .map(|root| native(root, "workspace root"))
        .collect::<Result<_, _>>()?;
    let temporary = temporary
        .or_else(|| std::env::var_os("TMPDIR").map(PathBuf::from))
        .filter(|folder| folder.is_absolute());
    Ok(Intent {
        profile: profile(wire.permissions)?,
        cwd,
        roots,
        temporary: temporary.into_iter().collect(),
    })
}

fn native(uri: &PathUri, what: &str) -> Result<PathBuf, Refusal> {
    uri.to_path()
        .map_err(|error| Refusal(format!("invalid sandbox {what}: {error}")))
}

fn profile(profile: wire::Profile) -> Result<Profile, Refusal> {
    Ok(match profile {
        wire::Profile::Disabled {} => Profile::Disabled,
        wire::Profile::External { network } => Profile::External {
            network: network.into(),
        },
        wire::Profile::Managed { file_system, network } => Profile::Managed {
            files: match file_system {
                wire::FileSystem::Unrestricted {} => FileAccess::Unrestricted,
                wire::FileSystem::Restricted {
                    entries,
                    glob_scan_max_depth,
                } => FileAccess::Restricted {
                    entries: entries.into_iter().map(entry).collect::<Result<_, _>>()?,
                    glob_depth: glob_scan_max_depth.map(|depth| usize::try_from(depth.get()).unwrap_or(usize::MAX)),
                },
            },
            network: network.into(),
        },
    })
}

fn entry(entry: wire::Entry) -> Result<Entry, Refusal> {
    Ok(Entry {
        place: match entry.path {
            wire::Where::Path { path } => Place::Path(native(&path, "permission path")?),
            wire::Where::GlobPattern { pattern } => Place::Pattern(pattern),
            wire::Where::Special { value } => special(value),
        },
        access: match entry.access {
            wire::Access::Read => Access::Read,
            wire::Access::Write => Access::Write,
            wire::Access::Deny => Access::Deny,
        },
        skip_missing: entry.missing_path_behavior.is_some(),
    })
}

fn special(special: wire::Special) -> Place {
    match special {
        wire::Special::Root {} => Place::Root,
        wire::Special::Minimal {} => Place::Minimal,
        wire::Special::Tmpdir {} => Place::TemporaryDirectories,
        wire::Special::SlashTmp {} => Place::SlashTmp,
        wire::Special::ProjectRoots { subpath } => Place::ProjectRoots(subpath.map(PathBuf::from)),
        wire::Special::Unknown { path } => Place::Unknown(path),
    }
}

impl From<wire::Network> for Network {
    fn from(network: wire::Network) -> Self {
        match network {
            wire::Network::Restricted => Self::Restricted,
            wire::Network::Enabled => Self::Enabled,
        }
    }
}

/// The JSON of stock clients.
mod wire {
    use std::num::NonZeroU64;

    use rendezvous_rpc::PathUri;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Context {
        pub(super) permissions: Profile,
        pub(super) cwd: Option<PathUri>,
        #[serde(default)]
        pub(super) workspace_roots: Vec<PathUri>,
        pub(super) policy_context: Option<PolicyContext>,
        #[expect(dead_code, reason = "must be there and be known, and means nothing here")]
        windows_sandbox_level: WindowsLevel,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct PolicyContext {
        pub(super) cwd: Option<PathUri>,
        #[serde(default)]
        pub(super) workspace_roots: Vec<PathUri>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub(super) enum WindowsLevel {
        Disabled,
        RestrictedToken,
        Elevated,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    pub(super) enum Profile {
        Managed { file_system: FileSystem, network: Network },
        Disabled {},
        External { network: Network },
    }

    #[derive(Clone, Copy, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Network {
        Restricted,
        Enabled,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    pub(super) enum FileSystem {
        Restricted {
            entries: Vec<Entry>,
            #[serde(default)]
            glob_scan_max_depth: Option<NonZeroU64>,
        },
        Unrestricted {},
    }

    #[derive(Deserialize)]
    pub(super) struct Entry {
        pub(super) path: Where,
        pub(super) access: Access,
        #[serde(default)]
        pub(super) missing_path_behavior: Option<MissingPath>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum MissingPath {
        Skip,
    }

    #[derive(Clone, Copy, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Access {
        Read,
        Write,
        #[serde(alias = "none")]
        Deny,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    pub(super) enum Where {
        Path { path: PathUri },
        GlobPattern { pattern: String },
        Special { value: Special },
    }

    #[derive(Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    pub(super) enum Special {
        Root {},
        Minimal {},
        Tmpdir {},
        SlashTmp {},
        #[serde(alias = "current_working_directory")]
        ProjectRoots {
            #[serde(default)]
            subpath: Option<String>,
        },
        Unknown {
            path: String,
        },
    }
}

#[cfg(test)]
mod tests;
