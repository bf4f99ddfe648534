//! Where a path leads, and through which links.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Links of one path, as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// A path without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    /// The part of the path that exists, free of links.
    pub(super) real: PathBuf,
    /// What comes after it and does not exist, or cannot be looked at.
    pub(super) rest: Rest,
    /// The links on the way.
    pub(super) links: Vec<Link>,
}

/// What comes after the existing part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Nothing,
    /// This name, which does not exist, and perhaps more.
    Missing { name: OsString, is_last: bool },
    /// The existing part is no folder.
    BelowFile,
    /// The existing part cannot be searched by this user.
    Unreachable,
}

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Where it is; its parent is free of links.
    pub(super) at: PathBuf,
    /// What is written in it.
    pub(super) target: PathBuf,
}

/// Follows an absolute path.
pub(super) fn trace(path: &Path) -> io::Result<Trace> {
    let mut real = PathBuf::from("/");
    let mut links = Vec::new();
    let mut ahead: VecDeque<OsString> = parts(path);
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let metadata = match next.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) => {
                let rest = match error.kind() {
                    io::ErrorKind::NotFound => Rest::Missing {
                        name: part,
                        is_last: ahead.is_empty(),
                    },
                    io::ErrorKind::NotADirectory => Rest::BelowFile,
                    io::ErrorKind::PermissionDenied => Rest::Unreachable,
                    _ => return Err(error),
                };
                return Ok(Trace { real, rest, links });
            }
        };
        if !metadata.is_symlink() {
            real = next;
            continue;
        }
        if links.len() == MAX_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let target = next.read_link()?;
        for part in parts(&target).into_iter().rev() {
            ahead.push_front(part);
        }
        if target.is_absolute() {
            real = "/".into();
        }
        links.push(Link { at: next, target });
    }
    Ok(Trace {
        real,
        rest: Rest::Nothing,
        links,
    })
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn follows_links_and_tells_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("real");
        fs::create_dir_all(base.join("a/b")).expect("made");
        fs::write(base.join("a/file"), "").expect("written");
        symlink("a", base.join("short")).expect("linked");
        symlink(base.join("short/b"), base.join("long")).expect("linked");
        symlink("../short", base.join("a/up")).expect("linked");
        symlink("round", base.join("round")).expect("linked");
        let at = |path: &str| trace(&base.join(path)).expect("a trace");

        let c = Rest::Missing {
            name: "c".into(),
            is_last: false,
        };
        for (path, real, rest, links) in [
            ("a/b", "a/b", Rest::Nothing, vec![]),
            ("short/b", "a/b", Rest::Nothing, vec!["short"]),
            ("long", "a/b", Rest::Nothing, vec!["long", "short"]),
            (
                "a/up/up/b",
                "a/b",
                Rest::Nothing,
                vec!["a/up", "short", "a/up", "short"],
            ),
            ("short/c/d", "a", c, vec!["short"]),
            ("a/file/x", "a/file", Rest::BelowFile, vec![]),
        ] {
            let trace = at(path);
            assert_eq!(trace.real, base.join(real), "{path}");
            assert_eq!(trace.rest, rest, "{path}");
            let found: Vec<_> = trace.links.into_iter().map(|link| link.at).collect();
            let expected: Vec<_> = links.into_iter().map(|link| base.join(link)).collect();
            assert_eq!(found, expected, "{path}");
        }
        assert!(trace(&base.join("round")).is_err());
    }
}
