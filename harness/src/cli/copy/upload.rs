//! To the executor.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use rendezvous_harness::stdin::CHUNK;
use rendezvous_harness::{HarnessError, PathUri};
use rendezvous_rpc::method::fs::Metadata;
use tokio::io::AsyncReadExt as _;

use super::receiver::Receiver;
use super::{Job, below, up};
use crate::cli::{Failure, say};

/// Largest file that one call writes. Larger ones, and those with modes of their own, go through a process.
const ONE_CALL: u64 = 256 * 1024;
/// Most bytes that one call writes, when a file is longer than it said, as those of `/proc` are.
const MAX_GROWN: u64 = 16 * 1024 * 1024;

/// `directory_only`: `to` is written so that it can only name a directory.
pub(super) async fn upload(job: &mut Job, from: &Path, to: &PathUri, directory_only: bool) -> Result<(), Failure> {
    let metadata = tokio::fs::metadata(from)
        .await
        .with_context(|| format!("cannot read {}", from.display()))
        .map_err(Failure::runtime)?;
    let existing = existing(job, to).await?;
    let to = match (existing, base_name(from)) {
        (Some(existing), Some(name)) if existing.is_directory => below(to, &name)?,
        (Some(existing), None) if existing.is_directory => to.clone(),
        _ if directory_only && !metadata.is_dir() => {
            return Err(Failure::runtime(anyhow!("{to} is no directory")));
        }
        _ => to.clone(),
    };
    if !metadata.is_dir() {
        return file(job, from, &to).await;
    }
    if !job.recursive {
        return Err(Failure::usage(anyhow!("{} is a directory; use -r", from.display())));
    }
    tree(job, from, to).await
}

async fn tree(job: &mut Job, from: &Path, to: PathUri) -> Result<(), Failure> {
    job.environment.files().create_directory(&to).await?;
    let mut left: Vec<(PathBuf, PathUri)> = vec![(from.to_owned(), to)];
    while let Some((from, to)) = left.pop() {
        let list_error = || format!("cannot list {}", from.display());
        let mut entries = tokio::fs::read_dir(&from)
            .await
            .with_context(list_error)
            .map_err(Failure::runtime)?;
        while let Some(entry) = entries
            .next_entry()
            .await
            .with_context(list_error)
            .map_err(Failure::runtime)?
        {
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(Failure::runtime(anyhow!(
                    "{} has a name that is no UTF-8",
                    path.display()
                )));
            };
            let target = below(&to, name)?;
            let kind = entry.file_type().await.map_err(Failure::runtime)?;
            if kind.is_dir() {
                job.environment.files().create_directory(&target).await?;
                left.push((path, target));
            } else if kind.is_file() {
                let copied = file(job, &path, &target).await;
                copied.map_err(|failure| failure.about(up(&path, &target)))?;
            } else {
                say(format_args!(
                    "skipping {}: neither a file nor a directory",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

fn base_name(path: &Path) -> Option<String> {
    let name = match path.file_name() {
        Some(name) => name.to_owned(),
        None => path.canonicalize().ok()?.file_name()?.to_owned(),
    };
    name.to_str().map(ToOwned::to_owned)
}

async fn existing(job: &Job, path: &PathUri) -> Result<Option<Metadata>, HarnessError> {
    match job.environment.files().metadata(path).await {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Copies one file. Every read may wait for ever, so none may hold up a signal.
async fn file(job: &mut Job, from: &Path, to: &PathUri) -> Result<(), Failure> {
    let read_error =
        |error| Failure::runtime(anyhow::Error::new(error).context(format!("cannot read {}", from.display())));
    let no_file = || Failure::runtime(anyhow!("{} is no regular file", from.display()));
    // Opening a FIFO waits for its writer, and opening a device may act on it.
    if !tokio::fs::metadata(from).await.map_err(read_error)?.is_file() {
        return Err(no_file());
    }
    let mut source = tokio::fs::File::open(from).await.map_err(read_error)?;
    let metadata = source.metadata().await.map_err(read_error)?;
    if !metadata.is_file() {
        return Err(no_file());
    }
    let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.len() <= ONE_CALL && (is_ordinary(mode) || to.to_posix().is_err()) {
        let mut bytes = Vec::new();
        let mut source = source.take(MAX_GROWN + 1);
        let read = source.read_to_end(&mut bytes).await.map_err(read_error)?;
        if read as u64 > MAX_GROWN {
            return Err(Failure::runtime(anyhow!("{} grew while it was read", from.display())));
        }
        job.progress.add(&name, bytes.len());
        return Ok(job.environment.files().write_file(to, bytes.into()).await?);
    }
    let to = match existing(job, to).await? {
        // A new file would take the place of the link.
        Some(existing) if existing.is_symlink => job.environment.files().canonicalize(to).await?,
        _ => to.clone(),
    };
    let receiver = Receiver::start(&job.environment, &to, mode, metadata.len())?;
    let receiver = job.receiver.insert(receiver);
    let mut chunk = vec![0; CHUNK];
    let mut left = metadata.len();
    let mut shrank = false;
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let read = source.read(&mut chunk[..want]).await.map_err(read_error)?;
        shrank = read == 0;
        if shrank || !receiver.write(&chunk[..read]).await? {
            break;
        }
        left -= read as u64;
        job.progress.add(&name, read);
    }
    let finished = receiver.finish(&to).await;
    if shrank {
        return Err(Failure::runtime(anyhow!("{} shrank while it was read", from.display())));
    }
    finished?;
    job.receiver = None;
    Ok(())
}

/// Whether a new file gets this mode, or a stricter one, without being told: readable by everybody, writable for its owner.
fn is_ordinary(mode: u32) -> bool {
    mode & 0o755 == 0o644
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_files_and_programs_keep_their_modes() {
        for mode in [0o644, 0o664, 0o666] {
            assert!(is_ordinary(mode), "{mode:o}");
        }
        for mode in [0o600, 0o640, 0o604, 0o444, 0o755, 0o700, 0o645] {
            assert!(!is_ordinary(mode), "{mode:o}");
        }
    }
}
