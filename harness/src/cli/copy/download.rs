//! From the executor.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Component, Path};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use rendezvous_harness::files::{Block, FileReader};
use rendezvous_harness::{HarnessError, PathUri, WalkOptions};
use rendezvous_rpc::method::fs::{EntryKind, Metadata, WalkEntry};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;

use super::blocks::Next;
use super::{Job, down, inside};
use crate::cli::target::Target;
use crate::cli::{Failure, say};

/// Blocks that are asked for ahead.
const AHEAD: usize = 4;
/// How often a file that the executor closed, because the connection was lost, is opened again.
const MAX_REOPENS: u32 = 16;

/// `directory_only`: `from` is written so that it can only name a directory.
pub(super) async fn download(job: &mut Job, from: &PathUri, directory_only: bool, to: &Path) -> Result<(), Failure> {
    let metadata = job.environment.files().metadata(from).await?;
    let name = from.file_name();
    let to = inside(to, name.as_deref(), to.is_dir());
    if !metadata.is_directory {
        if directory_only {
            return Err(Failure::runtime(anyhow!("{from} is no directory")));
        }
        return file(job, from, &to, &metadata).await;
    }
    if !job.recursive {
        return Err(Failure::usage(anyhow!("{from} is a directory; use -r")));
    }
    // A walk does not enter links, not even its root.
    let root = if metadata.is_symlink {
        job.environment.files().canonicalize(from).await?
    } else {
        from.clone()
    };
    tree(job, &root, &to).await
}

async fn tree(job: &mut Job, from: &PathUri, to: &Path) -> Result<(), Failure> {
    let tree = job.environment.files().walk(from, WalkOptions::MAX).await?;
    let too_large = |what: String| {
        Failure::runtime(anyhow!(
            "{from} has {what}; copy its parts, or pipe tar through `harness run`"
        ))
    };
    if tree.truncated {
        return Err(too_large(format!(
            "more than {} entries or {} directories",
            WalkOptions::MAX.max_entries,
            WalkOptions::MAX.max_directories
        )));
    }
    let root = from.to_posix().map_err(Failure::runtime)?;
    let mut paths = Vec::with_capacity(tree.entries.len());
    for entry in &tree.entries {
        let path = entry.path.to_posix().map_err(Failure::runtime)?;
        let relative = relative(&path, &root)
            .ok_or_else(|| Failure::runtime(anyhow!("the executor listed {} below {from}", entry.path)))?;
        // What is in there was not looked at.
        let depth = relative.split(|byte| *byte == b'/').count() as u64;
        if entry.kind == EntryKind::Directory && depth >= WalkOptions::MAX.max_depth {
            return Err(too_large(format!("directories {depth} deep")));
        }
        paths.push((entry, relative.to_owned()));
    }
    for error in &tree.errors {
        say(format_args!("{}: {}", error.path, error.message));
    }
    create_directory(to)?;
    say_skipped(job, from, &tree.entries).await?;
    for (entry, relative) in paths {
        let target = to.join(native(&relative));
        match entry.kind {
            EntryKind::Directory => create_directory(&target)?,
            EntryKind::File => {
                let metadata = job.environment.files().metadata(&entry.path).await?;
                let copied = file(job, &entry.path, &target, &metadata).await;
                copied.map_err(|failure| failure.about(down(&entry.path, &target)))?;
            }
        }
    }
    if tree.errors.is_empty() {
        Ok(())
    } else {
        Err(Failure::runtime(anyhow!(
            "{} entries could not be read",
            tree.errors.len()
        )))
    }
}

/// Says what a walk leaves out: links and special files. Links to nothing are in no list of any call.
async fn say_skipped(job: &Job, root: &PathUri, entries: &[WalkEntry]) -> Result<(), Failure> {
    let walked = by_directory(entries)?;
    let directories = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
    for directory in std::iter::once(root).chain(directories.map(|entry| &entry.path)) {
        let list = match job.environment.files().list(directory).await {
            Ok(list) => list,
            // The walk could not read it either, and said so; or it is gone.
            Err(error) if error.is_refused() => continue,
            Err(error) => return Err(error.into()),
        };
        let known = walked.get(&directory.to_posix().map_err(Failure::runtime)?);
        for entry in list {
            if !known.is_some_and(|known| known.contains(&entry.file_name)) {
                say(format_args!(
                    "skipping {directory}/{}: neither a file nor a directory",
                    entry.file_name
                ));
            }
        }
    }
    Ok(())
}

/// The names in each directory, as lists of directories write them.
fn by_directory(entries: &[WalkEntry]) -> Result<HashMap<Vec<u8>, HashSet<String>>, Failure> {
    let mut names: HashMap<Vec<u8>, HashSet<String>> = HashMap::new();
    for entry in entries {
        let path = entry.path.to_posix().map_err(Failure::runtime)?;
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let name = String::from_utf8_lossy(&path[end + 1..]).into_owned();
        // The parent of `/name` is `/`.
        names.entry(path[..end.max(1)].to_vec()).or_default().insert(name);
    }
    Ok(names)
}

/// Copies one file.
async fn file(job: &mut Job, from: &PathUri, to: &Path, before: &Metadata) -> Result<(), Failure> {
    let write_error =
        |error| Failure::runtime(anyhow::Error::new(error).context(format!("cannot write {}", to.display())));
    let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut remote = Arc::new(job.environment.files().open(from).await?);
    let target = Target::prepare(to).map_err(write_error)?;
    let mut local = target.open().await.map_err(write_error)?;
    let mut asked: VecDeque<JoinHandle<Result<Block, HarnessError>>> = VecDeque::new();
    let (mut offset, mut next) = (0, 0);
    let mut reopens = 0;
    loop {
        while asked.len() < AHEAD {
            let (remote, at) = (Arc::clone(&remote), next);
            asked.push_back(tokio::spawn(async move {
                remote.read_block(at, FileReader::MAX_BLOCK).await
            }));
            next += FileReader::MAX_BLOCK;
        }
        let Some(first) = asked.pop_front() else { break };
        let block = match first.await.map_err(Failure::runtime)? {
            Ok(block) => block,
            Err(error) if error.is_not_found() && reopens < MAX_REOPENS => {
                reopens += 1;
                asked.clear();
                next = offset;
                let now = job.environment.files().metadata(from).await?;
                if (now.size, now.modified_at_ms) != (before.size, before.modified_at_ms) {
                    return Err(Failure::runtime(anyhow!("{from} was changed while it was copied")));
                }
                remote = Arc::new(job.environment.files().open(from).await?);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let then = Next::after(&block, offset).map_err(|reason| Failure::runtime(anyhow!("{from}: {reason}")))?;
        local.write_all(&block.bytes).await.map_err(write_error)?;
        offset += block.bytes.len() as u64;
        job.progress.add(&name, block.bytes.len());
        match then {
            Next::Continue => {}
            Next::From(at) => {
                asked.clear();
                next = at;
            }
            Next::End => break,
        }
    }
    for rest in asked {
        // Blocks behind the end.
        let _ = rest.await;
    }
    if let Some(remote) = Arc::into_inner(remote) {
        let _ = remote.close().await;
    }
    local.flush().await.map_err(write_error)?;
    target.commit().map_err(write_error)
}

fn create_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path)
        .with_context(|| format!("cannot create {}", path.display()))
        .map_err(Failure::runtime)
}

fn native(path: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(path))
}

/// The part of `path` below `root`; none when it does not stay there, whatever an executor says.
fn relative<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(root)?;
    let rest = rest
        .strip_prefix(b"/")
        .or_else(|| root.ends_with(b"/").then_some(rest))?;
    let stays = !rest.is_empty()
        && native(rest)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    stays.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_paths_cannot_climb() {
        for path in [
            &b"/srv"[..],
            b"/srv/",
            b"/srv/..",
            b"/srv/a/../../b",
            b"/srv//etc",
            b"/srvx/a",
            b"/etc",
        ] {
            assert_eq!(relative(path, b"/srv"), None, "{path:?}");
        }
        assert_eq!(relative(b"/srv/a/..b/c", b"/srv"), Some(&b"a/..b/c"[..]));
        assert_eq!(relative(b"/a", b"/"), Some(&b"a"[..]));
    }

    #[test]
    fn names_are_found_by_their_directory() {
        let entry = |path: &[u8]| WalkEntry {
            path: PathUri::from_posix(path).unwrap(),
            kind: EntryKind::File,
        };
        let names = by_directory(&[entry(b"/a"), entry(b"/b/c"), entry(b"/b/\xff")]).unwrap();
        assert!(names[&b"/"[..]].contains("a"));
        assert_eq!(
            names[&b"/b"[..]],
            HashSet::from(["c".to_owned(), "\u{fffd}".to_owned()])
        );
    }
}
