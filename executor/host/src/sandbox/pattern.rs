//! Which existing paths a pattern hides.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::resolve::Pattern;
use super::{MAX_MOUNTS, SandboxError};

/// Entries that are looked at for one pattern.
const MAX_LOOKED_AT: usize = 1_000_000;

/// All matches, canonical. A folder that matches is not entered.
pub(super) fn matches(pattern: &Pattern) -> Result<Vec<PathBuf>, SandboxError> {
    let glob = GlobBuilder::new(&pattern.glob)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|error| SandboxError::Invalid(format!("pattern `{}`: {error}", pattern.glob)))?;
    let mut search = Search {
        glob: glob.compile_matcher(),
        found: Vec::new(),
        looked_at: 0,
    };
    let mut pending = vec![(pattern.base.clone(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        if search.glob.is_match(&folder) {
            search.hide(&folder)?;
            continue;
        }
        search.look(&folder, depth, pattern.depth, &mut pending)?;
    }
    Ok(search.found)
}

struct Search {
    glob: GlobMatcher,
    found: Vec<PathBuf>,
    looked_at: usize,
}

impl Search {
    fn look(
        &mut self,
        folder: &Path,
        depth: usize,
        limit: usize,
        pending: &mut Vec<(PathBuf, usize)>,
    ) -> Result<(), SandboxError> {
        // What this user cannot list, a program of this user cannot list either.
        let Ok(entries) = folder.read_dir() else { return Ok(()) };
        for entry in entries.flatten() {
            self.looked_at += 1;
            if self.looked_at > MAX_LOOKED_AT {
                return Err(SandboxError::Prepare(format!(
                    "pattern `{}` is looked for in more than {MAX_LOOKED_AT} entries",
                    self.glob.glob()
                )));
            }
            let path = entry.path();
            if self.glob.is_match(&path) {
                self.hide(&path)?;
            } else if depth < limit && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push((path, depth + 1));
            }
        }
        Ok(())
    }

    /// Hides what a path leads to. A link to nothing hides nothing.
    fn hide(&mut self, path: &Path) -> Result<(), SandboxError> {
        let Ok(real) = path.canonicalize() else { return Ok(()) };
        if self.found.len() == MAX_MOUNTS {
            return Err(SandboxError::Prepare(format!(
                "pattern `{}` hides more than {MAX_MOUNTS} paths",
                self.glob.glob()
            )));
        }
        self.found.push(real);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn found(base: &Path, glob: &str, depth: usize) -> Vec<String> {
        let pattern = Pattern {
            base: base.to_owned(),
            glob: format!("{}/{glob}", base.display()),
            depth,
        };
        let mut found: Vec<_> = matches(&pattern)
            .expect("matches")
            .iter()
            .map(|path| path.strip_prefix(base).expect("below").display().to_string())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn finds_names_across_and_within_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("real");
        fs::create_dir_all(base.join("a/b/c")).expect("made");
        for file in [".env", "x.env", "a/y.env", "a/b/c/z.env", "a/b/other"] {
            fs::write(base.join(file), "").expect("written");
        }
        std::os::unix::fs::symlink("a/b/other", base.join("link.env")).expect("linked");
        std::os::unix::fs::symlink("/nowhere", base.join("dangling.env")).expect("linked");
        assert_eq!(
            found(&base, "**/*.env", 16),
            [".env", "a/b/c/z.env", "a/b/other", "a/y.env", "x.env"]
        );
        assert_eq!(found(&base, "*.env", 16), [".env", "a/b/other", "x.env"]);
        assert_eq!(found(&base, "**/*.env", 1), [".env", "a/b/other", "a/y.env", "x.env"]);
        assert_eq!(found(&base, "a/**", 16), ["a/b", "a/y.env"]);
        assert_eq!(found(&base, "?/b", 16), ["a/b"]);
    }

    #[test]
    fn a_broken_pattern_is_refused() {
        let pattern = Pattern {
            base: "/nowhere".into(),
            glob: "/nowhere/[".into(),
            depth: 1,
        };
        assert!(matches!(matches(&pattern), Err(SandboxError::Invalid(_))));
    }
}
