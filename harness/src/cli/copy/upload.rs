//! To the executor.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use rendezvous_harness::stdin::CHUNK;
use rendezvous_harness::{HarnessError, PathUri, ProcessEvent, ProcessSpec, Stdin};

use super::{Job, below};
use crate::cli::{Failure, say};

/// Largest file that one call writes. Larger ones, and programs, go through a process that renames when it has everything.
const ONE_CALL: u64 = 256 * 1024;
/// `$1` is the temporary file, `$2` the file, `$3` the mode, `$4` the size. Only a complete file takes its place.
const RECEIVER: &str = r#"umask 022
if cat >"$1" && [ "$(wc -c <"$1")" -eq "$4" ] && chmod "$3" "$1"; then mv -f "$1" "$2"; else rm -f "$1"; exit 1; fi"#;
/// Most of a receiver's complaints that is shown.
const MAX_COMPLAINT: usize = 1024;

pub(super) async fn upload(job: &mut Job, from: &Path, to: &PathUri) -> Result<(), Failure> {
    let metadata = std::fs::metadata(from)
        .with_context(|| format!("cannot read {}", from.display()))
        .map_err(Failure::runtime)?;
    let existing = match job.harness.metadata(to).await {
        Ok(metadata) => Some(metadata),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let to = match (existing, base_name(from)) {
        (Some(existing), Some(name)) if existing.is_directory => below(to, &name)?,
        _ => to.clone(),
    };
    if !metadata.is_dir() {
        return file(job, from, &to).await;
    }
    if !job.recursive {
        return Err(Failure::usage(anyhow!("{} is a directory; use -r", from.display())));
    }
    job.harness.create_directory(&to).await?;
    let mut left: Vec<(PathBuf, PathUri)> = vec![(from.to_owned(), to)];
    while let Some((from, to)) = left.pop() {
        let entries = std::fs::read_dir(&from)
            .with_context(|| format!("cannot list {}", from.display()))
            .map_err(Failure::runtime)?;
        for entry in entries {
            let entry = entry.map_err(Failure::runtime)?;
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(Failure::runtime(anyhow!(
                    "{} has a name that is no UTF-8",
                    path.display()
                )));
            };
            let target = below(&to, name)?;
            let kind = entry.file_type().map_err(Failure::runtime)?;
            if kind.is_dir() {
                job.harness.create_directory(&target).await?;
                left.push((path, target));
            } else if kind.is_file() {
                file(job, &path, &target).await?;
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

async fn file(job: &mut Job, from: &Path, to: &PathUri) -> Result<(), Failure> {
    let read_error = || format!("cannot read {}", from.display());
    let mut source = std::fs::File::open(from)
        .with_context(read_error)
        .map_err(Failure::runtime)?;
    let metadata = source.metadata().with_context(read_error).map_err(Failure::runtime)?;
    let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && metadata.len() <= ONE_CALL && mode & 0o111 == 0 {
        let mut bytes = Vec::new();
        source
            .read_to_end(&mut bytes)
            .with_context(read_error)
            .map_err(Failure::runtime)?;
        job.progress.add(&name, bytes.len());
        return Ok(job.harness.write_file(to, bytes.into()).await?);
    }
    if !metadata.is_file() {
        return Err(Failure::runtime(anyhow!("{} is no regular file", from.display())));
    }
    let native = String::from_utf8(to.to_posix().map_err(Failure::runtime)?)
        .map_err(|_| Failure::runtime(anyhow!("{to} is no UTF-8")))?;
    let temporary = format!("{native}.{}.part", std::process::id());
    let mut spec = ProcessSpec::new([
        "/bin/sh",
        "-c",
        RECEIVER,
        "sh",
        &temporary,
        &native,
        &format!("{mode:o}"),
        &metadata.len().to_string(),
    ]);
    spec.stdin = Stdin::Pipe;
    let mut process = job.harness.start(spec).await?;
    let control = process.control();
    let ended = tokio::spawn(async move {
        let (mut complaint, mut exit) = (Vec::new(), None);
        while let Some(event) = process.next().await? {
            match event {
                ProcessEvent::Output { bytes, .. } if complaint.len() < MAX_COMPLAINT => {
                    complaint.extend_from_slice(&bytes)
                }
                ProcessEvent::Exited { code, .. } => exit = Some(code),
                ProcessEvent::Output { .. } | ProcessEvent::Closed => {}
            }
        }
        Ok::<_, HarnessError>((complaint, exit))
    });
    let mut chunk = vec![0; CHUNK];
    let mut left = metadata.len();
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let read = source
            .read(&mut chunk[..want])
            .with_context(read_error)
            .map_err(Failure::runtime)?;
        if read == 0 {
            break;
        }
        match control.write(&chunk[..read]).await {
            Ok(()) => {}
            // The receiver gave up; it says why.
            Err(HarnessError::StdinClosed) => break,
            Err(error) => return Err(error.into()),
        }
        left -= read as u64;
        job.progress.add(&name, read);
    }
    control.close_stdin().await?;
    let (complaint, exit) = ended.await.map_err(Failure::runtime)??;
    if exit == Some(0) && left == 0 {
        return Ok(());
    }
    let complaint: String = String::from_utf8_lossy(&complaint)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_COMPLAINT)
        .collect();
    Err(Failure::runtime(anyhow!("cannot write {to}: {}", complaint.trim())))
}
