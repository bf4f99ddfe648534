//! Where the stock binaries are kept, and fetching those that are missing.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};

use super::Version;

/// Names a folder that holds `codex-VERSION/package/…`, as unpacked from npm.
const FOLDER_VARIABLE: &str = "RENDEZVOUS_STOCK_DIR";

/// One fetch at a time; the others find its result.
static FETCH: Mutex<()> = Mutex::new(());

pub(super) fn binary(version: Version) -> Result<PathBuf> {
    let folder = folder()?;
    let path = folder
        .join(format!("codex-{}", version.number()))
        .join("package/vendor")
        .join(target()?)
        .join("bin/codex");
    let _one = FETCH.lock();
    if !path.is_file() {
        fetch(version, &folder)?;
    }
    if !path.is_file() {
        bail!("{} is missing after the fetch", path.display());
    }
    Ok(path)
}

fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        return Ok(folder.into());
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(cache.join("rendezvous"))
}

fn target() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("x86_64-unknown-linux-musl"),
        "aarch64" => Ok("aarch64-unknown-linux-musl"),
        other => bail!("no stock binary for {other}"),
    }
}

fn fetch(version: Version, folder: &std::path::Path) -> Result<()> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fetch-stock");
    let status = Command::new(script)
        .arg(folder)
        .arg(version.number())
        .status()
        .with_context(|| format!("start {script}"))?;
    if !status.success() {
        bail!(
            "{script} could not fetch the stock binary {}: {status}",
            version.number()
        );
    }
    Ok(())
}
