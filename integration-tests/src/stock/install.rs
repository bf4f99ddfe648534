//! Where the stock binaries are.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::Version;

/// Names a folder that holds `codex-VERSION/package/…`, as unpacked from npm.
const FOLDER_VARIABLE: &str = "RENDEZVOUS_STOCK_DIR";

pub(super) fn binary(version: Version) -> Result<PathBuf> {
    let number = version.number();
    let path = folder()?
        .join(format!("codex-{number}/package/vendor"))
        .join(target()?)
        .join("bin/codex");
    if !path.is_file() {
        bail!(
            "{} is missing: ./integration-tests/run fetches it, or unpack the output of `npm pack \
             @openai/codex@{number}-linux-x64` there",
            path.display()
        );
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
