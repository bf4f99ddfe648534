//! From rules to mounts, with a look at the file system.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::profile::{Access, Network};
use super::resolve::{Files, Missing, Policy, Rules};
use super::trace::{Link, Rest, Trace, trace};
use super::{MAX_MOUNTS, SandboxError, pattern};

/// What a program sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// What is there before any mount.
    pub(super) base: Base,
    /// In this order.
    pub(super) mounts: Vec<Mount>,
    /// Folders that must be made before, and hold nothing: they keep a path from being made by the program.
    pub(super) placeholders: Vec<PathBuf>,
    /// The network.
    pub(super) network: Network,
}

/// What a program sees where no mount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// Nothing.
    Empty,
    /// The machine's files, unchangeable.
    ReadOnly,
    /// The machine's files.
    Writable,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mount {
    /// The machine's own file or folder, at its place.
    Own { path: PathBuf, writable: bool },
    /// An empty folder over one of the machine's. It can be searched if something in it is shown.
    HiddenFolder { path: PathBuf, searchable: bool },
    /// Something that cannot be opened, over one of the machine's files.
    HiddenFile { path: PathBuf },
    /// A link in an otherwise empty place.
    Link(Link),
}

impl Plan {
    /// Makes a plan for this machine as it is now.
    pub(super) fn new(policy: &Policy) -> Result<Self, SandboxError> {
        let rules = match &policy.files {
            Files::Unrestricted => {
                return Ok(Self {
                    base: Base::Writable,
                    mounts: Vec::new(),
                    placeholders: Vec::new(),
                    network: policy.network,
                });
            }
            Files::Restricted(rules) => rules,
        };
        let mut survey = Survey::default();
        survey.look(rules)?;
        survey.check_links()?;
        survey.prevent();
        survey.hide(rules)?;
        let base = match survey.real.remove(Path::new("/")) {
            None | Some(Access::Deny) => Base::Empty,
            Some(Access::Read) => Base::ReadOnly,
            Some(Access::Write) => Base::Writable,
        };
        let mut layout = Layout {
            base,
            placeholders: &survey.placeholders,
            real: &survey.real,
            mounts: Vec::new(),
            pinned: BTreeSet::new(),
        };
        for (path, access) in &survey.real {
            layout.mount(path, *access);
        }
        layout.link(&survey.links);
        let mounts = layout.mounts;
        if mounts.len() > MAX_MOUNTS {
            return Err(SandboxError::Prepare(format!("more than {MAX_MOUNTS} mounts")));
        }
        Ok(Self {
            base,
            mounts,
            placeholders: survey.placeholders,
            network: policy.network,
        })
    }
}

/// The rules as they apply to what exists.
#[derive(Default)]
struct Survey {
    /// By path without links.
    real: BTreeMap<PathBuf, Access>,
    links: Vec<Link>,
    crossings: Vec<Crossing>,
    missing: Vec<(PathBuf, Access)>,
    placeholders: Vec<PathBuf>,
}

/// A rule whose path leads through links.
struct Crossing {
    rule: PathBuf,
    links: Vec<Link>,
}

impl Survey {
    fn look(&mut self, rules: &Rules) -> Result<(), SandboxError> {
        for (path, rule) in &rules.paths {
            let traced = trace(path).map_err(|error| cannot(path, &error))?;
            let Trace { real, rest, links } = traced;
            if !links.is_empty() {
                self.crossings.push(Crossing {
                    rule: path.clone(),
                    links: links.clone(),
                });
                self.links.extend(links);
            }
            match rest {
                Rest::Nothing => self.set(real, rule.access),
                Rest::Missing { name, is_last } => {
                    let is_prevented = match rule.missing {
                        Missing::Skip => false,
                        Missing::Prevent => true,
                        Missing::PreventInPlace => is_last,
                    };
                    if rule.access != Access::Write && is_prevented {
                        self.missing.push((real.join(name), rule.access));
                    }
                }
                // The program could put a folder in the file's place.
                Rest::BelowFile if rule.access != Access::Write => self.set(real, rule.access),
                // What this user cannot reach, a program of this user cannot reach either.
                Rest::BelowFile | Rest::Unreachable => {}
            }
        }
        for path in self.real.keys() {
            let is_proc = path.starts_with("/proc");
            if is_proc && self.real[path] != Access::Deny {
                return Err(SandboxError::Invalid(format!(
                    "`{}` cannot be opened to a sandbox, which has a /proc of its own",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    fn set(&mut self, path: PathBuf, access: Access) {
        self.real
            .entry(path)
            .and_modify(|present| *present = (*present).max(access))
            .or_insert(access);
    }

    fn access(&self, path: &Path) -> Option<Access> {
        path.ancestors().find_map(|ancestor| self.real.get(ancestor)).copied()
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.access(path) == Some(Access::Write)
    }

    /// A link that programs can replace must not decide what the next sandbox opens or closes.
    fn check_links(&self) -> Result<(), SandboxError> {
        for crossing in &self.crossings {
            let replaceable = |link: &&Link| link.at.parent().is_some_and(|folder| self.is_writable(folder));
            let Some(link) = crossing.links.iter().find(replaceable) else {
                continue;
            };
            return Err(SandboxError::Prepare(format!(
                "`{}` leads through the link `{}`, which the sandbox could replace",
                crossing.rule.display(),
                link.at.display()
            )));
        }
        Ok(())
    }

    /// Plans an empty folder for what must not come into being. One that is there already may be another sandbox's, which
    /// must not take it away.
    fn prevent(&mut self) {
        let is_empty = |path: &Path| path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        for (path, access) in &self.real {
            let is_guarded = path.parent().is_some_and(|folder| self.is_writable(folder));
            if *access != Access::Write && is_guarded && is_empty(path) {
                self.placeholders.push(path.clone());
            }
        }
        for (path, access) in std::mem::take(&mut self.missing) {
            if path.parent().is_some_and(|folder| self.is_writable(folder)) {
                self.placeholders.push(path.clone());
                self.set(path, access);
            }
        }
        self.placeholders.sort();
        self.placeholders.dedup();
    }

    fn hide(&mut self, rules: &Rules) -> Result<(), SandboxError> {
        for pattern in &rules.patterns {
            for path in pattern::matches(pattern)? {
                self.set(path, Access::Deny);
            }
        }
        Ok(())
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> SandboxError {
    SandboxError::Prepare(format!("cannot look at `{}`: {error}", path.display()))
}

/// Puts mounts in order.
struct Layout<'a> {
    base: Base,
    /// They are no folders yet.
    placeholders: &'a [PathBuf],
    real: &'a BTreeMap<PathBuf, Access>,
    mounts: Vec<Mount>,
    pinned: BTreeSet<PathBuf>,
}

impl Layout<'_> {
    /// What is in force in the folder that holds a path.
    fn around(&self, path: &Path) -> Access {
        let above = path.ancestors().skip(1).find_map(|ancestor| self.real.get(ancestor));
        above.copied().unwrap_or(match self.base {
            Base::Empty => Access::Deny,
            Base::ReadOnly => Access::Read,
            Base::Writable => Access::Write,
        })
    }

    /// Links by which rules named their paths, where nothing else shows them.
    fn link(&mut self, links: &[Link]) {
        let mut seen = BTreeSet::new();
        for link in links {
            if self.around(&link.at) == Access::Deny && seen.insert(&link.at) {
                self.mounts.push(Mount::Link(link.clone()));
            }
        }
    }

    fn mount(&mut self, path: &Path, access: Access) {
        let around = self.around(path);
        if around == access {
            return;
        }
        if around == Access::Write && access == Access::Read {
            self.pin(path);
        }
        let path = path.to_owned();
        self.mounts.push(match access {
            Access::Read => Mount::Own { path, writable: false },
            Access::Write => Mount::Own { path, writable: true },
            Access::Deny if path.is_dir() || self.placeholders.contains(&path) => {
                let is_shown = |(other, access): (&PathBuf, &Access)| {
                    *access != Access::Deny && other != &path && other.starts_with(&path)
                };
                let searchable = self.real.iter().any(is_shown);
                Mount::HiddenFolder { path, searchable }
            }
            Access::Deny => Mount::HiddenFile { path },
        });
    }

    /// Makes each writable folder above a path a mount of its own, which cannot be renamed: a rule is about what is found at
    /// this path, not about where its folder may be moved to.
    fn pin(&mut self, path: &Path) {
        let folders: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|folder| self.around(folder) == Access::Write && *folder != Path::new("/"))
            .collect();
        for folder in folders.into_iter().rev() {
            if self.pinned.insert(folder.to_owned()) {
                self.mounts.push(Mount::Own {
                    path: folder.to_owned(),
                    writable: true,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
