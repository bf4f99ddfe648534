//! From intent to rules on paths, without a look at the file system.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::profile::{Access, Entry, FileAccess, Intent, Network, Place, Profile};
use super::{MAX_ENTRIES, MINIMAL, SandboxError};

/// Names in a writable folder that stay read-only unless an entry says otherwise: programs outside of the sandbox act on
/// what is in them. Stock executors protect the same.
pub const PROTECTED: [&str; 4] = [".git", ".agents", ".codex", ".aws"];
/// How deep patterns are looked for when nobody says: everywhere.
const DEFAULT_GLOB_DEPTH: usize = usize::MAX;

/// Rules on paths: the one on the longest prefix of a path is in force, and nothing is allowed where none is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(super) files: Files,
    pub(super) network: Network,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Files {
    Unrestricted,
    Restricted(Rules),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) paths: BTreeMap<PathBuf, Rule>,
    pub(super) patterns: Vec<Pattern>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) access: Access,
    pub(super) missing: Missing,
}

/// What a rule means while its path does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Skip,
    /// Below a writable folder, the path must not come into being.
    Prevent,
    /// The same, if the folder that it would be in exists.
    PreventInPlace,
}

/// Paths to hide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Where to look.
    pub(super) base: PathBuf,
    /// The whole pattern, absolute.
    pub(super) glob: String,
    /// How far below `base`.
    pub(super) depth: usize,
}

impl Policy {
    /// Works out what an intent means.
    ///
    /// # Errors
    ///
    /// When it cannot be understood, or says things that cannot be enforced.
    pub fn resolve(intent: &Intent) -> Result<Self, SandboxError> {
        let (files, network) = match &intent.profile {
            Profile::Disabled => (Files::Unrestricted, Network::Enabled),
            Profile::External { network } => (Files::Unrestricted, *network),
            Profile::Managed { files, network } => {
                let files = match files {
                    FileAccess::Unrestricted => Files::Unrestricted,
                    FileAccess::Restricted { entries, glob_depth } => {
                        Files::Restricted(Rules::resolve(intent, entries, *glob_depth)?)
                    }
                };
                (files, *network)
            }
        };
        Ok(Self { files, network })
    }

    /// The same for files, without a network.
    #[must_use]
    pub fn offline(mut self) -> Self {
        self.network = Network::Restricted;
        self
    }

    /// The same for files, with a network of its own that has nothing in it but the proxy of its program.
    #[must_use]
    pub fn managed(mut self) -> Self {
        self.network = Network::Managed;
        self
    }

    /// The same, with what programs of the system need to be read.
    #[must_use]
    pub fn with_minimal(mut self) -> Self {
        if let Files::Restricted(rules) = &mut self.files {
            for path in MINIMAL {
                let rule = Rule {
                    access: Access::Read,
                    missing: Missing::Skip,
                };
                rules.paths.entry(path.into()).or_insert(rule);
            }
        }
        self
    }

    /// Whether every file may be changed.
    pub fn writes_everything(&self) -> bool {
        match &self.files {
            Files::Unrestricted => true,
            Files::Restricted(rules) => {
                rules.patterns.is_empty()
                    && rules.access(Path::new("/")) == Some(Access::Write)
                    && rules.paths.values().all(|rule| rule.access == Access::Write)
            }
        }
    }

    /// Whether every file may be read.
    pub fn reads_everything(&self) -> bool {
        match &self.files {
            Files::Unrestricted => true,
            Files::Restricted(rules) => {
                rules.patterns.is_empty()
                    && rules.access(Path::new("/")).is_some()
                    && rules.paths.values().all(|rule| rule.access != Access::Deny)
            }
        }
    }

    /// Whether there is nothing to enforce.
    pub fn is_open(&self) -> bool {
        self.writes_everything() && self.network == Network::Enabled
    }
}

impl Rules {
    fn resolve(intent: &Intent, entries: &[Entry], glob_depth: Option<usize>) -> Result<Self, SandboxError> {
        if entries.len() > MAX_ENTRIES || intent.roots.len() > MAX_ENTRIES {
            return Err(SandboxError::Invalid(format!(
                "more than {MAX_ENTRIES} permission entries or workspace roots"
            )));
        }
        let mut rules = Self::default();
        for entry in entries {
            if let Place::Pattern(pattern) = &entry.place {
                rules.patterns.push(hide(intent, pattern, entry.access, glob_depth)?);
                continue;
            }
            for path in places(intent, &entry.place)? {
                rules.add(normal(&path)?, entry);
            }
        }
        rules.protect();
        Ok(rules)
    }

    fn add(&mut self, path: PathBuf, entry: &Entry) {
        let rule = Rule {
            access: entry.access,
            missing: if entry.skip_missing {
                Missing::Skip
            } else {
                Missing::Prevent
            },
        };
        self.paths
            .entry(path)
            .and_modify(|present| {
                if rule.access >= present.access {
                    *present = rule;
                }
            })
            .or_insert(rule);
    }

    /// Adds a rule for each name of [`PROTECTED`] in a writable folder. Where the client had one, that one holds, except
    /// that a missing path must stay missing.
    fn protect(&mut self) {
        let writable = self.paths.iter().filter(|(_, rule)| rule.access == Access::Write);
        let roots: Vec<PathBuf> = writable
            .map(|(path, _)| path.clone())
            .filter(|path| path != Path::new("/") && !is_protected(path))
            .collect();
        for path in roots.iter().flat_map(|root| PROTECTED.map(|name| root.join(name))) {
            let rule = Rule {
                access: Access::Read,
                missing: Missing::PreventInPlace,
            };
            let present = self.paths.entry(path).or_insert(rule);
            if present.missing == Missing::Skip {
                present.missing = Missing::PreventInPlace;
            }
        }
    }

    /// The rule in force on a path.
    pub(super) fn access(&self, path: &Path) -> Option<Access> {
        path.ancestors()
            .find_map(|ancestor| self.paths.get(ancestor))
            .map(|rule| rule.access)
    }
}

fn is_protected(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|last| PROTECTED.iter().any(|name| last == *name))
}

fn places(intent: &Intent, place: &Place) -> Result<Vec<PathBuf>, SandboxError> {
    Ok(match place {
        Place::Path(path) => vec![path.clone()],
        Place::Root => vec!["/".into()],
        Place::Minimal => MINIMAL.map(PathBuf::from).into(),
        Place::TemporaryDirectories => intent.temporary.clone(),
        Place::SlashTmp => vec!["/tmp".into()],
        Place::ProjectRoots(None) => intent.roots.clone(),
        Place::ProjectRoots(Some(below)) => {
            if !below
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
            {
                return Err(SandboxError::Invalid(format!(
                    "project root subpath `{}` leaves the root",
                    below.display()
                )));
            }
            intent.roots.iter().map(|root| root.join(below)).collect()
        }
        Place::Pattern(_) => Vec::new(),
        Place::Unknown(name) => {
            return Err(SandboxError::Invalid(format!("unknown special path `{name}`")));
        }
    })
}

/// The path without dots. Refuses relative paths and those that climb, whose meaning links could change.
fn normal(path: &Path) -> Result<PathBuf, SandboxError> {
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) || parts.any(|part| part == Component::ParentDir) {
        return Err(SandboxError::Invalid(format!(
            "permission path `{}` is not absolute, or climbs",
            path.display()
        )));
    }
    Ok(path.components().collect())
}

fn hide(intent: &Intent, pattern: &str, access: Access, depth: Option<usize>) -> Result<Pattern, SandboxError> {
    if access != Access::Deny {
        return Err(SandboxError::Invalid(format!("pattern `{pattern}` can only be denied")));
    }
    let glob = if pattern.starts_with('/') {
        pattern.to_owned()
    } else {
        let cwd = intent.cwd.as_deref().ok_or(SandboxError::NoCwd)?;
        let cwd = cwd
            .to_str()
            .ok_or_else(|| SandboxError::Invalid("a relative pattern needs a working directory that is text".into()))?;
        format!("{}/{pattern}", escape(cwd.trim_end_matches('/')))
    };
    let is_special = |part: &str| part.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let fixed: Vec<&str> = glob.split('/').skip(1).take_while(|part| !is_special(part)).collect();
    if fixed.contains(&"..") || glob.split('/').any(|part| part == "..") {
        return Err(SandboxError::Invalid(format!("pattern `{pattern}` climbs")));
    }
    let is_whole = fixed.len() + 1 == glob.split('/').count();
    // A pattern without any wildcard names one path, which is found in its folder.
    let fixed = if is_whole {
        &fixed[..fixed.len().saturating_sub(1)]
    } else {
        &fixed[..]
    };
    Ok(Pattern {
        base: Path::new("/").join(fixed.join("/")),
        glob,
        depth: depth.unwrap_or(DEFAULT_GLOB_DEPTH),
    })
}

/// Text as a pattern that matches only itself.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests;
