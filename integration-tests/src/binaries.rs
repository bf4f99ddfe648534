//! Where the binaries under test are.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// Names the folder that holds `registry`, `relay`, `executor` and `harness`.
pub const FOLDER_VARIABLE: &str = "RENDEZVOUS_BIN_DIR";

/// The path of one of our binaries: from `RENDEZVOUS_BIN_DIR`, else from the folder that the test was built into.
///
/// # Errors
///
/// The binary was not built; the message says how to build it.
pub fn ours(name: &str) -> Result<PathBuf> {
    let folder = match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => {
            let test = std::env::current_exe().context("path of the test program")?;
            let folder = test
                .ancestors()
                .nth(2)
                .context("the test program has no build folder")?;
            folder.to_owned()
        }
    };
    let path = folder.join(name);
    if !path.is_file() {
        bail!(
            "{} is missing: build it first with `cargo build -p rendezvous-{name}`, or set {FOLDER_VARIABLE}",
            path.display()
        );
    }
    Ok(path)
}

/// The path of a tool of the system.
///
/// # Errors
///
/// The tool is not installed; the message says which Debian package has it.
pub fn tool(name: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("`{name}` is missing: apt-get install -y {package}"))
}
