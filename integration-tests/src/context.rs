//! What a test owns: its name, a folder, and the output of everything that it started.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::program::Output;

/// Lines of each program's output that a failed test shows.
const SHOWN_LINES: usize = 120;

/// One running test. Clones are the same test.
#[derive(Clone, Debug)]
pub struct Context {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: TempDir,
    logs: Mutex<Vec<(String, Output)>>,
}

impl Context {
    /// A test with an empty folder.
    ///
    /// # Errors
    ///
    /// The folder could not be made.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("rendezvous-test-")
            .tempdir()
            .context("folder of the test")?;
        let inner = Arc::new(Inner {
            folder,
            logs: Mutex::default(),
        });
        Ok(Self { inner })
    }

    /// The test's folder; it goes with the test.
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// A folder inside the test's folder, made if it is missing.
    ///
    /// # Errors
    ///
    /// The folder could not be made.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder().join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("folder {}", path.display()))?;
        Ok(path)
    }

    /// A file inside the test's folder that only its owner can read.
    ///
    /// # Errors
    ///
    /// The file could not be written.
    pub fn secret_file(&self, name: &str, content: &str) -> Result<PathBuf> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.folder().join(name);
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("file {}", path.display()))?;
        file.write_all(content.as_bytes())?;
        Ok(path)
    }

    /// Remembers a program's output for [`Self::report`].
    pub(crate) fn keep_log(&self, name: String, output: Output) {
        let mut logs = self.inner.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.push((name, output));
    }

    /// The last lines of everything that the test's programs wrote.
    pub fn report(&self) -> String {
        let logs = self.inner.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = String::new();
        for (name, output) in logs.iter() {
            let text = String::from_utf8_lossy(&output.bytes()).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            let skipped = lines.len().saturating_sub(SHOWN_LINES);
            if lines.is_empty() {
                continue;
            }
            let _ = writeln!(
                report,
                "---- {name} ({} lines, the first {skipped} not shown)",
                lines.len()
            );
            for line in &lines[skipped..] {
                let shown: String = line.chars().take(400).collect();
                let _ = writeln!(report, "{shown}");
            }
        }
        report
    }
}
