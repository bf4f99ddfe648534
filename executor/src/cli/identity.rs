//! Which key this executor has, and whom it serves.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::FalseyValueParser;
use rendezvous_executor::credential;
use rendezvous_host::state;
use rendezvous_identity::{AuthorizedHarnesses, FileError, IdentityError, IdentityFile, Keyring, Passphrase, time};
use rendezvous_service::exit::{Exit, Failure};

/// Name of the file in the state directory.
const FILE_NAME: &str = "executor-identity";

/// The file with the executor's keys, and what opens it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Identity")]
pub(super) struct FileArgs {
    /// File with this executor's key [default: executor-identity in the state directory]
    ///
    /// The state directory is the service's own (STATE_DIRECTORY, from systemd), else `rendezvous` in XDG_STATE_HOME or in
    /// ~/.local/state.
    #[arg(long, value_name = "FILE", env = "EXECUTOR_IDENTITY_FILE")]
    identity_file: Option<PathBuf>,
    /// File with the passphrase of that file, `-` for stdin; else EXECUTOR_IDENTITY_PASSPHRASE
    #[arg(long, value_name = "FILE", env = "EXECUTOR_IDENTITY_PASSPHRASE_FILE")]
    identity_passphrase_file: Option<PathBuf>,
    /// Where a predecessor left the passphrase
    #[arg(long, value_name = "FD", hide = true)]
    identity_passphrase_fd: Option<RawFd>,
}

impl FileArgs {
    /// Whether the passphrase is wanted from the environment.
    pub(super) fn wants_passphrase(&self) -> bool {
        self.identity_passphrase_file.is_none()
    }

    /// Whether the passphrase comes from stdin.
    pub(super) fn reads_stdin(&self) -> bool {
        let file = self.identity_passphrase_file.as_deref();
        file.is_some_and(|file| file == Path::new("-"))
    }

    /// Whether nobody said anything about the file.
    fn is_default(&self) -> bool {
        let is_encrypted = self.identity_passphrase_file.is_some() || self.identity_passphrase_fd.is_some();
        self.identity_file.is_none() && !is_encrypted
    }

    /// The file; none if nobody said anything about it, and there is no state directory.
    fn file_unless_homeless(&self) -> Result<Option<IdentityFile>, Failure> {
        if self.is_default() && state::directory().is_none() {
            return Ok(None);
        }
        self.file().map(Some)
    }

    /// The file, with its passphrase read.
    pub(super) fn file(&self) -> Result<IdentityFile, Failure> {
        let path = match &self.identity_file {
            Some(path) => path.clone(),
            None => default_file()?,
        };
        let passphrase = match &self.identity_passphrase_file {
            Some(file) => Some(Passphrase::read(file).map_err(Failure::usage)?),
            None => credential::load_passphrase(self.identity_passphrase_fd).map_err(Failure::usage)?,
        };
        Ok(IdentityFile::new(path, passphrase))
    }
}

/// A key for this life of the process only: executors that nobody gave a place keep starting, as harnesses can see.
fn without_a_place(reason: &str) -> Keyring {
    tracing::warn!(
        reason,
        "no place for this executor's key, so that it has a new one each time; use --identity-file, or --ephemeral-identity \
         if that is meant"
    );
    Keyring::ephemeral()
}

fn default_file() -> Result<PathBuf, Failure> {
    let folder = state::directory().ok_or_else(|| {
        Failure::usage(
            "no place for this executor's key: HOME is not set; use --identity-file, or --ephemeral-identity for a new key \
             each time",
        )
    })?;
    Ok(folder.join(FILE_NAME))
}

/// Who this executor is, and whom it serves.
#[derive(Debug, Args)]
#[command(next_help_heading = "Identity")]
pub(super) struct IdentityArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Have a new key each time, in memory only, as stock executors do; harnesses cannot tell this executor from another
    #[arg(long, env = "EXECUTOR_EPHEMERAL_IDENTITY", value_parser = FalseyValueParser::new())]
    ephemeral_identity: bool,
    /// Serve only the harnesses whose fingerprints stand in this file, one a line, whatever the registry says
    ///
    /// The file is read again when it changes. While it cannot be read, nobody is admitted.
    #[arg(long, value_name = "FILE", env = "EXECUTOR_AUTHORIZED_HARNESSES")]
    authorized_harnesses: Option<PathBuf>,
}

impl IdentityArgs {
    pub(super) fn wants_passphrase(&self) -> bool {
        !self.ephemeral_identity && self.file.wants_passphrase()
    }

    pub(super) fn reads_stdin(&self) -> bool {
        !self.ephemeral_identity && self.file.reads_stdin()
    }

    /// The keys; makes the file if it is missing.
    pub(super) fn keys(&self) -> Result<Keyring, Failure> {
        if self.ephemeral_identity {
            return Ok(Keyring::ephemeral());
        }
        let Some(file) = self.file.file_unless_homeless()? else {
            return Ok(without_a_place("HOME is not set"));
        };
        let now = time::now();
        match file.open_or_create(now) {
            Ok(keys) => Ok(keys.keyring(now)),
            Err(IdentityError::File(error @ FileError::Write { .. })) if self.file.is_default() => {
                Ok(without_a_place(&format!("{:#}", anyhow::Error::new(error))))
            }
            Err(error) => Err(unusable(error)),
        }
    }

    /// Whether a list says who may come.
    pub(super) fn has_list(&self) -> bool {
        self.authorized_harnesses.is_some()
    }

    /// Who may come, if that is said.
    pub(super) fn authorized(&self) -> Result<Option<Arc<AuthorizedHarnesses>>, Failure> {
        let opened = self.authorized_harnesses.as_ref().map(AuthorizedHarnesses::open);
        let opened = opened.transpose().map_err(Failure::usage)?;
        Ok(opened.map(Arc::new))
    }
}

/// With what a person can do about it.
pub(super) fn unusable(error: IdentityError) -> Failure {
    let hint = match &error {
        IdentityError::PassphraseNeeded(_) => "; use --identity-passphrase-file or EXECUTOR_IDENTITY_PASSPHRASE",
        IdentityError::File(FileError::Missing(_)) => "; make one with `executor identity create`",
        IdentityError::NotEncrypted(_) => "; encrypt it with `executor identity passphrase`, or give none",
        IdentityError::File(FileError::Read { .. } | FileError::Write { .. }) => {
            "; use --identity-file for another place, or --ephemeral-identity for a new key each time"
        }
        _ => "",
    };
    let exit = if error.is_about_passphrase() {
        Exit::NotAuthorized
    } else {
        Exit::Usage
    };
    Failure::new(exit, Unusable { hint, error })
}

#[derive(Debug, thiserror::Error)]
#[error("cannot use this executor's key{hint}")]
struct Unusable {
    hint: &'static str,
    #[source]
    error: IdentityError,
}
