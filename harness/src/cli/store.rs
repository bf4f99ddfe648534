//! What this machine remembers of kept sessions: one file for each, which is its owner's alone.
//!
//! The id of a session is all that an executor asks for, so that it never leaves these files but to the executor.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use rendezvous_harness::detached::MAX_NAME;
use rendezvous_wire::secret::Secret;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

/// Longest file.
const MAX_FILE: u64 = 64 * 1024;
/// Most files that are looked at.
pub(crate) const MAX_RECORDS: usize = 1024;
/// How long a session is remembered beyond the time that it can be there, so that its end is seen.
const MEMORY: Duration = Duration::from_secs(7 * 86_400);

/// What is remembered of one session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// What people call it; also the name of the file.
    pub(crate) name: String,
    /// Its id at the executor; none while it is being made.
    pub(crate) session: Option<Secret>,
    /// Where the executor is.
    pub(crate) address: String,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// When somebody was connected, in seconds since 1970.
    used_at: u64,
    /// How long it is kept without a connection, in seconds.
    retention: u64,
}

impl Record {
    /// A session that is being made.
    pub(crate) fn new(name: String, address: String, command: Vec<String>) -> Self {
        Self {
            name,
            session: None,
            address,
            command,
            used_at: now(),
            retention: 0,
        }
    }

    /// Notes what the executor has granted.
    pub(crate) fn keep(&mut self, session: Secret, retention: Duration) {
        self.session = Some(session);
        self.retention = retention.as_secs();
    }

    /// Whether its time was over so long ago that it may be forgotten, if the executor does not have it any more.
    pub(crate) fn is_long_over(&self) -> bool {
        let end = self.used_at.saturating_add(self.retention);
        end.saturating_add(MEMORY.as_secs()) < now()
    }
}

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    pub(crate) records: Vec<Record>,
    /// There are more.
    pub(crate) is_cut: bool,
}

fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_secs())
}

/// The folder with the files.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

impl Store {
    /// The folder need not exist.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Remembers a session under its name, whole or not at all. False when the name is taken.
    ///
    /// # Errors
    ///
    /// When it can be no name, or nothing can be written.
    pub(crate) fn add(&self, record: &Record) -> anyhow::Result<bool> {
        let path = self.path(&record.name)?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.with_context(|| format!("cannot make {}", self.folder.display()))?;
        let added = self
            .temporary(record)
            .and_then(|file| match file.persist_noclobber(&path) {
                Ok(_) => Ok(true),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error.error),
            });
        added.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Writes what is remembered of a session anew, whole or not at all. Another session that has the name is left alone,
    /// unless it takes it in the same moment: this looks first, and then writes.
    ///
    /// # Errors
    ///
    /// When it is not remembered any more, or cannot be written.
    pub(crate) fn update(&self, before: &Record, after: &Record) -> anyhow::Result<()> {
        let path = self.path(&before.name)?;
        if !self.has(before) {
            bail!("session `{}` was ended meanwhile", before.name);
        }
        let written = self
            .temporary(after)
            .and_then(|file| file.persist(&path).map_err(|error| error.error));
        written
            .map(drop)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Notes that somebody is connected to a session now, if it is remembered.
    pub(crate) fn touch(&self, name: &str, session: &Secret) {
        let Ok(Some(record)) = self.get(name) else { return };
        if record.session.as_ref() != Some(session) {
            return;
        }
        let used = Record {
            used_at: now(),
            ..record.clone()
        };
        if let Err(error) = self.update(&record, &used) {
            tracing::debug!(%error, "session not noted");
        }
    }

    /// Whether this very session is remembered.
    fn has(&self, record: &Record) -> bool {
        let found = self.get(&record.name);
        matches!(found, Ok(Some(found)) if found.session == record.session && found.address == record.address)
    }

    fn temporary(&self, record: &Record) -> io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new().prefix(".harness-").tempfile_in(&self.folder)?;
        write(file.as_file_mut(), record)?;
        Ok(file)
    }

    /// The session with this name, if there is one.
    ///
    /// # Errors
    ///
    /// When its file cannot be used.
    pub(crate) fn get(&self, name: &str) -> anyhow::Result<Option<Record>> {
        let path = self.path(name)?;
        match read(&path) {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot use {}", path.display())),
        }
    }

    /// Forgets a session. Another one that has the name by now is left alone.
    pub(crate) fn forget(&self, record: &Record) {
        if self.has(record)
            && let Ok(path) = self.path(&record.name)
        {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }

    /// The sessions by name, [`MAX_RECORDS`] of them at most. Files that cannot be used are left out, and told in the log.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub(crate) fn all(&self) -> anyhow::Result<Remembered> {
        let mut remembered = Remembered::default();
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(remembered),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.folder.display())),
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let is_record = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
        let mut paths = paths.filter(is_record);
        for path in paths.by_ref().take(MAX_RECORDS) {
            match read(&path) {
                Ok(record) => remembered.records.push(record),
                Err(error) => tracing::warn!(path = %path.display(), %error, "left out"),
            }
        }
        remembered.is_cut = paths.next().is_some();
        remembered.records.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(remembered)
    }

    fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        check_name(name)?;
        Ok(self.folder.join(format!("{name}.json")))
    }
}

/// Whether a session may have this name.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_allowed) || name.starts_with(['.', '-']) {
        bail!(
            "the name of a session has 1 to {MAX_NAME} letters, digits, `.`, `-` or `_`, and begins with none of `.` and `-`"
        );
    }
    Ok(())
}

/// A name for a session that runs this command.
pub(crate) fn name_for(command: &[String]) -> String {
    let program = command.first().map_or("", String::as_str);
    let program = program.rsplit('/').next().unwrap_or_default();
    let letters = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let program: String = program.chars().filter(letters).take(24).collect();
    let program = program.trim_start_matches('-');
    let program = if program.is_empty() { "session" } else { program };
    let number = getrandom::u32().unwrap_or_else(|_| std::process::id());
    format!("{program}-{:04x}", number & 0xffff)
}

fn write(file: &mut File, record: &Record) -> io::Result<()> {
    let mut text = serde_json::to_vec(record)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_all()
}

fn read(path: &Path) -> io::Result<Record> {
    let file = File::open(path)?;
    let mode = file.metadata()?.mode();
    if mode & 0o077 != 0 {
        let reason = format!("it is readable by others; run: chmod 600 {}", path.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, reason));
    }
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is too long"));
    }
    let record: Record = serde_json::from_slice(&text)?;
    let name = path.file_stem().and_then(|stem| stem.to_str());
    if name != Some(&record.name) || check_name(&record.name).is_err() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it holds another name"));
    }
    Ok(record)
}

#[cfg(test)]
mod tests;
