//! From the executor.

use std::collections::VecDeque;
use std::io::Write as _;
use std::path::{Component, Path};

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use rendezvous_harness::files::RemoteFile;
use rendezvous_harness::{HarnessError, PathUri, WalkOptions};
use rendezvous_rpc::method::fs::{EntryKind, Metadata};
use tokio::task::JoinHandle;

use super::{Job, inside};
use crate::cli::{Failure, say};

/// Blocks that are asked for ahead.
const AHEAD: usize = 4;
/// How often a file that the executor closed, because the connection was lost, is opened again.
const MAX_REOPENS: u32 = 16;

pub(super) async fn download(job: &mut Job, from: &PathUri, to: &Path) -> Result<(), Failure> {
    let metadata = job.harness.metadata(from).await?;
    let name = from.file_name();
    let to = inside(to, name.as_deref(), to.is_dir());
    if metadata.is_directory {
        if !job.recursive {
            return Err(Failure::usage(anyhow!("{from} is a directory; use -r")));
        }
        tree(job, from, &to).await
    } else {
        file(job, from, &to, &metadata).await
    }
}

async fn tree(job: &mut Job, from: &PathUri, to: &Path) -> Result<(), Failure> {
    let tree = job.harness.walk(from, WalkOptions::MAX).await?;
    if tree.truncated {
        return Err(Failure::runtime(anyhow!(
            "{from} has more than {} entries; copy its parts, or pipe tar through `harness run`",
            WalkOptions::MAX.max_entries
        )));
    }
    for error in &tree.errors {
        say(format_args!("{}: {}", error.path, error.message));
    }
    create_directory(to)?;
    let root = from.to_posix().map_err(Failure::runtime)?;
    for entry in &tree.entries {
        let path = entry.path.to_posix().map_err(Failure::runtime)?;
        let relative = path
            .strip_prefix(root.as_slice())
            .and_then(|rest| rest.strip_prefix(b"/").or_else(|| root.ends_with(b"/").then_some(rest)))
            .filter(|rest| is_below(rest))
            .ok_or_else(|| Failure::runtime(anyhow!("the executor listed {} below {from}", entry.path)))?;
        let target = to.join(native(relative));
        match entry.kind {
            EntryKind::Directory => create_directory(&target)?,
            EntryKind::File => {
                let metadata = job.harness.metadata(&entry.path).await?;
                file(job, &entry.path, &target, &metadata).await?;
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

/// Copies one file through a temporary one beside its place.
async fn file(job: &mut Job, from: &PathUri, to: &Path, before: &Metadata) -> Result<(), Failure> {
    let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let directory = match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .permissions(permissions())
        .tempfile_in(directory)
        .with_context(|| format!("cannot write in {}", directory.display()))
        .map_err(Failure::runtime)?;
    let mut remote = std::sync::Arc::new(job.harness.open(from).await?);
    let mut asked: VecDeque<JoinHandle<Result<Bytes, HarnessError>>> = VecDeque::new();
    let (mut offset, mut next) = (0, 0);
    let mut reopens = 0;
    loop {
        while asked.len() < AHEAD {
            let (remote, at) = (std::sync::Arc::clone(&remote), next);
            asked.push_back(tokio::spawn(async move {
                remote.read_block(at, RemoteFile::MAX_BLOCK).await
            }));
            next += RemoteFile::MAX_BLOCK;
        }
        let Some(first) = asked.pop_front() else { break };
        let block = match first.await.map_err(Failure::runtime)? {
            Ok(block) => block,
            Err(error) if error.is_not_found() && reopens < MAX_REOPENS => {
                reopens += 1;
                asked.clear();
                next = offset;
                let now = job.harness.metadata(from).await?;
                if (now.size, now.modified_at_ms) != (before.size, before.modified_at_ms) {
                    return Err(Failure::runtime(anyhow!("{from} was changed while it was copied")));
                }
                remote = std::sync::Arc::new(job.harness.open(from).await?);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        temporary
            .write_all(&block)
            .with_context(|| format!("cannot write {}", to.display()))
            .map_err(Failure::runtime)?;
        offset += block.len() as u64;
        job.progress.add(&name, block.len());
        if (block.len() as u64) < RemoteFile::MAX_BLOCK {
            break;
        }
    }
    for rest in asked {
        // Blocks behind the end.
        let _ = rest.await;
    }
    if let Some(remote) = std::sync::Arc::into_inner(remote) {
        let _ = remote.close().await;
    }
    temporary
        .persist(to)
        .with_context(|| format!("cannot write {}", to.display()))
        .map_err(Failure::runtime)?;
    Ok(())
}

fn create_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path)
        .with_context(|| format!("cannot create {}", path.display()))
        .map_err(Failure::runtime)
}

/// As a shell would create files; the umask takes its part.
fn permissions() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::Permissions::from_mode(0o666)
}

fn native(path: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(path))
}

/// Whether a path stays below where it starts, whatever an executor says.
fn is_below(path: &[u8]) -> bool {
    !path.is_empty()
        && native(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_paths_cannot_climb() {
        for path in [&b""[..], b"..", b"a/../../b", b"/etc"] {
            assert!(!is_below(path), "{path:?}");
        }
        assert!(is_below(b"a/..b/c"));
    }
}
